package owner

import (
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/overlay"
)

// A Tracker knows who owns a key, for a node that keeps no log of it. It accepts an epoch that succeeds an accepted one,
// because quorums of the owners of both have signed it. It accepts another epoch by the root's word alone, or after a
// lookup has found its owners near the key.
type Tracker struct {
	r   *Resolver
	key overlay.ID
	url string // see Track, as for the next two fields

	verify  func() bool
	changed func(e *Epoch)

	epochs    []*Epoch   // accepted epochs, latest last; at most maxAccepted
	owners    []env.Peer // owners of the latest epoch, the sequencer first
	verified  bool       // a lookup has found the owners of the first accepted epoch; the others succeed it
	verifying bool       // a lookup is under way
	asking    bool       // a question is under way
	askedAt   time.Time
	failures  int // questions in a row without an epoch that this node accepts; at most 16
	closed    bool
}

const (
	// maxAccepted bounds the epochs that a Tracker remembers. Messages signed in an earlier epoch are still on their way
	// when the next one becomes known.
	maxAccepted = 3
	// refreshRetry is the delay before owners are asked for again; it doubles up to maxRefreshRetry after each answer
	// that this node does not accept.
	refreshRetry, maxRefreshRetry = 2 * time.Second, time.Minute
)

// Track returns a Tracker of a key. It asks when Refresh is called or an unknown epoch is needed.
//
// url is the key's URL if the key is to have owners, because this node uses it; otherwise empty. verify tells whether an
// epoch that does not succeed an accepted one needs a lookup, which costs some twenty messages; without it, the root of
// the key can name any owners near the key. changed is called with the latest epoch when the epoch or an address of its
// owners has changed, and with nil each time the key is found to have no owners.
func (r *Resolver) Track(key overlay.ID, url string, verify func() bool, changed func(e *Epoch)) *Tracker {
	return &Tracker{r: r, key: key, url: url, verify: verify, changed: changed}
}

// Close ends the calls of changed.
func (t *Tracker) Close() { t.closed = true }

// Latest returns the latest accepted epoch; nil if there is none.
func (t *Tracker) Latest() *Epoch {
	if len(t.epochs) == 0 {
		return nil
	}
	return t.epochs[len(t.epochs)-1]
}

// Owners returns the owners of the latest accepted epoch, the sequencer first. The slice must not be modified.
func (t *Tracker) Owners() []env.Peer { return t.owners }

// Owns reports whether a peer owns the key in the latest accepted epoch.
func (t *Tracker) Owns(p env.PeerID) bool {
	e := t.Latest()
	return e != nil && e.owns(p)
}

// Owned reports whether a peer owns the key in any of the remembered epochs.
func (t *Tracker) Owned(p env.PeerID) bool {
	return slices.ContainsFunc(t.epochs, func(e *Epoch) bool { return e.owns(p) })
}

// Epoch returns an epoch by its hash, if it is accepted or this node is one of its owners. Otherwise Epoch asks for the
// latest epoch, and returns nil.
func (t *Tracker) Epoch(hash Hash) *Epoch {
	for _, e := range t.epochs {
		if e.Hash == hash && (t.verified || !t.verify()) {
			return e
		}
	}
	if v, ok := t.r.logs.View(t.key); ok && v.Owns && v.Epoch.Hash == hash {
		return v.Epoch
	}
	t.Refresh()
	return nil
}

// Refresh asks for the latest epoch, unless a question is under way or was asked a moment ago.
func (t *Tracker) Refresh() {
	now := t.r.clock.Now()
	if t.asking || t.verifying || now.Sub(t.askedAt) < min(refreshRetry<<t.failures, maxRefreshRetry) {
		return
	}
	t.asking, t.askedAt = true, now
	t.failures = min(t.failures+1, 16)
	t.r.find(t.key, t.url, t.onFound)
}

// Accept makes an epoch the latest one without a check: this node is one of its owners.
func (t *Tracker) Accept(e *Epoch) { t.accept(e, nil) }

// Forget forgets all epochs.
func (t *Tracker) Forget() { t.epochs, t.owners, t.verified = nil, nil, false }

func (t *Tracker) onFound(f Found) {
	t.asking = false
	e, last := f.Epoch, t.Latest()
	switch {
	case t.closed || !f.Answered:
	case e == nil && len(f.Owners) > 0: // the epoch is invalid
	case e == nil:
		t.failures = 0
		t.changed(nil)
	case last != nil && (t.verified || !t.verify()) && (e.Hash == last.Hash || e.Succeeds(last)):
		t.accept(e, f.Owners)
	case !t.verify():
		t.verified = false
		t.accept(e, f.Owners)
	default:
		t.verifying = true
		t.r.VerifyOwners(e, func(ok bool) {
			if t.verifying = false; !ok || t.closed {
				return
			}
			if !t.verified {
				t.epochs, t.verified = nil, true // the others were never verified
			}
			t.accept(e, f.Owners)
		})
	}
}

// accept makes an epoch the latest one. It may be one of the earlier ones, where two branches have merged.
func (t *Tracker) accept(e *Epoch, contacts []*overlay.Contact) {
	t.failures = 0
	last := t.Latest()
	t.epochs = slices.DeleteFunc(t.epochs, func(old *Epoch) bool { return old.Hash == e.Hash })
	if t.epochs = append(t.epochs, e); len(t.epochs) > maxAccepted {
		t.epochs = slices.Clone(t.epochs[1:])
	}
	var owners []env.Peer
	for _, p := range e.inOrder() {
		peer := env.Peer{ID: p}
		if i := slices.IndexFunc(contacts, func(c *overlay.Contact) bool { return c.Peer.ID == p }); i >= 0 {
			peer = contacts[i].Peer
		} else if c := t.r.contact(p); c != nil {
			peer = c.Peer
		}
		owners = append(owners, peer)
	}
	same := last != nil && last.Hash == e.Hash && slices.EqualFunc(owners, t.owners, func(a, b env.Peer) bool {
		return a.ID == b.ID && slices.Equal(a.Addrs, b.Addrs)
	})
	if t.owners = owners; !same {
		t.changed(e)
	}
}
