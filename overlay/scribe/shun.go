package scribe

import (
	"bytes"
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/overlay"
)

// A shunned is a peer that this node does not want as a parent in a group.
type shunned struct {
	group overlay.ID
	peer  env.PeerID
}

// A shunning is what is known of it.
type shunning struct {
	id    overlay.ID // of the peer
	until moment
}

const (
	// shunFor is how long that is remembered.
	shunFor = time.Hour
	// maxShunned bounds what is remembered; at the bound nobody else is shunned.
	maxShunned = 4096
	// maxAvoid is how many of them a Join names.
	maxAvoid = 8
)

// Brought says who was the first peer to bring a message of a group of late, about three minutes;
// ok is false if none did.
func (s *Scribe) Brought(id overlay.ID, msg uint64) (by env.PeerID, ok bool) {
	for _, m := range s.seen {
		if by := m[passed{id, msg}]; by != "" {
			return by, true
		}
	}
	return "", false
}

// Shun leaves a parent in a group, and has it as one no more for an hour, unless it is the
// root: there is no tree beside its own. A client stays below who acts for it. Shun says
// whether it left it.
func (s *Scribe) Shun(id overlay.ID, peer env.PeerID) bool {
	g, l := s.groups.Get(id), s.links[peer]
	if g == nil || l == nil || g.parent(l) == nil || s.node.State() != overlay.Active || len(s.shunned) >= maxShunned {
		return false
	}
	s.stats.Shunned++
	s.shunned[shunned{id, peer}] = shunning{l.contact.ID, s.now() + moment(shunFor)}
	s.leaveParent(g, l)
	s.seek(g)
	return true
}

func (s *Scribe) shuns(id overlay.ID, peer env.PeerID) bool {
	return len(s.shunned) > 0 && s.shunned[shunned{id, peer}].until > s.now()
}

// avoided returns the ids of those who are shunned in a group, the first maxAvoid.
func (s *Scribe) avoided(g *group) (of [][]byte) {
	for who, is := range s.shunned {
		if who.group == g.id && is.until > s.now() {
			of = append(of, is.id[:])
		}
	}
	slices.SortFunc(of, bytes.Compare)
	return of[:min(len(of), maxAvoid)]
}

// forgive forgets who was shunned long ago.
func (s *Scribe) forgive(now time.Time) {
	for who, is := range s.shunned {
		if is.until <= momentOf(now) {
			delete(s.shunned, who)
		}
	}
}

// askAround asks the root by name, past those on the way to it: one that is shunned would answer first.
// The root sends on to children that are not avoided.
func (s *Scribe) askAround(g *group, avoid [][]byte) {
	q := g.sought
	s.node.Lookup(g.id, 1, func(l overlay.Lookup) {
		if !s.has(g) || g.sought != q || !g.orphan() || len(l.Nearest) == 0 || l.Nearest[0].ID == s.node.ID() {
			return // asked again later; see seekAgain
		}
		root := l.Nearest[0]
		q.root = root.Peer.ID
		j := s.join(g, q.told)
		j.GetJoin().Avoid = avoid
		s.link(root) // so that Accept finds who it is from
		s.send(root.Peer, j)
	})
}
