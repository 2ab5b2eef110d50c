package table2

import (
	"fmt"
	"time"

	"tidings/internal/env"
	"tidings/internal/node"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/owner"
	"tidings/overlay/scribe"
)

// A Member joins the layers that a channel needs: overlay, trees, owners. It has no
// readers, so it is no node.Node: that one would keep windows and heartbeats for them.
type Member struct {
	Overlay *overlay.Node
	Scribe  *scribe.Scribe
	Owners  *owner.Owners
}

func newMember(e env.Env, signer *wire.Signer, verify wire.Verifier, cfg node.Config) *Member {
	m := &Member{Overlay: overlay.New(e, signer, verify, cfg.Overlay)}
	m.Scribe = scribe.New(e, m.Overlay, cfg.Scribe, func(scribe.Delivery) {})
	var err error
	if m.Owners, err = owner.New(e, m.Overlay, signer, verify, cfg.Owner, (*ownerSide)(m)); err != nil {
		panic(fmt.Sprintf("table2: a member with an empty disk: %v", err))
	}
	return m
}

// Run runs the layers, twice as node.Node does.
func (m *Member) Run(now time.Time) (next time.Time) {
	for range 2 {
		next = m.Overlay.Run(now)
		next = env.Sooner(next, m.Scribe.Run(now))
		next = env.Sooner(next, m.Owners.Run(now))
	}
	return next
}

// Receive brings a frame to its layer.
func (m *Member) Receive(from env.PeerID, frame []byte) error {
	layer, body, err := wire.ParseFrame(frame)
	if err != nil {
		return err
	}
	switch layer {
	case wire.Overlay:
		return m.Overlay.Receive(from, body)
	case wire.Scribe:
		return m.Scribe.Receive(from, frame, body)
	case wire.Owner:
		return m.Owners.Receive(from, body)
	}
	return fmt.Errorf("%w: layer %d", wire.ErrFrame, layer)
}

// Found, Reachable and PeerDown are the overlay's.

// Found reports a peer that one can join through.
func (m *Member) Found(peer env.Peer) { m.Overlay.Found(peer) }

// Reachable reports where the member can be dialled.
func (m *Member) Reachable(addrs []string) { m.Overlay.Reachable(addrs) }

// PeerDown hints that a link broke.
func (m *Member) PeerDown(peer env.PeerID) { m.Overlay.PeerDown(peer) }

// ownerSide is what overlay/owner sees of the layers beside it. Nothing is appended to
// any log.
type ownerSide Member

func (m *ownerSide) Lead(overlay.ID, bool)                      {}
func (m *ownerSide) Grew(overlay.ID)                            {}
func (m *ownerSide) Held(overlay.ID, *owner.Entry, []byte)      {}
func (m *ownerSide) Absorb(overlay.ID, []byte)                  {}
func (m *ownerSide) Absorbing(overlay.ID) bool                  { return false }
func (m *ownerSide) Weight(key overlay.ID) (int, bool)          { return m.Scribe.Weight(key) }
func (m *ownerSide) Siblings(key overlay.ID) []*overlay.Contact { return m.Scribe.Below(key) }
