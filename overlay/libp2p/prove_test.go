package libp2p

import (
	"testing"

	"tidings/internal/env"
)

// A peer is proven to be at an address at which it is connected, or answers when it is dialled; and at no other one.
func TestPeersProveTheirAddresses(t *testing.T) {
	t.Parallel()
	a, b, c := startTestHost(t, nil), startTestHost(t, nil), startTestHost(t, nil)
	prove := func(p env.Peer) string {
		t.Helper()
		done := make(chan string, 1)
		a.Prove(p, func(addr string) { done <- addr })
		return next(t, "the proof", done)
	}
	there := b.Peer()
	if got := prove(there); got == "" {
		t.Error("a peer without a connection was not reached where it listens")
	}
	if got := prove(env.Peer{ID: b.ID(), Addrs: c.Peer().Addrs}); got != "" {
		t.Error("a peer was reached where another one listens")
	}
	a.Send(there, env.Control, []byte("hello"))
	next(t, "the frame", b.frames)
	if got := prove(there); got == "" {
		t.Error("a connected peer was not reached")
	}
	if got := prove(env.Peer{ID: b.ID(), Addrs: []string{"\x04\x7f\x09\x09\x09\x06\x00\x01"}}); got != "" {
		t.Error("a connected peer was reached where nobody listens")
	}
	if got := prove(env.Peer{ID: b.ID(), Addrs: []string{"", "\x04", "none"}}); got != "" {
		t.Error("a peer was reached nowhere")
	}
	for range maxProofs { // as if so many peers were dialled that do not answer
		a.proofSlots <- struct{}{}
	}
	if got := prove(there); got == "" {
		t.Error("a connected peer waits for others")
	}
	if got := prove(c.Peer()); got != "" {
		t.Error("more peers are dialled than the limit allows")
	}
	if n := len(a.host.Network().ConnsToPeer(a.host.ID())); n != 0 {
		t.Errorf("%d connections to itself", n)
	}
}
