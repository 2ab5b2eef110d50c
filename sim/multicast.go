package sim

import (
	"encoding/binary"
	"maps"
	"slices"
	"time"

	"tidings/overlay"
	"tidings/overlay/scribe"
)

// A multicastLog remembers which messages were published and which subscribers have them.
type multicastLog struct {
	messages []*multicast
	// since is the time from which on a subscriber could expect every message.
	since map[*Peer]map[overlay.ID]time.Time
	stats MulticastStats
}

// MulticastStats counts multicast messages over all groups of a swarm.
type MulticastStats struct {
	Published, Refused, Expected, Delivered int
	// Excused deliveries failed for a reason: the path from the root to the subscriber was
	// incomplete, or the publisher or a node on the path died.
	Excused int
}

// A treePath is the nodes above a subscriber, and whether they reach the root.
type treePath struct {
	above    []*Peer
	complete bool
}

type multicast struct {
	group       overlay.ID
	sentAt      time.Time
	from        *Peer
	deliveredIn map[*Peer]int      // life of the subscriber in which it got the message
	atRoot      bool               // the root has the message
	paths       map[*Peer]treePath // from each subscriber, at the time of publishing; without those that were disturbed
	settled     bool
}

func (m *multicastLog) joined(p *Peer, g overlay.ID) {
	if m.since[p] == nil {
		m.since[p] = map[overlay.ID]time.Time{}
	}
	m.since[p][g] = p.swarm.Now()
}

func (m *multicastLog) left(p *Peer, g overlay.ID) { delete(m.since[p], g) }

func (m *multicastLog) died(p *Peer) {
	for g := range m.since[p] {
		m.since[p][g] = p.swarm.Now().Add(time.Hour) // until it is up again
	}
}

func (m *multicastLog) arrived(p *Peer, d scribe.Delivery) {
	l := m.messages[binary.BigEndian.Uint64(d.Payload)]
	if l.settled {
		p.swarm.reportViolation(Duplicate, "host %d got a message of %s long after it was sent", p.Index(), d.Group.Short())
		return
	}
	if m.has(p, l) {
		p.swarm.reportViolation(Duplicate, "host %d got a message of %s twice", p.Index(), d.Group.Short())
	}
	l.deliveredIn[p] = p.lives
}

// has reports whether a peer has a message in its present life.
func (m *multicastLog) has(p *Peer, l *multicast) bool { return l.deliveredIn[p] == p.lives }

// settleTime is the time after which no copy of a message is in transit: its publisher tries for a
// minute, and nodes keep it for three more.
const settleTime = 5 * time.Minute

// Publish publishes a message of at least size bytes from a peer, and checks after settleTime which
// subscribers have it.
func (s *Swarm) Publish(from *Peer, g overlay.ID, size int) {
	s.multicasts.stats.Published++
	l := &multicast{group: g, sentAt: s.Now(), from: from, deliveredIn: map[*Peer]int{}, paths: map[*Peer]treePath{}}
	for _, p := range s.members {
		if _, wants := s.multicasts.since[p][g]; wants && p.Up() {
			above, complete := s.pathToRoot(p, g)
			l.paths[p] = treePath{above, complete}
		}
	}
	payload := binary.BigEndian.AppendUint64(nil, uint64(len(s.multicasts.messages)))
	payload = append(payload, make([]byte, max(size-len(payload), 0))...)
	s.multicasts.messages = append(s.multicasts.messages, l)
	from.Do(func() { from.node.Scribe.Publish(g, payload, func(ok bool) { l.atRoot = ok }) })
	s.After(transitTime, func() {
		maps.DeleteFunc(l.paths, func(_ *Peer, path treePath) bool { return disturbed(path.above, l.sentAt) })
	})
	s.After(settleTime, func() {
		s.checkDelivery(l)
		l.settled, l.paths = true, nil
	})
}

// checkDelivery checks which subscribers have a message.
func (s *Swarm) checkDelivery(l *multicast) {
	if !l.atRoot {
		s.multicasts.stats.Refused++
	}
	for _, p := range s.members {
		since, wants := s.multicasts.since[p][l.group]
		if !wants || !p.Up() || l.sentAt.Sub(since) < joinGrace || l.sentAt.Sub(p.startedAt) < joinGrace {
			continue
		}
		s.multicasts.stats.Expected++
		switch {
		case s.multicasts.has(p, l):
			s.multicasts.stats.Delivered++
		case !l.atRoot || !l.paths[p].complete ||
			s.excused(l.sentAt, p, l.from) || s.excused(l.sentAt, l.paths[p].above...):
			s.multicasts.stats.Excused++
		default:
			s.reportViolation(Lost, "host %d lacks a message of %s sent %s by host %d",
				p.Index(), l.group.Short(), l.sentAt.Format("15:04:05.000"), l.from.Index())
		}
	}
}

// joinGrace is how long a subscriber may take to get into a tree.
const joinGrace = time.Minute

// pathToRoot returns the nodes that a message of a group passes on its way to a subscriber, from
// the subscriber's parent up to the root. complete reports whether the path reaches the root.
func (s *Swarm) pathToRoot(p *Peer, g overlay.ID) (above []*Peer, complete bool) {
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

// disturbed reports whether a node on a path died since a message was sent, or so shortly before that
// others did not know. It is asked when the message has arrived, for a node may die again later.
func disturbed(above []*Peer, sent time.Time) bool {
	return slices.ContainsFunc(above, func(q *Peer) bool { return q.diedAt.After(sent.Add(-detectionTime)) })
}

// transitTime is how long a message may take from its publisher to its last subscriber while frames
// are lost.
const transitTime = 20 * time.Second
