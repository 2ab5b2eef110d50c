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

// A supervisor is the service manager that started the process, systemd in most cases, as sd_notify(3) describes it.
type supervisor struct {
	socket   string        // path of a datagram socket that takes our messages; empty: nobody supervises the process
	patience time.Duration // longest silence before the supervisor restarts the process; 0: no watchdog
}

// supervisorOf reads what a service manager has left in the environment. Variables that are meant for another process,
// such as a parent of this one, count as absent.
func supervisorOf(env func(string) string) supervisor {
	s := supervisor{socket: env("NOTIFY_SOCKET")}
	if pid := env("WATCHDOG_PID"); s.socket == "" || pid != "" && pid != strconv.Itoa(os.Getpid()) {
		return s
	}
	if us, err := strconv.ParseInt(env("WATCHDOG_USEC"), 10, 64); err == nil && us > 0 && us < int64(24*time.Hour/time.Microsecond) {
		s.patience = time.Duration(us) * time.Microsecond
	}
	return s
}

// tell sends the supervisor one assignment, such as READY=1. A name that begins with @ is one of Linux' abstract
// sockets, which package net knows.
func (s supervisor) tell(message string) error {
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: s.socket, Net: "unixgram"})
	if err == nil {
		_, err = conn.Write([]byte(message))
		_ = conn.Close() // the datagram has been sent, or err says why not
	}
	if err != nil {
		return fmt.Errorf("tell the service manager %s: %w", message, err)
	}
	return nil
}

// supervised runs a node and tells the service manager meanwhile how it is. run ends some time after ctx. alive
// returns nil if the node's loop has answered. Everything that supervised has started has ended when it returns.
func supervised(ctx context.Context, s supervisor, alive, run func(context.Context) error, complain func(error)) error {
	if s.socket == "" {
		return run(ctx)
	}
	running, ended := context.WithCancel(context.WithoutCancel(ctx))
	var telling sync.WaitGroup
	telling.Go(func() {
		superviseWith(running, ctx.Done(), s.patience, alive, func(message string) {
			if err := s.tell(message); err != nil {
				complain(err)
			}
		})
	})
	err := run(ctx)
	ended()
	telling.Wait()
	return err
}

// superviseWith tells READY=1 when the node answers for the first time, WATCHDOG=1 as often as it answers, and STOPPING=1 when
// stopping is closed. It returns when running ends.
//
// The node is asked four times within patience, and has a quarter of it to answer. So two answers of a node that is
// merely slow are at most half of patience apart. A node whose loop hangs is silent, and the supervisor restarts it.
func superviseWith(running context.Context, stopping <-chan struct{}, patience time.Duration, alive func(context.Context) error, tell func(string)) {
	pace := patience / 4
	if patience == 0 {
		pace = time.Second // until it is ready
	}
	answers := func() bool {
		asking, cancel := context.WithTimeout(running, pace)
		defer cancel()
		return alive(asking) == nil
	}
	next := time.NewTicker(pace)
	defer next.Stop()
	starting := true
	for {
		if (patience > 0 || starting) && answers() {
			if starting {
				tell("READY=1")
				starting = false
			}
			if patience > 0 {
				tell("WATCHDOG=1")
			} else {
				next.Stop()
			}
		}
		select {
		case <-next.C:
		case <-stopping:
			tell("STOPPING=1")
			stopping, starting = nil, false // said once; the watchdog goes on while the node takes its leave
		case <-running.Done():
			return
		}
	}
}
