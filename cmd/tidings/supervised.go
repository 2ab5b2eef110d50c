package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"time"
)

// A supervisor is the service manager that started the process, usually systemd, as described in sd_notify(3).
type supervisor struct {
	socket   string        // path of the datagram socket for messages; "" if the process is not supervised
	watchdog time.Duration // longest silence before the supervisor restarts the process; 0 for no watchdog
}

// supervisorOf reads the environment variables of a service manager. Variables for another process, such as the
// parent of this one, are ignored.
func supervisorOf(env func(string) string) supervisor {
	s := supervisor{socket: env("NOTIFY_SOCKET")}
	if pid := env("WATCHDOG_PID"); s.socket == "" || pid != "" && pid != strconv.Itoa(os.Getpid()) {
		return s
	}
	if us, err := strconv.ParseInt(env("WATCHDOG_USEC"), 10, 64); err == nil && us > 0 && us < int64(24*time.Hour/time.Microsecond) {
		s.watchdog = time.Duration(us) * time.Microsecond
	}
	return s
}

// notify sends one assignment to the supervisor, such as READY=1. A name that begins with @ is an abstract socket
// of Linux, which package net supports.
func (s supervisor) notify(message string) error {
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: s.socket, Net: "unixgram"})
	if err == nil {
		_, err = conn.Write([]byte(message))
		_ = conn.Close() // the datagram was sent, or err says why not
	}
	if err != nil {
		return fmt.Errorf("notify the service manager of %s: %w", message, err)
	}
	return nil
}

// runSupervised runs a node, and reports its state to the service manager meanwhile. run ends some time after ctx.
// alive returns nil if the node's loop has answered. All goroutines have ended when runSupervised returns.
func runSupervised(ctx context.Context, s supervisor, alive, run func(context.Context) error, onError func(error)) error {
	if s.socket == "" {
		return run(ctx)
	}
	loopCtx, stopLoop := context.WithCancel(context.WithoutCancel(ctx))
	var notifying sync.WaitGroup
	notifying.Go(func() {
		notifyLoop(loopCtx, ctx.Done(), s.watchdog, alive, func(message string) {
			if err := s.notify(message); err != nil {
				onError(err)
			}
		})
	})
	err := run(ctx)
	stopLoop()
	notifying.Wait()
	return err
}

// notifyLoop sends READY=1 when the node answers for the first time, WATCHDOG=1 each time it answers, and
// STOPPING=1 when stopping is closed. It returns when ctx ends.
//
// The node is asked four times per watchdog period, and has a quarter of the period to answer. So two messages of a
// node that is merely slow are at most half a period apart. If the node's loop hangs, no message is sent, and the
// supervisor restarts the node.
func notifyLoop(ctx context.Context, stopping <-chan struct{}, watchdog time.Duration, alive func(context.Context) error, notify func(string)) {
	interval := watchdog / 4
	if watchdog == 0 {
		interval = time.Second // until the node is ready
	}
	isAlive := func() bool {
		asked, cancel := context.WithTimeout(ctx, interval)
		defer cancel()
		return alive(asked) == nil
	}
	next := time.NewTicker(interval)
	defer next.Stop()
	starting := true
	for {
		if (watchdog > 0 || starting) && isAlive() {
			if starting {
				notify("READY=1")
				starting = false
			}
			if watchdog > 0 {
				notify("WATCHDOG=1")
			} else {
				next.Stop()
			}
		}
		select {
		case <-next.C:
		case <-stopping:
			notify("STOPPING=1")
			stopping, starting = nil, false // sent once; WATCHDOG=1 continues while the node leaves its network
		case <-ctx.Done():
			return
		}
	}
}
