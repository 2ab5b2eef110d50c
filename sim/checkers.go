package sim

import (
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
)

// Names of the invariants that the checkers of a Swarm watch.
const (
	// WrongRoot: a message is delivered by the live member nearest its key.
	WrongRoot = "wrong root"
	// NoAck: a routed message is acknowledged within a minute.
	NoAck = "no acknowledgement"
	// Cycle: no node is above itself in a tree.
	Cycle = "cycle"
	// Twice: no subscriber is handed a message twice in one life.
	Twice = "duplicate"
	// Missing: who was subscribed, with a whole way up, has what was published.
	Missing = "lost"
	// NoWay (I6, I9): after quiet, edges lead from the root to every subscriber.
	NoWay = "lost child"
	// WrongWeight (I6): after quiet, a root knows the clients of its group.
	WrongWeight = "wrong weight"
	// WrongCount: after quiet, members know how many are below each prefix.
	WrongCount = "stale count"
	// WrongLeaf (I9): after quiet, all members of a leaf know all its members.
	WrongLeaf = "wrong leaf"
	// TooSlow (I9): when all is well, a look-up is acknowledged soon.
	TooSlow = "slow look-up"
)

// checkPause is the time between two looks at all trees.
const checkPause = 10 * time.Second

// RouteStats counts messages routed to check who takes them.
type RouteStats struct {
	Sent, Acked, Failed int
	// Orphaned messages lost their origin, dead or gone, before it could be told.
	Orphaned int
	// Shadowed messages were sent while the member nearest their key was dead
	// and that could not be known yet.
	Shadowed, ShadowedFailed int
	HopsTotal                int
	Slowest                  time.Duration
	// WrongRoots were delivered by another than the live member nearest the key.
	WrongRoots int
}

// probeLayer is the layer of the messages that checkers route: none of the
// protocol's.
const probeLayer wire.Layer = 255

// deadline is a little over the minute within which a routed message is
// acknowledged or given up.
const deadline = 61 * time.Second

// detection is how long a silent death may go unnoticed: a watch interval, four
// attempts, the notice, and as many attempts more.
const detection = 45 * time.Second

// promptness is within what time a look-up is acknowledged when all is well. Contacts of
// a table are asked every ten minutes only: a look-up may be the first to meet some that
// died lately, each of which it waits for up to three seconds, and it may meet the same one
// again when it is tried again (docs/design/known-gaps.md).
const promptness = 18 * time.Second

// aftermath is how long after a hindrance members may still be taken for dead that are
// not, or those who took them for it may not have met them again.
const aftermath = 2 * time.Minute

// excused says whether one of some peers was hindered from acting as it should since a
// time, or shortly before.
func (s *Swarm) excused(since time.Time, of ...*Peer) bool {
	return slices.ContainsFunc(of, func(p *Peer) bool { return p != nil && p.Hindered().Add(aftermath).After(since) })
}

// Route routes a message from a peer and checks who acknowledges it.
func (s *Swarm) Route(from *Peer, key overlay.ID) {
	sent := s.Now()
	shadow := s.shadowed(key)
	s.routes.Sent++
	if shadow {
		s.routes.Shadowed++
	}
	answered, life := false, from.lives
	s.After(deadline, func() {
		switch {
		case answered:
		case s.tolerant || s.excused(sent, from):
			s.routes.Failed++
		case from.Up() && from.lives == life:
			s.violated(NoAck, "key %s from host %d, sent %s: no word", key.Short(), from.Index(), sent.Format("15:04:05.000"))
		default:
			s.routes.Orphaned++
		}
	})
	from.Do(func() {
		from.node.Overlay.Route(probeLayer, key, nil, func(r overlay.Receipt, ok bool) {
			answered = true
			took := s.Now().Sub(sent)
			if !ok {
				if from.node.Overlay.State() == overlay.Left {
					s.routes.Orphaned++
				} else if shadow {
					s.routes.ShadowedFailed++
				} else if s.routes.Failed++; !s.tolerant && !s.excused(sent, from) {
					s.violated(NoAck, "key %s from host %d, sent %s", key.Short(), from.Index(), sent.Format("15:04:05.000"))
				}
				return
			}
			s.routes.Acked++
			s.routes.HopsTotal += r.Hops
			s.routes.Slowest = max(s.routes.Slowest, took)
			if s.prompt && took > promptness {
				s.violated(TooSlow, "key %s from host %d, sent %s: %v", key.Short(), from.Index(), sent.Format("15:04:05.000"), took)
			}
		})
	})
}

// shadowed says whether somebody nearer to the key than every live member died
// so lately that the others may not know.
func (s *Swarm) shadowed(key overlay.ID) bool {
	for p := range s.nearest(key) {
		if p.Active() {
			return false
		}
		if !p.Up() && !p.down.IsZero() && s.Now().Sub(p.down) < detection {
			return true
		}
	}
	return false
}

// A rootChecker is the application that takes the messages of Route.
type rootChecker struct{ peer *Peer }

func (c rootChecker) Forward(*overlay.Message) bool { return false }
func (c rootChecker) PeerGone(env.PeerID)           {}
func (c rootChecker) LeafChanged()                  {}

func (c rootChecker) Deliver(m *overlay.Message) {
	s := c.peer.swarm
	if root := s.Root(m.Key); root != c.peer {
		s.routes.WrongRoots++
		if s.excused(s.Now(), c.peer, root) {
			return
		}
		if root == nil {
			s.violated(WrongRoot, "key %s delivered by host %d, which is not active", m.Key.Short(), c.peer.Index())
			return
		}
		s.violated(WrongRoot, "key %s delivered by %s (host %d), nearest is %s (host %d, up for %v, known there: %v)",
			m.Key.Short(), c.peer.id.Short(), c.peer.Index(), root.id.Short(), root.Index(),
			s.Now().Sub(root.up), c.peer.node.Overlay.Leaf().Has(root.id) != nil)
	}
}

// checkTrees looks for cycles: from each node it goes up until it comes to one
// without a parent, or to one that was seen before.
func (s *Swarm) checkTrees() {
	clean := make(map[*Peer]int, len(s.members)) // by the group in which it was seen
	for i, g := range sortedIDs(s.groups) {
		for _, p := range s.members {
			var way []*Peer
			for q := p; q != nil && q.Up() && clean[q] != i+1; {
				if slices.Contains(way, q) {
					s.violated(Cycle, "group %s above host %d", g.Short(), q.Index())
					break
				}
				way = append(way, q)
				parent, ok := q.node.Scribe.Parent(g)
				if !ok {
					break
				}
				q = s.byID[parent]
			}
			for _, q := range way {
				clean[q] = i + 1
			}
		}
	}
}

// A finder takes note of something that is not as it has to be.
type finder func(what, facts string, args ...any)

// CheckQuiet checks what holds when nothing has happened for half an hour: leaves,
// counts, trees and weights, heads and sequencers.
// It panics while messages are under way: who checks too early would check nothing of them.
func (s *Swarm) CheckQuiet() {
	if slices.ContainsFunc(s.mail.sent, func(l *letter) bool { return !l.settled }) {
		panic("sim: quiet begins " + settling.String() + " after the last message")
	}
	s.CheckCalm()
	s.checkCounts(s.Live())
}

// CheckCalm checks the part of that which holds when nothing has happened for some
// minutes: all but the counts.
func (s *Swarm) CheckCalm() {
	live := s.Live()
	s.checkLeaves(live, s.violated)
	s.checkWays(s.violated)
	s.checkRoots(live, s.violated)
	s.checkLeaders(s.violated)
	s.checkHeads(s.violated)
	s.checkStrays(s.violated)
}

func (s *Swarm) checkLeaves(live []*Peer, found finder) {
	for _, p := range live {
		leaf := p.node.Overlay.Leaf()
		want := 0
		for _, q := range live {
			if !leaf.Covers(q.id) {
				continue
			}
			want++
			if leaf.Has(q.id) == nil {
				found(WrongLeaf, "host %d (depth %d) does not know host %d", p.Index(), leaf.Depth(), q.Index())
			}
			if other := q.node.Overlay.Leaf(); other.Depth() != leaf.Depth() {
				found(WrongLeaf, "host %d is at depth %d, host %d of its leaf at %d",
					p.Index(), leaf.Depth(), q.Index(), other.Depth())
			}
		}
		if want != leaf.Len() {
			found(WrongLeaf, "host %d knows %d members, %d live", p.Index(), leaf.Len(), want)
		}
	}
}

func (s *Swarm) checkCounts(live []*Peer) {
	for _, p := range live {
		for d := 0; d <= p.node.Overlay.Leaf().Depth(); d++ {
			want := 0
			for _, q := range live {
				if q.id.Common(p.id) >= d {
					want++
				}
			}
			if got := p.node.Overlay.Count(d); got != want {
				s.violated(WrongCount, "host %d counts %d members below %d bits, there are %d", p.Index(), got, d, want)
			}
		}
	}
}

func (s *Swarm) checkWays(found finder) {
	for _, g := range sortedIDs(s.groups) {
		root := s.Root(g)
		if root == nil {
			continue
		}
		reached := map[*Peer]bool{}
		var walk func(p *Peer)
		walk = func(p *Peer) {
			if reached[p] || !p.Up() {
				return
			}
			reached[p] = true
			place, _ := p.node.Scribe.Place(g)
			for _, c := range place.Children {
				if q := s.byID[c]; q != nil {
					walk(q)
				}
			}
		}
		walk(root)
		weight := 0
		for _, p := range s.members {
			w := p.weight(g)
			if w == 0 || !p.Up() {
				continue
			}
			weight += w
			if !reached[p] {
				found(NoWay, "no way from the root of %s to host %d", g.Short(), p.Index())
			}
		}
		got, ok := root.node.Scribe.Weight(g)
		if weight > 0 && (!ok || got != weight) {
			found(WrongWeight, "group %s: the root counts %d (root: %v), there are %d", g.Short(), got, ok, weight)
		}
	}
}

// EdgesPerDelivery returns how many edges the tree of a group has for each
// subscriber that is not its root.
func (s *Swarm) EdgesPerDelivery(g overlay.ID) float64 {
	edges, deliveries := 0, 0
	for _, p := range s.members {
		if !p.Up() {
			continue
		}
		place, ok := p.node.Scribe.Place(g)
		if !ok {
			continue
		}
		edges += len(place.Children)
		if place.Own > 0 && !place.Root {
			deliveries++
		}
	}
	return float64(edges) / float64(max(deliveries, 1))
}
