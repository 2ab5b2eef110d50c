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

	// What follows belongs to the loop.
	node   *overlay.Node
	scribe *scribe.Scribe // nil: it was taken away, to see what it weighs
	sent   *counted
}

// openHost makes a host, which listens and does nothing until it is run. What its trees
// bring goes to deliver.
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

// rolePatience is how long a host waits to be dialled back before it becomes a client: all can
// be dialled here, however busy the machine is.
const roleTimeout = 2 * time.Minute

// listenAt is a port of QUIC that the system chooses.
const listenAt = "/ip4/127.0.0.1/udp/0/quic-v1"

// live drives the host until ctx ends, and returns when all of it has stopped.
func (h *host) serve(ctx context.Context) error {
	looping, stop := context.WithCancel(context.WithoutCancel(ctx))
	var parts sync.WaitGroup
	parts.Go(func() { _ = h.loop.Run(looping, h) }) // which ends for no other reason
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

// Run implements loop.Runner. It does so twice, as internal/node does: what one layer does may
// bring another's wish forward.
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

// receive brings a frame to its layer.
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

// sentSoFar is what the host has sent. It is called on the loop.
func (h *host) snapshot() traffic {
	s, n := h.node.Stats(), h.sockets.Stats()
	carrying := Count{int(s.Carrying), int(s.CarryingBytes)}
	t := traffic{overlay: Count{int(s.Sent), int(s.Bytes)}.minus(carrying), carrying: carrying, scribe: h.sent.scribe}
	for _, d := range []libp2p.Drops{n.Control.Drops, n.Bulk.Drops} {
		t.lost += int(d.QueueFull + d.Unreachable + d.Refused + d.NoRoom + d.Inbox)
	}
	return t
}

// strip takes the host's Scribe away. It is called on the loop.
func (h *host) removeScribe() *scribe.Scribe {
	was := h.scribe
	h.scribe = nil
	h.node.Handle(wire.Scribe, noLayer{})
	return was
}

// A nobody is a layer that has gone.
type noLayer struct{}

func (noLayer) Forward(*overlay.Message) bool { return false }
func (noLayer) Deliver(*overlay.Message)      {}
func (noLayer) PeerGone(env.PeerID)           {}
func (noLayer) LeafChanged()                  {}

// A forgetful store keeps nothing: no host is started a second time.
type noStore struct{}

func (noStore) Commit(_ []env.Op, done func(error))              { done(nil) }
func (noStore) Get([]byte) ([]byte, error)                       { return nil, nil }
func (noStore) Range([]byte, func(key, value []byte) bool) error { return nil }
