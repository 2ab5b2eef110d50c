package libp2p

import (
	"fmt"
	"math/rand"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay/libp2p/attacker"
)

// newAttacker returns an attacker of a host, over TCP.
func newAttacker(t *testing.T, to *testHost) *attacker.Attacker {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has all of 127.0.0.0/8 as its own addresses")
	}
	s, err := attacker.New(to.Addrs()[0], wire.Side{Name: "lab", Descriptor: descriptor("lab")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// loopback returns an address of the machine.
func loopback(b, c, d int) netip.Addr {
	return netip.AddrFrom4([4]byte{127, byte(b), byte(c), byte(d)})
}

// at makes a host listen at an address, over TCP only, so that others see it there.
func at(address string) func(*Config) {
	return func(c *Config) { c.Listen = []string{"/ip4/" + address + "/tcp/0"} }
}

// startUsefulHosts starts a member, and n hosts from different address blocks with links that are useful to it.
func startUsefulHosts(t *testing.T, n int) (m *testHost, friends []*testHost) {
	t.Helper()
	m = newTestHost(t, at("127.0.0.1"))
	uses := map[env.PeerID]bool{}
	for i := range n {
		f := newTestHost(t, at(fmt.Sprintf("127.9.%d.1", i)))
		uses[f.ID()] = true
		friends = append(friends, f)
	}
	m.useful = func(ids []env.PeerID, then func([]bool)) bool {
		useful := make([]bool, len(ids))
		for i, id := range ids {
			useful[i] = uses[id]
		}
		go then(useful)
		return true
	}
	m.start()
	for _, f := range friends {
		f.start()
		f.Send(m.Peer(), env.Control, []byte("from a friend"))
		next(t, "a friend's frame", m.frames)
	}
	return m, friends
}

// checkUsefulStay checks that useful links are still there, and that a newcomer gets in within seconds.
func checkUsefulStay(t *testing.T, m *testHost, friends []*testHost, newcomer string) {
	t.Helper()
	for len(m.frames) > 0 {
		<-m.frames
	}
	began := time.Now()
	b := startTestHost(t, at(newcomer))
	b.Send(m.Peer(), env.Control, []byte("from a newcomer"))
	for {
		if l := next(t, "the newcomer's frame", m.frames); l.frame == "from a newcomer" {
			break
		}
	}
	if took := time.Since(began); took > patience/2 {
		t.Errorf("a newcomer got in after %v", took)
	}
	m.Send(b.Peer(), env.Control, []byte("welcome"))
	next(t, "an answer", b.frames)
	for _, f := range friends {
		if m.host.Network().Connectedness(f.host.ID()) != network.Connected {
			t.Errorf("the link to %v, which is useful, is gone", f.host.ID())
		}
	}
}

// An attacker that holds as many connections as it can from one address block, and sends frames on each, keeps no
// newcomer out. Its block is loopback: private ranges are no exception.
func TestOneAddressBlockCannotFillAHost(t *testing.T) {
	m, friends := startUsefulHosts(t, 5)
	a := newAttacker(t, m)
	a.OpenMany(t.Context(), 800, func(i int) netip.Addr { return loopback(3, 3, 1+i%250) }, []byte("a probe"))
	wait(t, "slots for newcomers", func() bool { return m.Stats().Connections <= evictAbove })
	if held := a.OpenCount(); held < evictAbove/2 {
		t.Errorf("the attacker holds %d connections: this is no attack", held)
	}
	checkUsefulStay(t, m, friends, "127.4.4.4")
	if s := m.Stats(); s.Evicted == 0 {
		t.Errorf("%+v", s)
	}
}

// An attacker with a different address block for each connection is evicted in favour of newcomers, because it does
// nothing useful, whether it is silent or not.
func TestIdleConnectionsFromManyBlocksAreEvicted(t *testing.T) {
	m, friends := startUsefulHosts(t, 5)
	a := newAttacker(t, m)
	a.OpenMany(t.Context(), 800, func(i int) netip.Addr { return loopback(20+i/200, i%200, 1) })
	wait(t, "slots for newcomers", func() bool { return m.Stats().Connections <= evictAbove })
	for i := range 10 {
		checkUsefulStay(t, m, friends, fmt.Sprintf("127.4.%d.4", i))
	}
}

// A fakeConn is a connection that a peer opened from its own address. Its Close waits for release.
type fakeConn struct {
	network.Conn
	from    int
	closed  chan<- peer.ID
	release <-chan struct{}
}

func (c *fakeConn) RemotePeer() peer.ID { return peer.ID(fmt.Sprint("peer ", c.from)) }
func (c *fakeConn) Stat() network.ConnStats {
	return network.ConnStats{Stats: network.Stats{Direction: network.DirInbound}}
}
func (c *fakeConn) LocalMultiaddr() ma.Multiaddr { return ma.StringCast("/ip4/127.0.0.1/tcp/1") }
func (c *fakeConn) RemoteMultiaddr() ma.Multiaddr {
	return ma.StringCast(fmt.Sprintf("/ip4/10.%d.%d.1/tcp/1", c.from/250, c.from%250))
}

func (c *fakeConn) Close() error {
	c.closed <- c.RemotePeer()
	<-c.release
	return nil
}

// fillSlots adds fake connections to a host, so many more than evictAbove. It returns the peers whose connections
// are closed.
func fillSlots(t *testing.T, h *testHost, more int) (closed <-chan peer.ID) {
	t.Helper()
	out, release := make(chan peer.ID, maxConns), make(chan struct{})
	t.Cleanup(func() { close(release) })
	for i := range evictAbove + more {
		h.slots.add(&fakeConn{from: i, closed: out, release: release}, netip.Addr{}, time.Now().Add(-time.Hour))
	}
	return out
}

// A connection that takes long to close does not delay the closing of others.
func TestEvictionDoesNotWaitForClose(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, nil)
	closed := fillSlots(t, h, 3)
	passed := make(chan struct{})
	go func() {
		defer close(passed)
		h.evictExcess()
	}()
	for range 3 {
		next(t, "a connection to be closed", closed)
	}
	next(t, "the end of the pass", passed)
}

// If a node is too busy to say which peers are useful, its previous answer counts.
func TestThePreviousAnswerCountsIfTheNodeIsBusy(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, nil)
	busy := false
	h.useful = func(ids []env.PeerID, then func([]bool)) bool {
		useful := make([]bool, len(ids))
		for i, id := range ids {
			useful[i] = id != "peer 5"
		}
		if !busy {
			then(useful)
		}
		return !busy
	}
	h.events.Store(&Events{Useful: h.useful})
	closed := fillSlots(t, h, 0)
	h.reviewInbound(1)
	wait(t, "the answer", func() bool {
		h.slots.mu.Lock()
		defer h.slots.mu.Unlock()
		return !h.slots.evicting
	})
	busy = true
	h.slots.add(&fakeConn{from: maxConns}, netip.Addr{}, time.Now())
	h.evictExcess()
	if p := next(t, "a connection to be closed", closed); p != "peer 5" {
		t.Errorf("the connection of %s is closed", p)
	}
}

// An address block can have only so many handshakes in progress, so a block that never completes them leaves room.
func TestHandshakesThatNeverEndLeaveRoomForOthers(t *testing.T) {
	m, friends := startUsefulHosts(t, 1)
	newAttacker(t, m)
	at, err := manet.ToNetAddr(m.host.Network().ListenAddresses()[0])
	if err != nil {
		t.Fatal(err)
	}
	for i := range maxHandshakes + 20 {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 3, 3, byte(1+i))}}
		c, err := d.DialContext(t.Context(), "tcp", at.String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
	}
	checkUsefulStay(t, m, friends, "127.4.4.4")
}

// Connections are evicted in this order: useless ones, first of the fullest block and then those silent for
// longest; then the youngest of a block that has more than its share; and last those that had no time yet to become
// useful.
func TestOrderOfEviction(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	block := func(n byte) netip.Prefix { return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, n, 0, 0}), 24) }
	old, young := now.Add(-time.Hour), now.Add(-time.Second)
	conns := func(n int, g inboundConn) []inboundConn {
		var conns []inboundConn
		for range n {
			conns = append(conns, g)
		}
		return conns
	}
	useful := inboundConn{block: block(1), since: old, useful: true}
	idle := inboundConn{block: block(2), since: old}
	works := inboundConn{block: block(3), since: old, lastFrame: young}
	fresh := inboundConn{block: block(4), since: young}
	for _, c := range []struct {
		name  string
		conns []inboundConn
		n     int
		want  []int
	}{
		{"none has to", []inboundConn{idle}, 0, nil},
		{"useful ones stay", conns(blockShare, useful), 9, nil},
		{"the silent one", []inboundConn{useful, fresh, works, idle}, 1, []int{3}},
		{"then active ones, then new ones", []inboundConn{useful, fresh, works, idle}, 9, []int{3, 2, 1}},
		{"the fullest block", append([]inboundConn{idle}, conns(2, works)...), 1, []int{1}},
		{"until it is as empty as others", append([]inboundConn{idle, useful}, conns(2, works)...), 2, []int{2, 0}},
		{"a flood of new ones", append([]inboundConn{idle, fresh}, conns(blockShare+1, inboundConn{block: block(5), since: young})...), 1, []int{2}},
		{"more than its share", append([]inboundConn{useful, fresh, {block: useful.block, since: young, useful: true}}, conns(blockShare-1, useful)...), 2, []int{2, 1}},
	} {
		if got := evict(c.conns, c.n, now); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	// Random cases: no connection is chosen twice, and no useful connection of a small block is chosen.
	rng := rand.New(rand.NewSource(1))
	for range 200 {
		var conns []inboundConn
		for range rng.Intn(200) {
			conns = append(conns, inboundConn{peer: peer.ID(fmt.Sprint(rng.Int())), block: block(byte(rng.Intn(3))), since: now.Add(-time.Duration(rng.Intn(60)) * time.Second), useful: rng.Intn(2) == 0})
		}
		inBlock := map[netip.Prefix]int{}
		for _, g := range conns {
			inBlock[g.block]++
		}
		got := evict(conns, rng.Intn(250), now)
		slices.Sort(got)
		if len(slices.Compact(slices.Clone(got))) != len(got) {
			t.Fatalf("%v", got)
		}
		for _, i := range got {
			if conns[i].useful && inBlock[conns[i].block] <= blockShare {
				t.Fatalf("a useful connection is evicted: %+v", conns[i])
			}
		}
	}
}

func TestBlocksOfAddresses(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]string{
		"/ip4/127.0.0.1/tcp/1":            "127.0.0.0/24",
		"/ip4/10.1.2.3/udp/1/quic-v1":     "10.1.2.0/24",
		"/ip6/2001:db8:1:2::3/tcp/1":      "2001:db8:1::/48",
		"/ip6/::ffff:192.0.2.7/tcp/1":     "192.0.2.0/24",
		"/ip6zone/eth0/ip6/fe80::1/tcp/1": "fe80::/48",
	} {
		if got := blockOf(ma.StringCast(addr)); got.String() != want {
			t.Errorf("%s is in %v, want %s", addr, got, want)
		}
	}
}

// A block can have only so many handshakes in progress, until some have ended or were given up long ago. The memory
// of handshakes is bounded.
func TestHandshakesOfABlockAreBounded(t *testing.T) {
	t.Parallel()
	var p pendingHandshakes
	now := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	from := func(block, port int) ma.Multiaddr {
		return ma.StringCast(fmt.Sprintf("/ip4/10.%d.%d.1/tcp/%d", block/250, block%250, port))
	}
	for i := range blockHandshakes {
		if !p.begin(from(1, i+1), now) {
			t.Fatalf("handshake %d is refused", i+1)
		}
	}
	if p.begin(from(1, 999), now) {
		t.Error("a block has one handshake more than it may")
	}
	if !p.begin(from(2, 1), now) {
		t.Error("another block has none")
	}
	p.done(from(1, 1))
	if !p.begin(from(1, 999), now) {
		t.Error("one that is over still counts")
	}
	if later := now.Add(pendingHandshakeTime + 1); !p.begin(from(1, 1000), later) || len(p.byAddr) != 1 {
		t.Errorf("%d that were given up still count", len(p.byAddr))
	}
	for i := range 3 * maxPendingHandshakes {
		if !p.begin(from(i, 1), now) || len(p.byAddr) > maxPendingHandshakes {
			t.Fatalf("after %d attempts %d are remembered", i, len(p.byAddr))
		}
	}
}
