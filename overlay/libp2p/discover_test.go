package libp2p

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"tidings/internal/env"
)

// greetFound sends a frame to each peer that is found, as a node would.
func (h *testHost) greetFound(see func(env.Peer)) {
	go func() {
		for {
			select {
			case p := <-h.found:
				h.Send(p, env.Control, []byte("hello"))
				see(p)
			case <-h.ctx.Done():
				return
			}
		}
	}()
}

func TestThirdHostIsFoundThroughTheFirst(t *testing.T) {
	t.Parallel()
	first := startTestHost(t, func(c *Config) { c.Founder = true })
	through := func(c *Config) { c.Bootstrap = first.Addrs() }
	second, third := startTestHost(t, through), startTestHost(t, through)
	second.greetFound(func(env.Peer) {})
	met := make(chan env.Peer, 100)
	third.greetFound(func(p env.Peer) {
		if p.ID == second.ID() {
			met <- p
		}
	})
	if p := next(t, "the second host", met); len(p.Addrs) == 0 {
		t.Error("found without an address")
	}
	wait(t, "a link between second and third", func() bool {
		for {
			select {
			case l := <-second.frames:
				if l.from == third.ID() {
					return true
				}
			default:
				return false
			}
		}
	})
}

func TestKnownPeersAreReported(t *testing.T) {
	t.Parallel()
	a := startTestHost(t, nil)
	b := startTestHost(t, func(c *Config) {
		c.Known = []env.Peer{{ID: "nonsense"}, {ID: a.ID(), Addrs: []string{"nonsense"}}, a.Peer()}
	})
	if p := next(t, "the known peer", b.found); p.ID != a.ID() || len(p.Addrs) != len(a.Peer().Addrs) {
		t.Errorf("found %+v", p)
	}
}

func TestPeersOfTheLocalNetworkAreReported(t *testing.T) {
	t.Parallel()
	a, b := newTestHost(t, nil), startTestHost(t, nil)
	info, _ := infoOf(a.Peer())
	b.mdnsPeers.HandlePeerFound(info)
	if p := next(t, "a local peer", b.found); p.ID != a.ID() {
		t.Errorf("found %+v", p)
	}
}

func TestJoinTakesTheDescriptor(t *testing.T) {
	t.Parallel()
	a := startTestHost(t, nil)
	for _, name := range []string{"", "lab"} {
		b := newTestHost(t, func(c *Config) { c.Descriptor, c.Name, c.Bootstrap = nil, name, a.Addrs() })
		got, err := b.Join(t.Context())
		if err != nil || string(got) != string(descriptor("lab")) {
			t.Fatalf("join %q: %x, %v", name, got, err)
		}
		b.start()
		if p := next(t, "the peer it joined through", b.found); p.ID != a.ID() {
			t.Errorf("found %+v", p)
		}
		a.Send(b.Peer(), env.Control, []byte("welcome"))
		next(t, "a frame", b.frames)
		if again, err := b.Join(t.Context()); err != nil || string(again) != string(got) {
			t.Errorf("joined again: %x, %v", again, err)
		}
	}
}

func TestJoinWaitsForABusyPeer(t *testing.T) {
	t.Parallel()
	a := newTestHost(t, nil)
	b := newTestHost(t, func(c *Config) { c.Descriptor, c.Bootstrap = nil, a.Addrs() })
	joined := make(chan error, 1)
	go func() { _, err := b.Join(t.Context()); joined <- err }()
	wait(t, "a refusal", func() bool { return b.Stats().Refusals > 0 })
	a.start()
	if err := next(t, "Join", joined); err != nil {
		t.Error(err)
	}
}

func TestJoinSaysWhyItIsRefused(t *testing.T) {
	t.Parallel()
	a := startTestHost(t, nil)
	b := newTestHost(t, func(c *Config) { c.Descriptor, c.Name, c.Bootstrap = nil, "other", a.Addrs() })
	_, err := b.Join(t.Context())
	if err == nil || !strings.Contains(err.Error(), `the node that was asked is in network "lab", and the node that asks wants "other"`) {
		t.Errorf("join: %v", err)
	}
}

func TestJoinNeedsAPeerAndEndsWithItsContext(t *testing.T) {
	t.Parallel()
	a := newTestHost(t, func(c *Config) { c.Descriptor = nil })
	if _, err := a.Join(t.Context()); !errors.Is(err, ErrNoPeers) {
		t.Errorf("join: %v", err)
	}
	b := newTestHost(t, func(c *Config) { c.Descriptor, c.Bootstrap = nil, newTestHost(t, nil).Addrs() })
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if _, err := b.Join(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("join: %v", err)
	}
}

// Whether a multicast arrives depends on the machine, so the test checks only that mDNS starts, and that it ends
// with its host.
func TestMDNSStartsOnRequest(t *testing.T) {
	t.Parallel()
	h := startTestHost(t, func(c *Config) { c.MDNS = true })
	wait(t, "mDNS to begin", func() bool {
		h.mdnsPeers.mu.Lock()
		defer h.mdnsPeers.mu.Unlock()
		return h.mdnsPeers.service != nil || strings.Contains(h.logged.String(), "no mDNS")
	})
	h.stop()
	if h.mdnsPeers.service != nil {
		t.Error("mDNS goes on without its host")
	}
}
