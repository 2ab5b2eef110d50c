package scribe

import (
	"bytes"
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/overlay"
)

// A blockKey is a peer that this node does not accept as a parent in a group.
type blockKey struct {
	group overlay.ID
	peer  env.PeerID
}

// A blockEntry holds the details of a block.
type blockEntry struct {
	id    overlay.ID // of the peer in the overlay
	until moment
}

const (
	// blockTime is how long a block lasts.
	blockTime = time.Hour
	// maxBlocked bounds the blocks. Beyond it Block does nothing.
	maxBlocked = 4096
	// maxAvoid bounds the blocked members named in a Join.
	maxAvoid = 8
)

// FirstSender returns the peer that first sent this node a message of a group; ok is false if the
// message is unknown or came from no peer. Messages are remembered for at least seenTTL, unless
// maxSeen is exceeded.
func (s *Scribe) FirstSender(id overlay.ID, msg uint64) (by env.PeerID, ok bool) {
	for _, m := range s.seen {
		if by := m[messageKey{id, msg}]; by != "" {
			return by, true
		}
	}
	return "", false
}

// Block leaves a parent in a group, and accepts it as one there no more for blockTime, unless it is
// the root, which has no alternative. It has no effect at a client, whose parents are the members
// that act for it. Block says whether the parent was left.
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

// blockedIDs returns the ids of the first maxAvoid members that are blocked in a group.
func (s *Scribe) blockedIDs(g *group) (of [][]byte) {
	for who, is := range s.blocked {
		if who.group == g.id && is.until > s.now() {
			of = append(of, is.id[:])
		}
	}
	slices.SortFunc(of, bytes.Compare)
	return of[:min(len(of), maxAvoid)]
}

// unblock ends the blocks that are over.
func (s *Scribe) unblock(now time.Time) {
	for who, is := range s.blocked {
		if is.until <= momentOf(now) {
			delete(s.blocked, who)
		}
	}
}

// joinAtRoot looks up the root and joins there directly. Along the route, a blocked member could
// answer first. The root redirects to children that are not avoided.
func (s *Scribe) joinAtRoot(g *group, avoid [][]byte) {
	q := g.search
	s.node.Lookup(g.id, 1, func(l overlay.Lookup) {
		if !s.isCurrent(g) || g.search != q || !g.lacksParent() || len(l.Nearest) == 0 || l.Nearest[0].ID == s.node.ID() {
			return // retrySearch tries again
		}
		root := l.Nearest[0]
		q.root = root.Peer.ID
		j := s.joinMessage(g, q.weight)
		j.GetJoin().Avoid = avoid
		s.link(root) // so that the sender of Accept is known
		s.send(root.Peer, j)
	})
}
