package scribe

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/scribe/scribepb"
)

// batchOf wraps a batch, with an unknown sender's record if it has none.
func batchOf(b *scribepb.Batch) *scribepb.Message {
	if b.Records == nil {
		b.Records = [][]byte{make([]byte, 32)}
	}
	return &scribepb.Message{Body: &scribepb.Message_Batch{Batch: b}}
}

// routedJoins returns a batch with routed Joins of a child.
func (a *actor) routedJoins(child []byte, of ...overlay.ID) *scribepb.Message {
	c := &scribepb.Column{}
	for i, g := range of {
		c.Groups = append(c.Groups, g[:]...)
		c.Edges, c.Weights, c.Records = append(c.Edges, uint64(i+1)), append(c.Weights, 2), append(c.Records, 1)
	}
	return batchOf(&scribepb.Batch{Records: [][]byte{a.raw, child}, RoutedJoins: c})
}

// A node that joins many groups at once sends one batch of Joins, and routes those without an
// answer again, one by one.
func TestJoinsGoTogetherAndAgainAlone(t *testing.T) {
	l := newLab(t, Config{}).active()
	root := l.members(1, l.own(0))[0]
	const groups = 300
	for i := range groups {
		l.s.Join(root.of(i), 2)
	}
	l.run()
	if len(l.batches) != 1 || len(l.routed) != 0 {
		t.Fatalf("%d Joins go in %d batches, %d alone", groups, len(l.batches), len(l.routed))
	}
	b := l.batches[0].msg.GetBatch()
	if len(b.RoutedJoins.Edges) != groups || len(b.Records) != 1 {
		t.Errorf("%d Joins with %d records", len(b.RoutedJoins.Edges), len(b.Records))
	}
	edge := l.joins(root.of(7))[0].Edge
	for i := range groups / 2 {
		l.accepted(root, root.of(i))
	}
	l.pass(joinTimeout * 5 / 4)
	if len(l.batches) != 1 || len(l.routed) != groups/2 {
		t.Errorf("%d of %d go again alone, and %d batches", len(l.routed), groups/2, len(l.batches)-1)
	}
	if p := l.s.groups.Get(root.of(7)).parents[0]; p.edge != edge {
		t.Errorf("edge %x is accepted as %x", edge, p.edge)
	}
	if again := l.joins(root.of(groups - 1)); len(again) < 2 || again[0].Edge != again[1].Edge {
		t.Error("another edge is asked for")
	}
}

func TestFewJoinsGoAlone(t *testing.T) {
	l := newLab(t, Config{}).active()
	root := l.members(1, l.own(0))[0]
	for i := range minRoutedBatch - 1 {
		l.s.Join(root.of(i), 1)
	}
	l.run()
	if len(l.batches) != 0 || len(l.routed) != minRoutedBatch-1 {
		t.Errorf("%d batches, %d alone", len(l.batches), len(l.routed))
	}
}

// A single entry is sent at once, and one of many waits no longer than batchDelay.
func TestEntriesWaitForOthers(t *testing.T) {
	l := newLab(t, Config{}).active()
	a := l.members(1, l.own(0))[0]
	const groups = 5 * maxImmediate
	for i := range groups {
		a.route(l.own(i), a.join(l.own(i), 1))
		if i < maxImmediate && count(a.heard(), "Accept") != 1 {
			t.Fatalf("Accept %d waits", i)
		}
	}
	if n := len(a.heard()); n != 0 {
		t.Errorf("%d of many do not wait", n)
	}
	l.pass(batchDelay)
	if n := count(a.heard(), "Accept"); n != groups-maxImmediate || len(l.batches) != 1 {
		t.Errorf("%d Accepts in %d batches", n, len(l.batches))
	}
	l.pass(3 * batchDelay)
	if a.route(l.own(groups), a.join(l.own(groups), 1)); count(a.heard(), "Accept") != 1 {
		t.Error("a lone Accept waits long after")
	}
}

// Routed Joins are accepted by the first node in the tree, or by the root, and otherwise forwarded
// with the joining node's own record.
func TestRoutedJoinEndsAtTheFirstNodeInTheTree(t *testing.T) {
	l := newLab(t, Config{}).active()
	all := l.members(8, l.own(0))
	in, root, _, child := l.amid(all)
	l.subscribed(root, in, 1)
	out := root.of(1)
	for overlay.Nearer(out, child.id, l.node.ID()) || in == out {
		t.Fatal("the child is not farther than the node")
	}
	l.pass(2 * batchDelay)
	l.batches = nil
	carrier := all[slices.IndexFunc(all, func(a *actor) bool { return a != child && a != root })]
	if err := carrier.say(carrier.routedJoins(child.raw, l.own(0), in, out)); err != nil {
		t.Fatal(err)
	}
	if n := count(child.heard(), "Accept"); n != 2 {
		t.Errorf("%d of 2 are accepted", n)
	}
	if p, ok := l.s.Place(l.own(0)); len(p.Children) != 1 || !ok {
		t.Errorf("%d children at the root", len(p.Children))
	}
	if _, ok := l.s.Place(out); ok {
		t.Error("a node that forwards a Join has a place in the tree")
	}
	on := l.joins(out)
	toRoot := slices.ContainsFunc(l.batches, func(b letter) bool { return b.to == root.peer && b.msg.GetBatch().RoutedJoins != nil })
	if len(on) != 1 || !toRoot || !bytes.Equal(on[0].Record, child.raw) || on[0].Weight != 2 || on[0].Edge != 3 {
		t.Errorf("passed on: %v", on)
	}
}

// A batch with the record of another node is refused. An invalid routed Join in a batch counts as
// garbage, and the others are handled.
func TestBadBatches(t *testing.T) {
	l := newLab(t, Config{}).active()
	all := l.members(3, l.own(0))
	a, b := all[0], all[1]
	forged := bytes.Clone(b.raw)
	forged[len(forged)-1] ^= 1
	if err := a.say(b.routedJoins(b.raw, l.own(0))); !errors.Is(err, env.ErrFrame) || l.s.Stats().Garbage != 1 {
		t.Errorf("a batch of another: %v", err)
	}
	m := a.routedJoins(b.raw, l.own(0), l.own(1), l.own(2))
	m.GetBatch().Records = append(m.GetBatch().Records, forged)
	m.GetBatch().RoutedJoins.Records[1] = 2
	if err := a.say(m); err != nil || l.s.Stats().Garbage != 2 {
		t.Errorf("an invalid routed Join: %v, %d", err, l.s.Stats().Garbage)
	}
	if n := count(b.heard(), "Accept"); n != 2 {
		t.Errorf("%d of 2 valid routed Joins are handled", n)
	}
	m = batchOf(&scribepb.Batch{Records: [][]byte{a.raw, forged}, Redirects: &scribepb.Column{
		Groups: m.GetBatch().RoutedJoins.Groups[:32], Records: []uint32{1},
	}})
	if err := a.say(m); !errors.Is(err, env.ErrFrame) {
		t.Errorf("a Redirect without a valid record: %v", err)
	}
}

// A batch fits into a frame, whatever its records.
func TestBatchesAreBounded(t *testing.T) {
	l := newLab(t, Config{}).active()
	a := l.members(1, l.own(0))[0]
	for n := range 3000 {
		c := &overlay.Contact{Raw: make([]byte, overlay.MaxRecord)}
		l.s.outbox.enqueue(env.Peer{ID: a.peer}, batchEntry{kind: entryRoutedJoin, group: a.of(n), contact: c})
	}
	l.run()
	ways := 0
	for _, of := range l.batches {
		if n := len(wire.Encode(of.msg)); n > batchBytes+2*overlay.MaxRecord {
			t.Errorf("a batch has %d bytes", n)
		}
		ways += len(of.msg.GetBatch().RoutedJoins.Edges)
	}
	if ways != 3000 {
		t.Errorf("%d routed Joins", ways)
	}
}
