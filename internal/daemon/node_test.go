package daemon

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/libp2p"
	"tidings/overlay/scribe"
)

// asNode is the environment variable that makes this test binary a node. It
// holds a role.
const asNode = "TIDINGS_TEST_NODE"

func TestMain(m *testing.M) {
	if role := os.Getenv(asNode); role != "" {
		os.Exit(beNode(role))
	}
	if err := libp2p.SetLog(slog.DiscardHandler); err != nil {
		panic(err)
	}
	// Most tests that run side by side wait for nodes and leave the processors idle. go
	// test runs as many of them at a time as there are processors, and most machines of
	// CI have two.
	if err := flag.Set("test.parallel", "24"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// A role is what a node process is told at its start: the parts of a Config that
// can be written down.
type role struct {
	Dir           string
	Found         *wire.Network
	Network       string
	Bootstrap     []string
	Listen        []string
	RefuseInbound bool
}

// An order is a line of a node's standard input.
type order struct {
	N       int    // of the order, for its answer
	Do      string // route, subscribe, publish, status
	Key     overlay.ID
	Payload string
	Limit   time.Duration
}

// A report is a line of a node's standard output: the answer to an order, or
// news (N is 0).
type report struct {
	N        int        `json:",omitempty"`
	Err      string     `json:",omitempty"`
	Root     overlay.ID `json:",omitzero"`
	Snapshot *Snapshot  `json:",omitempty"`
	Listens  []string   `json:",omitempty"` // first news: where it listens
	Addrs    []string   `json:",omitempty"` // and can be joined through
	Group    overlay.ID `json:",omitzero"`  // news of a delivery
	Payload  string     `json:",omitempty"`
}

// beNode is a process that runs one node until its standard input ends. What it
// logs goes to standard error.
func beNode(written string) (code int) {
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	if err := libp2p.SetLog(slog.DiscardHandler); err != nil {
		panic(err)
	}
	var r role
	if err := json.Unmarshal([]byte(written), &r); err != nil {
		panic(err)
	}
	reports := make(chan report, 1<<16)
	go func() {
		out := json.NewEncoder(os.Stdout)
		for r := range reports {
			if out.Encode(r) != nil {
				return
			}
		}
	}()
	c := DefaultConfig(r.Dir)
	c.Found, c.Network, c.Bootstrap, c.Listen = r.Found, r.Network, r.Bootstrap, r.Listen
	c.RefuseInbound, c.PortMap, c.Log = r.RefuseInbound, false, log
	c.HTTP = noHTTP
	c.Deliver = func(d scribe.Delivery) { reports <- report{Group: d.Group, Payload: string(d.Payload)} }
	d, err := Open(c)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	reports <- report{Listens: d.host.ListenAddrs(), Addrs: d.host.Addrs()}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	obeyed := make(chan struct{})
	go func() {
		defer close(obeyed)
		defer cancel()
		if err := obey(ctx, d, os.Stdin, reports); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}()
	if err := d.Run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "run:", err)
		return 1
	}
	<-obeyed
	return 0
}

// obey carries out orders, all at once, until there are no more.
func obey(ctx context.Context, d *Daemon, orders io.Reader, reports chan<- report) error {
	lines := bufio.NewScanner(orders)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var o order
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
			return err
		}
		go func() {
			ctx, cancel := context.WithTimeout(ctx, o.Limit)
			defer cancel()
			r, err := carryOut(ctx, d, o)
			if r.N = o.N; err != nil {
				r.Err = err.Error()
			}
			reports <- r
		}()
	}
	return lines.Err()
}

func carryOut(ctx context.Context, d *Daemon, o order) (report, error) {
	switch o.Do {
	case "route":
		got, err := d.Route(ctx, o.Key, []byte(o.Payload))
		return report{Root: got.Root}, err
	case "subscribe":
		return report{}, d.JoinGroup(ctx, o.Key, 1)
	case "publish":
		return report{}, d.PublishGroup(ctx, o.Key, []byte(o.Payload))
	case "status":
		s, err := d.Snapshot(ctx)
		return report{Snapshot: &s}, err
	}
	return report{}, errors.New("no such order: " + o.Do)
}
