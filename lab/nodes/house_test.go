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

// doll is a node without a network: it knows what it was told.
type doll struct {
	plan  Plan
	ended error // by itself, at once

	mu       sync.Mutex
	followed []string
	left     bool
}

func (d *doll) Run(ctx context.Context) error {
	if d.ended != nil {
		return d.ended
	}
	<-ctx.Done()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.left = true
	return nil
}

func (d *doll) Look(context.Context) (Look, error) {
	return Look{ID: overlay.Key("doll", d.plan.Dir), Addrs: d.plan.Bootstrap, Member: true}, nil
}

func (d *doll) Root(_ context.Context, key overlay.ID) (overlay.ID, error) {
	if key == (overlay.ID{}) {
		return overlay.ID{1}, errors.New("no such key")
	}
	return key, nil
}

func (d *doll) Follow(_ context.Context, url string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.followed = append(d.followed, url)
	return nil
}

// serving serves a house of dolls until the test ends, and returns how to order.
func serving(t *testing.T, open Opener) func(order) report {
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
	return func(o order) (r report) {
		t.Helper()
		if err := errors.Join(enc.Encode(o), dec.Decode(&r)); err != nil {
			t.Fatal(err)
		}
		return r
	}
}

func TestAHouseObeys(t *testing.T) {
	var dolls []*doll
	do := serving(t, func(p Plan) (Node, error) {
		d := &doll{plan: p}
		dolls = append(dolls, d)
		return d, nil
	})
	if r := do(order{Open: []Plan{{Dir: "a", Bootstrap: []string{"here"}}, {Dir: "b"}}}); r.Err != "" || len(dolls) != 2 {
		t.Fatalf("%d nodes opened, %q", len(dolls), r.Err)
	}
	r := do(order{Look: true})
	if len(r.Looks) != 2 || r.Looks[0].ID != overlay.Key("doll", "a") || r.Looks[1].ID != overlay.Key("doll", "b") || !slices.Equal(r.Looks[0].Addrs, []string{"here"}) {
		t.Errorf("looks %+v, %q", r.Looks, r.Err)
	}
	keys := []overlay.ID{{}, {7}}
	r = do(order{Find: keys})
	for _, roots := range r.Roots {
		if !slices.Equal(roots, []overlay.ID{{}, {7}}) {
			t.Errorf("roots %v: what was not found is not zero", roots)
		}
	}
	if len(r.Roots) != 2 || r.Err != "" {
		t.Errorf("roots of %d nodes, %q", len(r.Roots), r.Err)
	}
	do(order{Follow: "feed"})
	if r := do(order{Weigh: true}); r.Memory.Heap == 0 || r.Memory.Stack == 0 || r.Memory.Goroutines < 2 {
		t.Errorf("memory %+v", r.Memory)
	}
	do(order{Leave: true})
	for _, d := range dolls {
		if !slices.Equal(d.followed, []string{"feed"}) || !d.left {
			t.Errorf("node %s followed %q, left %v", d.plan.Dir, d.followed, d.left)
		}
	}
}

func TestAHouseTellsWhatWentWrong(t *testing.T) {
	do := serving(t, func(p Plan) (Node, error) {
		if p.Dir == "" {
			return nil, errors.New("nowhere to live")
		}
		return &doll{ended: errors.New("tired")}, nil
	})
	if r := do(order{Open: []Plan{{}}}); !strings.Contains(r.Err, "open a node: nowhere to live") {
		t.Errorf("%q", r.Err)
	}
	r := do(order{Open: []Plan{{Dir: "a"}}})
	for range 1000 { // the node ends at once, by itself
		if r.Err != "" {
			break
		}
		r = do(order{Weigh: true})
	}
	if !strings.Contains(r.Err, "a node ended: tired") {
		t.Errorf("%q", r.Err)
	}
}

func TestAHouseRefusesGarbage(t *testing.T) {
	if err := Serve(t.Context(), strings.NewReader("not an order"), io.Discard, nil); err == nil {
		t.Error("garbage was obeyed")
	}
}
