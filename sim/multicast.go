package sim

import (
	"encoding/binary"
	"slices"
	"time"

	"tidings/overlay"
	"tidings/overlay/scribe"
)

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
// publisher tries for a minute, and it is kept for three more.
const settling = 5 * time.Minute

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
		case !l.rooted || !l.ways[p].whole || shaken(l.ways[p].above, l.at) ||
			s.excused(l.at, p, l.from) || s.excused(l.at, l.ways[p].above...):
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
