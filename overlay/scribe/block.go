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
	until env.Moment
}

// blocks are the parents that the layer above does not want.
type blocks struct {
	*base
	byKey map[blockKey]blockEntry
}

const (
	// blockTime is how long a block lasts.
	blockTime = time.Hour
	// maxBlocked bounds the blocks. Beyond it Block does nothing.
	maxBlocked = 4096
	// maxAvoid bounds the blocked members named in a Join.
	maxAvoid = 8
)

// add blocks a member, and reports whether maxBlocked allowed it.
func (b *blocks) add(group overlay.ID, peer *overlay.Contact) bool {
	if len(b.byKey) >= maxBlocked {
		return false
	}
	b.byKey[blockKey{group, peer.Peer.ID}] = blockEntry{peer.ID, b.now() + env.Moment(blockTime)}
	return true
}

func (b *blocks) has(id overlay.ID, peer env.PeerID) bool {
	return len(b.byKey) > 0 && b.byKey[blockKey{id, peer}].until > b.now()
}

// ids returns the ids of the first maxAvoid members that are blocked in a group.
func (b *blocks) ids(group overlay.ID) (of [][]byte) {
	for who, is := range b.byKey {
		if who.group == group && is.until > b.now() {
			of = append(of, is.id[:])
		}
	}
	slices.SortFunc(of, bytes.Compare)
	return of[:min(len(of), maxAvoid)]
}

// expire ends the blocks that are over.
func (b *blocks) expire(now time.Time) {
	for who, is := range b.byKey {
		if is.until <= env.MomentOf(now) {
			delete(b.byKey, who)
		}
	}
}
