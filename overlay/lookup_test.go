package overlay

import (
	"math"
	"slices"
	"testing"
	"time"

	"tidings/overlay/overlaypb"
)

// answerQueries answers the lookup queries that the node has sent to actors with the result of
// says, if it is not nil. It returns the number of queries.
func (l *lab) answerQueries(says func(a *actor) *overlaypb.Nearby, actors ...*actor) (asked int) {
	for _, a := range actors {
		for _, m := range l.heard(a) {
			f := m.GetFind()
			if f == nil {
				continue
			}
			asked++
			if r := says(a); r != nil {
				r.Nonce = f.Nonce
				l.say(a, &overlaypb.Message{Body: &overlaypb.Message_Nearby{Nearby: r}})
			}
		}
	}
	return asked
}

func records(actors []*actor) (raw [][]byte) {
	for _, a := range actors {
		raw = append(raw, a.contact.Raw)
	}
	return raw
}

// If most of the members near a key are liars, all routes may end among them: they claim that
// their leaves hold the key, and name one another. A witness a little farther away, which was
// named on the way, names the honest members.
func TestWitnessCorrectsALookupAmongLiars(t *testing.T) {
	l := newLab(t)
	n := l.member()
	key := l.actor(5000).contact.ID
	liars := l.actorsNear(key, 7, 5)
	honest := l.actorsNear(key, 9, 5)
	witness := l.actorsNear(key, 4, 1)[0]
	friend := l.actorsNear(key, 1, 1)[0]
	start := append([]*actor{friend}, liars[:lookupRoutes-1]...)
	for _, a := range start {
		n.leaf.Add(n.ensureContact(a.contact).contact)
	}
	var found []*lookupMember
	n.lookups.queue(key, 5, true, func(members []*lookupMember) { found = members })
	all := slices.Concat(start, liars[lookupRoutes-1:], honest, []*actor{witness})
	heard := 0
	for range 60 {
		l.answerQueries(func(a *actor) *overlaypb.Nearby {
			switch {
			case a == friend:
				return &overlaypb.Nearby{Records: records(append(slices.Clone(liars), witness))}
			case a == witness:
				heard++
				return &overlaypb.Nearby{Covers: true, Records: records(honest)}
			case slices.Contains(honest, a):
				return &overlaypb.Nearby{Covers: true, Records: records(honest)}
			}
			return &overlaypb.Nearby{Covers: true, Records: records(liars)}
		}, all...)
		l.pass(100 * time.Millisecond)
	}
	if len(found) != 5 || heard != 1 {
		t.Fatalf("%d found, the witness asked %d times", len(found), heard)
	}
	for _, member := range found {
		if !slices.ContainsFunc(honest, func(a *actor) bool { return a.contact.ID == member.contact.ID }) {
			t.Errorf("a liar is among the nearest")
		}
	}
}

// A silent witness delays a lookup by no more than one timeout.
func TestSilentWitnessDelaysALookupOnlyBriefly(t *testing.T) {
	l := newLab(t)
	n := l.member()
	key := l.actor(5000).contact.ID
	near, witness := l.actorsNear(key, 7, 5), l.actorsNear(key, 4, 1)[0]
	for _, a := range near[:lookupRoutes] {
		n.leaf.Add(n.ensureContact(a.contact).contact)
	}
	done := false
	n.lookups.queue(key, 5, true, func(members []*lookupMember) { done = len(members) == 5 })
	named := append(slices.Clone(near), witness)
	began := l.now
	for !done && l.now.Sub(began) < time.Minute {
		l.answerQueries(func(*actor) *overlaypb.Nearby { return &overlaypb.Nearby{Covers: true, Records: records(named)} }, near...)
		l.pass(10 * time.Millisecond)
	}
	asked := l.answerQueries(func(*actor) *overlaypb.Nearby { return nil }, witness)
	if took := l.now.Sub(began); took > 3*time.Second || asked != 1 {
		t.Errorf("the lookup took %v, with %d queries to the witness", took, asked)
	}
}

// Half of the routes begin in the node's own leaf, so a node whose table has only liars near
// the key still hears other members.
func TestHalfOfTheRoutesBeginInTheLeaf(t *testing.T) {
	const depth = 2
	l := newLab(t)
	n := l.member()
	n.leaf.SetDepth(depth)
	n.table.resize(depth)
	leaf := l.actorsNear(n.ID(), depth+1, 3)
	for _, a := range leaf {
		n.leaf.Add(n.ensureContact(a.contact).contact)
	}
	far := l.actorsNear(n.ID(), 0, 40)
	for _, a := range far {
		n.table.put(n.ensureContact(a.contact), depth)
	}
	l.sent = nil
	n.Lookup(far[0].contact.ID, 5, func(Lookup) {})
	l.run()
	none := func(*actor) *overlaypb.Nearby { return nil }
	if own, others := l.answerQueries(none, leaf...), l.answerQueries(none, far...); own != leafRoutes || others != lookupRoutes-leafRoutes {
		t.Errorf("%d routes begin in the leaf, %d elsewhere", own, others)
	}
}

// The counts of others are believed only if the node's own leaf fits a network of that size.
func TestSizeIsEstimatedFromTheLeafIfCountsAreWrong(t *testing.T) {
	const depth = 3
	l := newLab(t)
	n := l.member()
	n.leaf.SetDepth(depth)
	n.table.resize(depth)
	for _, a := range l.actorsNear(n.ID(), depth+1, 9) {
		n.leaf.Add(n.ensureContact(a.contact).contact)
	}
	for bits := range depth {
		for _, a := range l.actorsNear(n.ID(), bits, 20) {
			n.table.put(n.ensureContact(a.contact), depth)
		}
	}
	own := float64(n.leaf.Len()) * 8
	count := func(each int32) {
		n.table.each(depth, func(_, _ int, s *slot) { s.count, s.counted = each, true })
	}
	for _, c := range []struct {
		each int32
		own  bool
	}{{0, true}, {5, false}, {1_000_000, true}} {
		count(c.each)
		if got := n.estimateSize(); (got == own) != c.own || !c.own && math.Abs(got-float64(n.Count(0))) > 0.5 {
			t.Errorf("with %d in each slot: %.0f, own %.0f, counted %d", c.each, got, own, n.Count(0))
		}
	}
}
