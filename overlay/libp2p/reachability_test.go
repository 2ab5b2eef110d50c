package libp2p

import (
	"errors"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/event"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"

	"tidings/internal/env"
	"tidings/overlay/libp2p/libp2ppb"
)

// addresses returns the sorted binary multiaddrs at which a host listens.
func addresses(h *testHost) []string {
	addrs := h.Peer().Addrs
	slices.Sort(addrs)
	return addrs
}

func TestADialBackProvesReachability(t *testing.T) {
	t.Parallel()
	a, b := startTestHost(t, nil), startTestHost(t, func(c *Config) { c.Founder = true })
	if got := next(t, "the founder to be reachable", b.reachable); len(got) != 2 {
		t.Errorf("founder is reachable at %q", got)
	}
	a.Send(b.Peer(), env.Control, []byte("hello"))
	got := next(t, "to be reachable", a.reachable)
	slices.Sort(got)
	if want := addresses(a); !slices.Equal(got, want) {
		t.Errorf("reachable at %q, want %q", got, want)
	}
	if s := a.Stats(); s.Reachable != 2 || b.Stats().DialBacks != 1 {
		t.Errorf("stats %+v, %+v", s, b.Stats())
	}
	wait(t, "the dialler to be gone", func() bool { return a.Stats().Connections == 1 })
}

func TestANodeThatRefusesConnectionsIsNotReachable(t *testing.T) {
	t.Parallel()
	a, b := startTestHost(t, func(c *Config) { c.RefuseInbound = true }), startTestHost(t, nil)
	a.Send(b.Peer(), env.Control, []byte("hello"))
	next(t, "a frame", b.frames)
	b.Send(env.Peer{ID: a.ID()}, env.Control, []byte("hello, client"))
	next(t, "a frame over the client's connection", a.frames)
	wait(t, "a dial-back to fail", func() bool { return a.Stats().DialBackFails == 1 })
	if s := a.Stats(); s.Reachable != 0 || len(a.reachable) != 0 {
		t.Errorf("reachable: %+v", s)
	}
}

func TestThreeFailuresEndReachability(t *testing.T) {
	h := newTestHost(t, func(c *Config) { c.RefuseInbound = true })
	reports := make(chan []string, 10)
	tell, err := h.host.EventBus().Emitter(new(event.EvtLocalReachabilityChanged))
	if err != nil {
		t.Fatal(err)
	}
	defer tell.Close()
	p := &prover{host: h.Host, report: func(a []string) { reports <- a }, emitter: tell, backoff: firstAskDelay,
		askedAt: map[peer.ID]time.Time{}, answeredAt: map[peer.ID]time.Time{}}
	h.reachability.provenAt[h.endpoints()[0]] = time.Now()
	p.publish()
	if got := next(t, "the first report", reports); len(got) != 1 {
		t.Errorf("reachable at %q", got)
	}
	h.start() // so that it answers its neighbours
	for i := range maxAskFailures {
		other := startTestHost(t, nil)
		other.Send(h.Peer(), env.Control, []byte("refused"))
		h.Send(other.Peer(), env.Control, []byte("hello"))
		next(t, "a frame", other.frames)
		wait(t, "a failure", func() bool { p.step(t.Context()); return p.failures == i+1 })
		if i < maxAskFailures-1 && len(reports) > 0 {
			t.Fatalf("lost after %d failures", i+1)
		}
	}
	if got := next(t, "the loss", reports); len(got) != 0 {
		t.Errorf("still reachable at %q", got)
	}
}

// requestDialBack sends a dial-back request from a bare host.
func requestDialBack(t *testing.T, from host.Host, to *testHost, addrs ...string) *libp2ppb.DialBackReply {
	t.Helper()
	s, err := from.NewStream(t.Context(), to.host.ID(), dialBackProtocol)
	if err != nil {
		t.Fatal(err)
	}
	_ = s.SetDeadline(time.Now().Add(patience))
	m := &libp2ppb.DialBack{Nonce: make([]byte, nonceSize)}
	for _, a := range addrs {
		m.Addrs = append(m.Addrs, bytesOf(t, a))
	}
	var reply libp2ppb.DialBackReply
	if err := errors.Join(writeMessage(s, m), readMessage(s, &reply)); err != nil {
		t.Fatal(err)
	}
	return &reply
}

func TestDialBackIsForNeighboursAndRateLimited(t *testing.T) {
	t.Parallel()
	h := startTestHost(t, nil)
	s := connectBareHost(t, h)
	if r := requestDialBack(t, s, h, "/ip4/127.0.0.1/tcp/1"); r.Tried != 0 || r.Reason != "say Hello first" {
		t.Errorf("a stranger: %v", r)
	}
	openWelcomed(t, s, h, env.Control)
	for range dialBackBurst {
		if r := requestDialBack(t, s, h, "/ip4/127.0.0.1/tcp/1"); r.Tried != 1 {
			t.Errorf("a neighbour: %v", r)
		}
	}
	if r := requestDialBack(t, s, h, "/ip4/127.0.0.1/tcp/1"); r.Tried != 0 || r.Reason != "asked too often; try again" {
		t.Errorf("a neighbour again: %v", r)
	}
}

func TestAnUnrequestedNonceProvesNothing(t *testing.T) {
	t.Parallel()
	h := startTestHost(t, nil)
	q := &dialBackRequest{peer: "asked", addrs: h.endpoints()}
	nonce := h.reachability.begin(q)
	good := h.endpoints()[0]
	good.ip = netip.MustParseAddr("127.0.0.1")
	for _, c := range []struct {
		name    string
		nonce   []byte
		from    peer.ID
		at      endpoint
		allowed bool
		ok      bool
	}{
		{"another nonce", make([]byte, nonceSize), "dialler", good, true, false},
		{"by the asked", nonce, "asked", good, true, false},
		{"another port", nonce, "dialler", endpoint{good.ip, good.port + 1, good.quic}, true, false},
		{"another transport", nonce, "dialler", endpoint{good.ip, good.port, !good.quic}, true, false},
		{"an address not allowed", nonce, "dialler", good, false, false},
		{"as it should be", nonce, "dialler", good, true, true},
		{"twice", nonce, "dialler", good, true, false},
	} {
		if got := h.reachability.confirm(c.nonce, c.from, c.at, c.allowed); got != c.ok {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	if n := h.reachability.end(nonce); n != 1 {
		t.Errorf("%d addresses proven", n)
	}
}

func bytesOf(t testing.TB, s string) []byte {
	t.Helper()
	a, err := ma.NewMultiaddr(s)
	if err != nil {
		t.Fatal(err)
	}
	return a.Bytes()
}

func FuzzDialable(f *testing.F) {
	for _, s := range []string{
		"/ip4/127.0.0.1/tcp/80", "/ip4/0.0.0.0/tcp/4801", "/ip4/198.51.100.7/udp/4801/quic-v1",
		"/ip6/::1/tcp/22", "/dns4/localhost/tcp/80", "/ip4/8.8.8.8/tcp/0", "/ip4/10.0.0.1/tcp/1/p2p-circuit",
		"/ip6zone/x/ip6/fe80::1/tcp/1", "/ip4/8.8.8.8/tcp/1/ws",
	} {
		f.Add(bytesOf(f, s), false)
	}
	seen := netip.MustParseAddr("8.8.8.8")
	f.Fuzz(func(t *testing.T, addr []byte, private bool) {
		h := &Host{gater: newGater(Config{PrivateAddresses: private}, newReputations(), nil)}
		for _, a := range h.dialable([][]byte{addr, addr}, seen) {
			e, ok := endpointOf(a)
			switch {
			case !ok || e.port == 0:
				t.Errorf("would dial %v", a)
			case e.ip == seen:
			case !private || isPublic(e.ip) || e.ip.IsLoopback() || e.ip.IsUnspecified() || e.ip.IsMulticast():
				t.Errorf("would dial %v for a peer at %v", a, seen)
			}
		}
	})
}
