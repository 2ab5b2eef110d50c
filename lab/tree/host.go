package tree

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"tidings/internal/env"
	"tidings/internal/loop"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/libp2p"
	"tidings/overlay/scribe"
)

// A host is one node with trees and nothing above them, over real sockets.
type host struct {
	loop    *loop.Loop
	sockets *libp2p.Host
	signer  *wire.Signer
	id      overlay.ID

	// The fields below belong to the loop.
	node   *overlay.Node
	scribe *scribe.Scribe // nil: removed, to measure its memory
	sent   *counted
}

// openHost opens a host that listens and does nothing until it is run. Deliveries of its trees go
// to deliver.
func openHost(network wire.Network, key ed25519.PrivateKey, rng *rand.Rand, through []string, deliver func(scribe.Delivery)) (*host, error) {
	descriptor := network.Descriptor()
	hash := wire.HashOf(descriptor)
	h := &host{loop: loop.New(loop.Config{Workers: 1}), signer: wire.NewSigner(key, hash)}
	sockets, err := libp2p.New(libp2p.Config{
		Key: key, Listen: []string{listenAt}, Descriptor: descriptor, Bootstrap: through,
		Founder: through == nil, Urgent: overlay.Urgent,
	})
	if err != nil {
		return nil, fmt.Errorf("open a host of trees: %w", err)
	}
	h.sockets, h.sent = sockets, &counted{Network: sockets}
	e := env.Env{Clock: h.loop, Network: h.sent, Store: noStore{}, Rand: rng, Log: slog.New(slog.DiscardHandler)}
	h.node = overlay.New(e, h.signer, wire.NewVerifier(hash), overlay.Config{Network: network, Founder: through == nil, DialBackTimeout: roleTimeout})
	h.scribe = scribe.New(e, h.node, scribe.Config{FanOut: network.FanOut, MaxWeight: network.MaxWeight}, deliver)
	h.id = h.node.ID()
	return h, nil
}

// roleTimeout is how long a host waits to be dialled back before it becomes a client. All hosts can
// be dialled here, even if the machine is busy.
const roleTimeout = 2 * time.Minute

// listenAt is a QUIC port that the system chooses.
const listenAt = "/ip4/127.0.0.1/udp/0/quic-v1"

// serve runs the host until ctx ends, and returns when all its parts have stopped.
func (h *host) serve(ctx context.Context) error {
	looping, stop := context.WithCancel(context.WithoutCancel(ctx))
	var parts sync.WaitGroup
	parts.Go(func() { _ = h.loop.Run(looping, h) }) // it ends for no other reason
	err := h.sockets.Run(ctx, libp2p.Events{
		Receive: func(from env.PeerID, class env.Class, frame []byte) bool {
			call := func() { h.receive(from, frame) }
			if class == env.Control && overlay.Urgent(frame) && h.loop.PostUrgent(call) {
				return true
			}
			return h.loop.Post(class, call)
		},
		Found:     func(p env.Peer) { h.loop.Post(env.Control, func() { h.node.Found(p) }) },
		Reachable: func(addrs []string) { h.loop.Deliver(func() { h.node.Reachable(addrs) }) },
		PeerDown:  func(id env.PeerID) { h.loop.Post(env.Control, func() { h.peerDown(id) }) },
	})
	stop()
	parts.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("a host of trees ended: %w", err)
}

// Run implements loop.Runner. It runs all layers twice, as internal/node does, because one layer
// may make another due.
func (h *host) Run(now time.Time) (next time.Time) {
	for range 2 {
		if next = h.node.Run(now); h.scribe != nil {
			next = env.Sooner(next, h.scribe.Run(now))
		}
	}
	return next
}

func (h *host) peerDown(id env.PeerID) {
	if h.node.PeerDown(id); h.scribe != nil {
		h.scribe.PeerDown(id)
	}
}

// receive passes a frame to its layer.
func (h *host) receive(from env.PeerID, frame []byte) {
	layer, body, err := wire.ParseFrame(frame)
	if err == nil {
		switch {
		case layer == wire.Overlay:
			err = h.node.Receive(from, body)
		case layer == wire.Scribe && h.scribe != nil:
			err = h.scribe.Receive(from, frame, body)
		}
	}
	if err != nil {
		h.sockets.Blame(from)
	}
}

// snapshot returns what the host has sent. It must be called on the loop.
func (h *host) snapshot() traffic {
	s, n := h.node.Stats(), h.sockets.Stats()
	carrying := Count{int(s.Carrying), int(s.CarryingBytes)}
	t := traffic{overlay: Count{int(s.Sent), int(s.Bytes)}.minus(carrying), carrying: carrying, scribe: h.sent.scribe}
	for _, d := range []libp2p.Drops{n.Control.Drops, n.Bulk.Drops} {
		t.lost += int(d.QueueFull + d.Unreachable + d.Refused + d.NoRoom + d.Inbox)
	}
	return t
}

// removeScribe removes the host's Scribe. It must be called on the loop.
func (h *host) removeScribe() *scribe.Scribe {
	was := h.scribe
	h.scribe = nil
	h.node.Handle(wire.Scribe, noLayer{})
	return was
}

// noLayer replaces a layer that was removed.
type noLayer struct{}

func (noLayer) Forward(*overlay.Message) bool { return false }
func (noLayer) Deliver(*overlay.Message)      {}
func (noLayer) PeerGone(env.PeerID)           {}
func (noLayer) LeafChanged()                  {}

// noStore is a store that keeps nothing: no host is restarted.
type noStore struct{}

func (noStore) Commit(_ []env.Op, done func(error))              { done(nil) }
func (noStore) Get([]byte) ([]byte, error)                       { return nil, nil }
func (noStore) Range([]byte, func(key, value []byte) bool) error { return nil }
