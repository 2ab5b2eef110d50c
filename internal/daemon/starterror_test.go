package daemon

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"tidings/internal/store"
)

func TestStartErrorIsOneLine(t *testing.T) {
	t.Parallel()
	network := laboratory("unlucky")
	running := Config{Dir: t.TempDir(), HTTP: "127.0.0.1:0", Listen: []string{"/ip4/127.0.0.1/tcp/0"}, Found: &network}
	d, err := Open(running)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}()
	snap, err := d.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	taken, _, _ := strings.Cut(snap.Listens[0], "/p2p/")
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		change func(*Config)
		want   string
		is     error
	}{
		{"the data directory is a file", func(c *Config) { c.Dir = file }, "data directory " + file + ": it is not a directory", syscall.ENOTDIR},
		{"the data directory is below a file", func(c *Config) { c.Dir = filepath.Join(file, "x") }, "file/x: it is not a directory", syscall.ENOTDIR},
		{"another node has the data directory", func(c *Config) { c.Dir = running.Dir }, "another process uses it, perhaps another node; stop that process, or choose another directory with --data", nil},
		{"another node has the port of readers", func(c *Config) { c.HTTP = d.HTTPAddr().String() }, "another port with --http", syscall.EADDRINUSE},
		{"another node has the port of peers", func(c *Config) { c.Listen = []string{taken} }, "listen for other nodes at " + taken + ": the port is taken", syscall.EADDRINUSE},
		{"readers at an address of another machine", func(c *Config) { c.HTTP = "192.0.2.7:8190" }, "does not have the address; choose another one with --http", syscall.EADDRNOTAVAIL},
		{"peers at an address of another machine", func(c *Config) { c.Listen = []string{"/ip4/192.0.2.7/udp/4801/quic-v1"} }, "does not have the address; choose another one with --listen", syscall.EADDRNOTAVAIL},
		{"no multiaddr", func(c *Config) { c.Listen = []string{"0.0.0.0:4801"} }, "give one such as /ip4/", nil},
		{"no peer id", func(c *Config) { c.Bootstrap = []string{"/ip4/192.0.2.7/tcp/4801"} }, "no peer id at its end", nil},
		{"no address of a peer", func(c *Config) { c.Bootstrap = []string{"192.0.2.7:4801"} }, "not the address of a node", nil},
	} {
		config := running
		config.Dir, config.HTTP = t.TempDir(), noHTTP
		c.change(&config)
		other, err := Open(config)
		if err == nil {
			_ = other.Close() // it should not have opened
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") || c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	// A node skips an address that the machine does not have, if it can listen at another one.
	config := running
	config.Dir, config.HTTP, config.Listen = t.TempDir(), noHTTP, []string{"/ip4/192.0.2.7/tcp/4801", "/ip4/127.0.0.1/tcp/0"}
	other, err := Open(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Close(); err != nil {
		t.Error(err)
	}
}

func TestErrorsOfADataDirectoryHaveOneForm(t *testing.T) {
	at := func(op, path string, err error) error { return &fs.PathError{Op: op, Path: path, Err: err} }
	for _, c := range []struct {
		err  error
		want string
	}{
		{at("mkdir", "/d", syscall.EACCES), "data directory /d: cannot create it: permission denied; run tidings as the owner of the directory, or choose another directory with --data"},
		{at("open", "/d/tidings.db", syscall.EACCES), "data directory /d: cannot open tidings.db: permission denied; run tidings as the owner of the directory, or choose another directory with --data"},
		{at("open", "/d/x", syscall.EROFS), "data directory /d: cannot open x: the file system is read-only; choose another directory with --data"},
		{at("mkdir", "/", syscall.EINVAL), "data directory /d: cannot create /: invalid argument; check what is there, or choose another directory with --data"},
		{&os.LinkError{Op: "rename", Old: "/d/network.new", New: "/d/network", Err: syscall.EIO}, "data directory /d: cannot write network: input/output error; check what is there, or choose another directory with --data"},
		{at("write", "/d/network", syscall.ENOSPC), "data directory /d: the disk is full; free space on it, or choose another directory with --data"},
		{fmt.Errorf("store: %w", store.ErrFull), "data directory /d: the disk is full; free space on it, or choose another directory with --data"},
		{store.ErrInUse, "data directory /d: another process uses it, perhaps another node; stop that process, or choose another directory with --data"},
		{store.ErrNewer, "data directory /d: a newer version of tidings wrote it, and nothing was changed; run that version, or choose another directory with --data"},
		{at("mkdir", "/d", syscall.ENOTDIR), "data directory /d: it is not a directory, or a part of its path is not; choose another directory with --data"},
		{damagedFile("/d/network", "why", "remove it", io.EOF), "data directory /d: network is damaged (why); remove it"},
		{errors.New("as it is"), "as it is"},
	} {
		if got := fileError("/d", c.err); got.Error() != c.want {
			t.Errorf("%v", got)
		} else if !errors.Is(got, c.err) {
			t.Errorf("%v has lost its cause", got)
		}
	}
	if got := listenError("serve readers at :80", "--http", syscall.EACCES).Error(); !strings.Contains(got, "choose a higher port with --http") {
		t.Error(got)
	}
}
