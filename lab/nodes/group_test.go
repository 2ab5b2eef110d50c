package nodes

import (
	"context"
	"encoding/gob"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"tidings/overlay"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A fakeNode has no network; it records what it was told.
type fakeNode struct {
	plan  Plan
	ended error // the node ends with this error at once

	mu       sync.Mutex
	followed []string
	left     bool
}

func (d *fakeNode) Run(ctx context.Context) error {
	if d.ended != nil {
		return d.ended
	}
	<-ctx.Done()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.left = true
	return nil
}

func (d *fakeNode) Inspect(context.Context) (NodeState, error) {
	return NodeState{ID: overlay.Key("doll", d.plan.Dir), Addrs: d.plan.Bootstrap, Member: true}, nil
}

func (d *fakeNode) Root(_ context.Context, key overlay.ID) (overlay.ID, error) {
	if key == (overlay.ID{}) {
		return overlay.ID{1}, errors.New("no such key")
	}
	return key, nil
}

func (d *fakeNode) Follow(_ context.Context, url string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.followed = append(d.followed, url)
	return nil
}

// serveFakes runs a group of fake nodes until the test ends, and returns a function that sends
// commands.
func serveFakes(t *testing.T, open Opener) func(command) reply {
	t.Helper()
	in, orders := io.Pipe()
	reports, out := io.Pipe()
	var served sync.WaitGroup
	served.Go(func() {
		if err := Serve(t.Context(), in, out, open); err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	t.Cleanup(func() {
		_ = orders.Close()
		served.Wait()
	})
	enc, dec := gob.NewEncoder(orders), gob.NewDecoder(reports)
	return func(o command) (r reply) {
		t.Helper()
		if err := errors.Join(enc.Encode(o), dec.Decode(&r)); err != nil {
			t.Fatal(err)
		}
		return r
	}
}

func TestAGroupExecutesCommands(t *testing.T) {
	var dolls []*fakeNode
	do := serveFakes(t, func(p Plan) (Node, error) {
		d := &fakeNode{plan: p}
		dolls = append(dolls, d)
		return d, nil
	})
	if r := do(command{Open: []Plan{{Dir: "a", Bootstrap: []string{"here"}}, {Dir: "b"}}}); r.Err != "" || len(dolls) != 2 {
		t.Fatalf("%d nodes opened, %q", len(dolls), r.Err)
	}
	r := do(command{Inspect: true})
	if len(r.States) != 2 || r.States[0].ID != overlay.Key("doll", "a") || r.States[1].ID != overlay.Key("doll", "b") || !slices.Equal(r.States[0].Addrs, []string{"here"}) {
		t.Errorf("states %+v, %q", r.States, r.Err)
	}
	keys := []overlay.ID{{}, {7}}
	r = do(command{Find: keys})
	for _, roots := range r.Roots {
		if !slices.Equal(roots, []overlay.ID{{}, {7}}) {
			t.Errorf("roots %v: what was not found is not zero", roots)
		}
	}
	if len(r.Roots) != 2 || r.Err != "" {
		t.Errorf("roots of %d nodes, %q", len(r.Roots), r.Err)
	}
	do(command{Follow: "feed"})
	if r := do(command{Measure: true}); r.Memory.Heap == 0 || r.Memory.Stack == 0 || r.Memory.Goroutines < 2 {
		t.Errorf("memory %+v", r.Memory)
	}
	do(command{Leave: true})
	for _, d := range dolls {
		if !slices.Equal(d.followed, []string{"feed"}) || !d.left {
			t.Errorf("node %s followed %q, left %v", d.plan.Dir, d.followed, d.left)
		}
	}
}

func TestAGroupReportsErrors(t *testing.T) {
	do := serveFakes(t, func(p Plan) (Node, error) {
		if p.Dir == "" {
			return nil, errors.New("nowhere to live")
		}
		return &fakeNode{ended: errors.New("tired")}, nil
	})
	if r := do(command{Open: []Plan{{}}}); !strings.Contains(r.Err, "open a node: nowhere to live") {
		t.Errorf("%q", r.Err)
	}
	r := do(command{Open: []Plan{{Dir: "a"}}})
	for range 1000 { // the node ends at once, by itself
		if r.Err != "" {
			break
		}
		r = do(command{Measure: true})
	}
	if !strings.Contains(r.Err, "a node ended: tired") {
		t.Errorf("%q", r.Err)
	}
}

func TestAGroupRefusesInvalidCommands(t *testing.T) {
	if err := Serve(t.Context(), strings.NewReader("not an order"), io.Discard, nil); err == nil {
		t.Error("garbage was obeyed")
	}
}
