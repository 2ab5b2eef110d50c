package sim

import (
	"encoding/binary"
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/scribe"
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
	// NoWay: after quiet, edges lead from the root to every subscriber.
	NoWay = "lost child"
	// WrongWeight: after quiet, a root knows the clients of its group.
	WrongWeight = "wrong weight"
	// WrongCount: after quiet, members know how many are below each prefix.
	WrongCount = "stale count"
	// WrongLeaf: after quiet, all members of a leaf know all its members.
	WrongLeaf = "wrong leaf"
)

// checkPause is the time between two looks at all trees.
const checkPause = 10 * time.Second

// RouteStats counts messages routed to check who takes them.
type RouteStats struct {
	Sent, Acked, Failed int
	// Orphaned messages lost their origin before it could be told.
	Orphaned int
	// Shadowed messages were sent while the member nearest their key was dead
	// and that could not be known yet.
	Shadowed, ShadowedFailed int
	HopsTotal                int
	Slowest                  time.Duration
}

// probeLayer is the layer of the messages that checkers route: none of the
// protocol's.
const probeLayer wire.Layer = 255

// deadline is a little over the minute within which a routed message is
// acknowledged or given up.
const deadline = 61 * time.Second

// detection is how long a silent death may go unnoticed: a watch interval, three
// attempts, the notice, and three attempts more.
const detection = 45 * time.Second

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
				if shadow {
					s.routes.ShadowedFailed++
				} else {
					s.routes.Failed++
					s.violated(NoAck, "key %s from host %d, sent %s", key.Short(), from.Index(), sent.Format("15:04:05.000"))
				}
				return
			}
			s.routes.Acked++
			s.routes.HopsTotal += r.Hops
			s.routes.Slowest = max(s.routes.Slowest, took)
		})
	})
}

// shadowed says whether somebody nearer to the key than every live member died
// so lately that the others may not know.
func (s *Swarm) shadowed(key overlay.ID) bool {
	root := s.Root(key)
	for _, p := range s.members {
		if !p.Up() && !p.down.IsZero() && s.Now().Sub(p.down) < detection &&
			(root == nil || overlay.Nearer(key, p.id, root.id)) {
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
		if root == nil {
			s.violated(WrongRoot, "key %s delivered by host %d, which is not active", m.Key.Short(), c.peer.Index())
			return
		}
		s.violated(WrongRoot, "key %s delivered by %s (host %d), nearest is %s (host %d, up for %v, known there: %v)",
			m.Key.Short(), c.peer.id.Short(), c.peer.Index(), root.id.Short(), root.Index(),
			s.Now().Sub(root.up), c.peer.node.Overlay.Leaf().Has(root.id) != nil)
	}
}

// mail remembers what was published and who has it.
type mail struct {
	sent []*letter
	// since says from when on a subscriber could expect everything.
	since map[*Peer]map[overlay.ID]time.Time
	stats MailStats
}

// MailStats counts multicast messages over all groups of a swarm.
type MailStats struct {
	Published, Refused, Expected, Delivered int
	// Excused deliveries failed because the way from the root to the subscriber
	// was not whole, or one on it died, or the publisher.
	Excused int
}

// way is whom a message has to pass, and whether that leads to the root.
type way struct {
	above []*Peer
	whole bool
}

type letter struct {
	group   overlay.ID
	at      time.Time
	from    *Peer
	got     map[*Peer]int // by life
	rooted  bool          // the root has it
	ways    map[*Peer]way // to each subscriber, when it was sent
	settled bool
}

func (m *mail) joined(p *Peer, g overlay.ID) {
	if m.since[p] == nil {
		m.since[p] = map[overlay.ID]time.Time{}
	}
	m.since[p][g] = p.swarm.Now()
}

func (m *mail) left(p *Peer, g overlay.ID) { delete(m.since[p], g) }

func (m *mail) died(p *Peer) {
	for g := range m.since[p] {
		m.since[p][g] = p.swarm.Now().Add(time.Hour) // until it is up again
	}
}

func (m *mail) arrived(p *Peer, d scribe.Delivery) {
	l := m.sent[binary.BigEndian.Uint64(d.Payload)]
	if l.settled {
		p.swarm.violated(Twice, "host %d got a message of %s long after it was sent", p.Index(), d.Group.Short())
		return
	}
	if m.has(p, l) {
		p.swarm.violated(Twice, "host %d got a message of %s twice", p.Index(), d.Group.Short())
	}
	l.got[p] = p.lives
}

// has says whether a peer, in its present life, has a message.
func (m *mail) has(p *Peer, l *letter) bool { return l.got[p] == p.lives }

// settling is after what time nothing of a message is under way any longer: its
// publisher tries for a minute, and it is kept for another.
const settling = 150 * time.Second

// Publish publishes a message of at least size bytes from a peer, and checks
// when all has settled who has it.
func (s *Swarm) Publish(from *Peer, g overlay.ID, size int) {
	s.mail.stats.Published++
	l := &letter{group: g, at: s.Now(), from: from, got: map[*Peer]int{}, ways: map[*Peer]way{}}
	for _, p := range s.members {
		if _, wants := s.mail.since[p][g]; wants && p.Up() {
			above, whole := s.way(p, g)
			l.ways[p] = way{above, whole}
		}
	}
	payload := binary.BigEndian.AppendUint64(nil, uint64(len(s.mail.sent)))
	payload = append(payload, make([]byte, max(size-len(payload), 0))...)
	s.mail.sent = append(s.mail.sent, l)
	from.Do(func() { from.node.Scribe.Publish(g, payload, func(ok bool) { l.rooted = ok }) })
	s.After(settling, func() {
		s.settle(l)
		l.settled, l.ways = true, nil
	})
}

// settle checks who has a message.
func (s *Swarm) settle(l *letter) {
	if !l.rooted {
		s.mail.stats.Refused++
	}
	for _, p := range s.members {
		since, wants := s.mail.since[p][l.group]
		if !wants || !p.Up() || l.at.Sub(since) < joinGrace || l.at.Sub(p.up) < joinGrace {
			continue
		}
		s.mail.stats.Expected++
		switch {
		case s.mail.has(p, l):
			s.mail.stats.Delivered++
		case !l.rooted || !l.ways[p].whole || shaken(l.ways[p].above, l.at):
			s.mail.stats.Excused++
		default:
			s.violated(Missing, "host %d lacks a message of %s sent %s by host %d",
				p.Index(), l.group.Short(), l.at.Format("15:04:05.000"), l.from.Index())
		}
	}
}

// joinGrace is how long a subscriber may take to get into a tree.
const joinGrace = time.Minute

// way returns whom a message of a group has to pass to come to a subscriber: the
// nodes above it up to the group's root. whole says that the way leads there.
func (s *Swarm) way(p *Peer, g overlay.ID) (above []*Peer, whole bool) {
	root := s.Root(g)
	for q := p; q != root; {
		if !q.Up() || len(above) > len(s.members) {
			return above, false
		}
		id, ok := q.node.Scribe.Parent(g)
		parent := s.byID[id]
		if !ok || parent == nil || !parent.Up() {
			return above, false
		}
		place, _ := parent.node.Scribe.Place(g)
		if !slices.Contains(place.Children, q.id) {
			return above, false
		}
		above = append(above, parent)
		q = parent
	}
	return above, root != nil
}

// shaken says whether one of those a message had to pass died while it could
// have been on its way, or before, so that it was not known yet.
func shaken(above []*Peer, sent time.Time) bool {
	return slices.ContainsFunc(above, func(q *Peer) bool {
		return q.down.After(sent.Add(-detection)) && q.down.Before(sent.Add(passing))
	})
}

// passing is how long a message may take from its publisher to the last of its
// subscribers while frames are lost.
const passing = 20 * time.Second

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

// CheckQuiet checks what holds when nothing has happened for a while: leaves,
// counts, trees and weights.
func (s *Swarm) CheckQuiet() {
	live := s.Live()
	s.checkLeaves(live)
	s.checkCounts(live)
	s.checkWays()
}

func (s *Swarm) checkLeaves(live []*Peer) {
	for _, p := range live {
		leaf := p.node.Overlay.Leaf()
		want := 0
		for _, q := range live {
			if !leaf.Covers(q.id) {
				continue
			}
			want++
			if leaf.Has(q.id) == nil {
				s.violated(WrongLeaf, "host %d (depth %d) does not know host %d", p.Index(), leaf.Depth(), q.Index())
			}
			if other := q.node.Overlay.Leaf(); other.Depth() != leaf.Depth() {
				s.violated(WrongLeaf, "host %d is at depth %d, host %d of its leaf at %d",
					p.Index(), leaf.Depth(), q.Index(), other.Depth())
			}
		}
		if want != leaf.Len() {
			s.violated(WrongLeaf, "host %d knows %d members, %d live", p.Index(), leaf.Len(), want)
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

func (s *Swarm) checkWays() {
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
			w, wants := p.wants[g]
			if !wants || !p.Up() {
				continue
			}
			weight += w
			if !reached[p] {
				s.violated(NoWay, "no way from the root of %s to host %d", g.Short(), p.Index())
			}
		}
		got, ok := root.node.Scribe.Weight(g)
		if weight > 0 && (!ok || got != weight) {
			s.violated(WrongWeight, "group %s: the root counts %d (root: %v), there are %d", g.Short(), got, ok, weight)
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
