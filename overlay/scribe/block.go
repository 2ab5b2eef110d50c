package scribe

import (
	"bytes"
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/overlay"
)

// A shunned is a peer that this node does not want as a parent in a group.
type blockKey struct {
	group overlay.ID
	peer  env.PeerID
}

// A shunning is what is known of it.
type blockEntry struct {
	id    overlay.ID // of the peer
	until moment
}

const (
	// shunFor is how long that is remembered.
	blockTime = time.Hour
	// maxShunned bounds what is remembered; at the bound nobody else is shunned.
	maxBlocked = 4096
	// maxAvoid is how many of them a Join names.
	maxAvoid = 8
)

// Brought says who was the first peer to bring a message of a group of late, about three minutes;
// ok is false if none did.
func (s *Scribe) FirstSender(id overlay.ID, msg uint64) (by env.PeerID, ok bool) {
	for _, m := range s.seen {
		if by := m[messageKey{id, msg}]; by != "" {
			return by, true
		}
	}
	return "", false
}

// Shun leaves a parent in a group, and has it as one no more for an hour, unless it is the
// root: there is no tree beside its own. A client stays below who acts for it. Shun says
// whether it left it.
func (s *Scribe) Block(id overlay.ID, peer env.PeerID) bool {
	g, l := s.groups.Get(id), s.links[peer]
	if g == nil || l == nil || g.parent(l) == nil || s.node.State() != overlay.Active || len(s.blocked) >= maxBlocked {
		return false
	}
	s.stats.Shunned++
	s.blocked[blockKey{id, peer}] = blockEntry{l.contact.ID, s.now() + moment(blockTime)}
	s.leaveParent(g, l)
	s.searchParent(g)
	return true
}

func (s *Scribe) isBlocked(id overlay.ID, peer env.PeerID) bool {
	return len(s.blocked) > 0 && s.blocked[blockKey{id, peer}].until > s.now()
}

// avoided returns the ids of those who are shunned in a group, the first maxAvoid.
func (s *Scribe) blockedIDs(g *group) (of [][]byte) {
	for who, is := range s.blocked {
		if who.group == g.id && is.until > s.now() {
			of = append(of, is.id[:])
		}
	}
	slices.SortFunc(of, bytes.Compare)
	return of[:min(len(of), maxAvoid)]
}

// forgive forgets who was shunned long ago.
func (s *Scribe) unblock(now time.Time) {
	for who, is := range s.blocked {
		if is.until <= momentOf(now) {
			delete(s.blocked, who)
		}
	}
}

// askAround asks the root by name, past those on the way to it: one that is shunned would answer first.
// The root sends on to children that are not avoided.
func (s *Scribe) joinAtRoot(g *group, avoid [][]byte) {
	q := g.search
	s.node.Lookup(g.id, 1, func(l overlay.Lookup) {
		if !s.isCurrent(g) || g.search != q || !g.lacksParent() || len(l.Nearest) == 0 || l.Nearest[0].ID == s.node.ID() {
			return // asked again later; see seekAgain
		}
		root := l.Nearest[0]
		q.root = root.Peer.ID
		j := s.joinMessage(g, q.weight)
		j.GetJoin().Avoid = avoid
		s.link(root) // so that Accept finds who it is from
		s.send(root.Peer, j)
	})
}
