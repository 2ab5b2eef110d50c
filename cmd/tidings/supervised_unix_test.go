//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A real node reports to a service manager, continues after SIGHUP, answers healthcheck and stops on SIGTERM.
func TestNodeAsAService(t *testing.T) {
	skipIfShort(t)
	dir := t.TempDir()
	socket := filepath.Join(dir, "notify")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Close()
	hears := func(message string) {
		t.Helper()
		if err := manager.SetReadDeadline(time.Now().Add(timeout)); err != nil {
			t.Fatal(err)
		}
		for b := make([]byte, 4096); ; {
			n, err := manager.Read(b)
			if err != nil {
				t.Fatalf("the node never tells %s: %v", message, err)
			}
			if string(b[:n]) == message {
				return
			}
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r := &nodeProcess{t: t, dir: filepath.Join(dir, "node"), env: []string{"NOTIFY_SOCKET=" + socket, "WATCHDOG_USEC=2000000"}}
	r.start(self, "127.0.0.1:0", "/ip4/127.0.0.1/tcp/0")
	hears("READY=1")
	hears("WATCHDOG=1")

	if err := r.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	eventually(t, timeout, "a word about SIGHUP", func() error {
		if !strings.Contains(r.stderr.String(), "SIGHUP is ignored: restart the node to apply changed settings") {
			return fmt.Errorf("the log has none:\n%s", r.stderr)
		}
		return nil
	})
	healthcheck := func() (string, string, int) {
		var out, words bytes.Buffer
		code := run(context.Background(), []string{"healthcheck", "--http", r.http}, strings.NewReader(""), &out, &words)
		return out.String(), words.String(), code
	}
	if out, words, code := healthcheck(); out != "ok\n" || words != "" || code != exitDone {
		t.Errorf("healthcheck of a node that lives: %q, %q, code %d", out, words, code)
	}

	r.stopExpected = true
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	hears("STOPPING=1")
	select {
	case <-r.ended:
	case <-time.After(timeout):
		t.Fatal("the node does not end")
	}
	if !r.cmd.ProcessState.Success() {
		t.Errorf("the node ended with %v", r.cmd.ProcessState)
	}
	if out, words, code := healthcheck(); out != "" || strings.Count(words, "\n") != 1 || code != exitFailed {
		t.Errorf("healthcheck of a node that has ended: %q, %q, code %d", out, words, code)
	}
}

// A node without a service manager sends no messages, and nothing waits for it.
func TestNodeOnItsOwnIsNotSupervised(t *testing.T) {
	ran := false
	err := runSupervised(t.Context(), supervisor{}, nil, func(context.Context) error { ran = true; return io.EOF }, nil)
	if !ran || !errors.Is(err, io.EOF) {
		t.Errorf("ran %v, %v", ran, err)
	}
}
