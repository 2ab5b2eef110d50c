package sim

import (
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
)

// Names of the invariants that a Swarm checks all the time or on demand.
const (
	// WrongRoot: a message was delivered by a member that is not the live one nearest to its key.
	WrongRoot = "wrong root"
	// NoAcknowledgement: a routed message was not acknowledged within a minute.
	NoAcknowledgement = "no acknowledgement"
	// Cycle: a node is its own ancestor in a tree.
	Cycle = "cycle"
	// Duplicate: a subscriber was handed one message twice in one life.
	Duplicate = "duplicate"
	// Lost: a subscriber with a complete path to the root did not get a message.
	Lost = "lost"
	// LostChild (I6, I9): after quiet, edges do not lead from the root to every subscriber.
	LostChild = "lost child"
	// WrongWeight (I6): after quiet, a root does not know the number of clients of its group.
	WrongWeight = "wrong weight"
	// StaleCount: after quiet, a member does not know how many members are below a prefix.
	StaleCount = "stale count"
	// WrongLeaf (I9): after quiet, a member of a leaf does not know all its members.
	WrongLeaf = "wrong leaf"
	// SlowLookup (I9): a lookup took longer than lookupLimit although there are no faults.
	SlowLookup = "slow look-up"
)

// checkInterval is the time between two checks of all trees, logs and subscriptions.
const checkInterval = 10 * time.Second

// RouteStats counts the messages that Route sent to check where they are delivered.
type RouteStats struct {
	Sent, Acked, Failed int
	// OriginDied counts messages whose origin died or left before it learned of the outcome.
	OriginDied int
	// RootJustDied counts messages sent while the member nearest to their key had died so recently
	// that others could not know. RootJustDiedFailed are those of them that failed.
	RootJustDied, RootJustDiedFailed int
	HopsTotal                        int
	Slowest                          time.Duration
	// WrongRoots counts messages delivered by a member other than the live one nearest to the key.
	WrongRoots int
}

// probeLayer is the layer of the messages that Route sends. No protocol uses it.
const probeLayer wire.Layer = 255

// ackLimit is a little more than the minute after which a routed message is acknowledged or given
// up.
const ackLimit = 61 * time.Second

// detectionTime is how long a silent death may go unnoticed: a watch interval, four attempts, the
// notice, and four attempts more.
const detectionTime = 45 * time.Second

// lookupLimit is how long a lookup may take when there are no faults. Contacts of the routing table
// are probed only every ten minutes, so a lookup may be the first to try some that died recently.
// It waits up to three seconds for each, and may try the same one again when it is repeated
// (docs/design/known-gaps.md).
const lookupLimit = 18 * time.Second

// impairmentGrace is how long after an impairment a live member may still be taken for dead, or the
// members that did so may not have met it again.
const impairmentGrace = 2 * time.Minute

// excused reports whether one of some peers was impaired after a time, or shortly before it.
func (s *Swarm) excused(since time.Time, of ...*Peer) bool {
	return slices.ContainsFunc(of, func(p *Peer) bool { return p != nil && p.LastImpaired().Add(impairmentGrace).After(since) })
}

// Route routes a message from a peer and checks which member acknowledges it.
func (s *Swarm) Route(from *Peer, key overlay.ID) {
	sent := s.Now()
	rootDied := s.rootJustDied(key)
	s.routes.Sent++
	if rootDied {
		s.routes.RootJustDied++
	}
	answered, life := false, from.lives
	s.After(ackLimit, func() {
		switch {
		case answered:
		case s.lookupsMayFail || s.excused(sent, from):
			s.routes.Failed++
		case from.Up() && from.lives == life:
			s.reportViolation(NoAcknowledgement, "key %s from host %d, sent %s: no callback", key.Short(), from.Index(), sent.Format("15:04:05.000"))
		default:
			s.routes.OriginDied++
		}
	})
	from.Do(func() {
		from.node.Overlay.Route(probeLayer, key, nil, func(r overlay.Receipt, ok bool) {
			answered = true
			took := s.Now().Sub(sent)
			if !ok {
				if from.node.Overlay.State() == overlay.Left {
					s.routes.OriginDied++
				} else if rootDied {
					s.routes.RootJustDiedFailed++
				} else if s.routes.Failed++; !s.lookupsMayFail && !s.excused(sent, from) {
					s.reportViolation(NoAcknowledgement, "key %s from host %d, sent %s", key.Short(), from.Index(), sent.Format("15:04:05.000"))
				}
				return
			}
			s.routes.Acked++
			s.routes.HopsTotal += r.Hops
			s.routes.Slowest = max(s.routes.Slowest, took)
			if s.lookupsMustBeFast && took > lookupLimit {
				s.reportViolation(SlowLookup, "key %s from host %d, sent %s: %v", key.Short(), from.Index(), sent.Format("15:04:05.000"), took)
			}
		})
	})
}

// rootJustDied reports whether a peer nearer to the key than every live member died so recently
// that the others may not know.
func (s *Swarm) rootJustDied(key overlay.ID) bool {
	for p := range s.nearest(key) {
		if p.Active() {
			return false
		}
		if !p.Up() && !p.diedAt.IsZero() && s.Now().Sub(p.diedAt) < detectionTime {
			return true
		}
	}
	return false
}

// A rootChecker is the application that receives the messages of Route.
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
			s.reportViolation(WrongRoot, "key %s delivered by host %d, which is not active", m.Key.Short(), c.peer.Index())
			return
		}
		s.reportViolation(WrongRoot, "key %s delivered by %s (host %d), nearest is %s (host %d, up for %v, known there: %v)",
			m.Key.Short(), c.peer.id.Short(), c.peer.Index(), root.id.Short(), root.Index(),
			s.Now().Sub(root.startedAt), c.peer.node.Overlay.Leaf().Has(root.id) != nil)
	}
}

// checkTrees looks for cycles. From each node it walks up until it reaches a node without a parent,
// or one that is known to be on no cycle.
func (s *Swarm) checkTrees() {
	clean := make(map[*Peer]int, len(s.members)) // number (from 1) of the last group in which the peer was on no cycle
	for i, g := range sortedIDs(s.groups) {
		for _, p := range s.members {
			var way []*Peer
			for q := p; q != nil && q.Up() && clean[q] != i+1; {
				if slices.Contains(way, q) {
					s.reportViolation(Cycle, "group %s above host %d", g.Short(), q.Index())
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

// A reportFunc records a violation: the invariant's name, and details in printf style.
type reportFunc func(what, facts string, args ...any)

// CheckQuiet checks what must hold after half an hour in which nothing happened: leaves, counts,
// trees, weights, heads and sequencers. It panics while multicast messages are in transit, because
// it would check nothing about them.
func (s *Swarm) CheckQuiet() {
	if slices.ContainsFunc(s.multicasts.messages, func(l *multicast) bool { return !l.settled }) {
		panic("sim: CheckQuiet within " + settleTime.String() + " of the last multicast message")
	}
	s.CheckSettled()
	s.checkCounts(s.Live())
}

// CheckSettled checks what must hold after some minutes in which nothing happened: everything but
// the counts.
func (s *Swarm) CheckSettled() {
	live := s.Live()
	s.checkLeaves(live, s.reportViolation)
	s.checkPaths(s.reportViolation)
	s.checkRoots(live, s.reportViolation)
	s.checkLeaders(s.reportViolation)
	s.checkHeads(s.reportViolation)
	s.checkStrayOwners(s.reportViolation)
}

func (s *Swarm) checkLeaves(live []*Peer, report reportFunc) {
	for _, p := range live {
		leaf := p.node.Overlay.Leaf()
		want := 0
		for _, q := range live {
			if !leaf.Covers(q.id) {
				continue
			}
			want++
			if leaf.Has(q.id) == nil {
				report(WrongLeaf, "host %d (depth %d) does not know host %d", p.Index(), leaf.Depth(), q.Index())
			}
			if other := q.node.Overlay.Leaf(); other.Depth() != leaf.Depth() {
				report(WrongLeaf, "host %d is at depth %d, host %d of its leaf at %d",
					p.Index(), leaf.Depth(), q.Index(), other.Depth())
			}
		}
		if want != leaf.Len() {
			report(WrongLeaf, "host %d knows %d members, %d live", p.Index(), leaf.Len(), want)
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
				s.reportViolation(StaleCount, "host %d counts %d members below %d bits, there are %d", p.Index(), got, d, want)
			}
		}
	}
}

func (s *Swarm) checkPaths(report reportFunc) {
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
			w := p.groupWeight(g)
			if w == 0 || !p.Up() {
				continue
			}
			weight += w
			if !reached[p] {
				report(LostChild, "no path from the root of %s to host %d", g.Short(), p.Index())
			}
		}
		got, ok := root.node.Scribe.Weight(g)
		if weight > 0 && (!ok || got != weight) {
			report(WrongWeight, "group %s: the root counts %d (root: %v), there are %d", g.Short(), got, ok, weight)
		}
	}
}

// EdgesPerDelivery returns the number of edges of a group's tree per subscriber that is not the
// root.
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
