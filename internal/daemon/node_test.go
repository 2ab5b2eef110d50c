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

// asNode is the environment variable that turns this test binary into a node. It holds a role.
const asNode = "TIDINGS_TEST_NODE"

func TestMain(m *testing.M) {
	if role := os.Getenv(asNode); role != "" {
		os.Exit(runNodeProcess(role))
	}
	if err := libp2p.SetLog(slog.DiscardHandler); err != nil {
		panic(err)
	}
	// Most parallel tests wait for nodes and leave the processors idle. By default, go test runs only as many
	// of them at a time as there are processors, and most CI machines have two.
	if err := flag.Set("test.parallel", "24"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// A role is the part of a Config that a node process is given at its start.
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
	N       int    // number of the order, for its answer
	Do      string // route, subscribe, publish, status
	Key     overlay.ID
	Payload string
	Limit   time.Duration
}

// A report is a line of a node's standard output: the answer to an order, or an event (N is 0).
type report struct {
	N        int        `json:",omitempty"`
	Err      string     `json:",omitempty"`
	Root     overlay.ID `json:",omitzero"`
	Snapshot *Snapshot  `json:",omitempty"`
	Listens  []string   `json:",omitempty"` // in the first event: where it listens
	Addrs    []string   `json:",omitempty"` // and where others can join through it
	Group    overlay.ID `json:",omitzero"`  // event of a delivery
	Payload  string     `json:",omitempty"`
}

// runNodeProcess runs one node until its standard input ends. Logs go to standard error.
func runNodeProcess(written string) (code int) {
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
	reports <- report{Listens: d.host.Listens(), Addrs: d.host.Addrs()}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	obeyed := make(chan struct{})
	go func() {
		defer close(obeyed)
		defer cancel()
		if err := serveOrders(ctx, d, os.Stdin, reports); err != nil {
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

// serveOrders carries out orders concurrently until there are no more.
func serveOrders(ctx context.Context, d *Daemon, orders io.Reader, reports chan<- report) error {
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
			r, err := execute(ctx, d, o)
			if r.N = o.N; err != nil {
				r.Err = err.Error()
			}
			reports <- r
		}()
	}
	return lines.Err()
}

func execute(ctx context.Context, d *Daemon, o order) (report, error) {
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
