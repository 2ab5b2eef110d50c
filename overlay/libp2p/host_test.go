package libp2p

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"go.uber.org/goleak"

	"tidings/internal/env"
	"tidings/internal/wire"
)

func TestMain(m *testing.M) {
	if err := SetLog(slog.DiscardHandler); err != nil {
		panic(err)
	}
	// Most parallel tests wait for the network and leave the processors idle. go test would run only as many at a
	// time as there are processors.
	if err := flag.Set("test.parallel", "12"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// patience is the timeout for events that should happen at once.
const patience = 20 * time.Second

// A receivedFrame is a frame as it arrived.
type receivedFrame struct {
	from  env.PeerID
	class env.Class
	frame string
}

// A testHost is a running host that records its events.
type testHost struct {
	*Host
	t         *testing.T
	frames    chan receivedFrame
	found     chan env.Peer
	reachable chan []string
	downs     chan env.PeerID
	logged    *logBuffer
	isFull    func() bool // reports whether the node's inbox is full
	useful    func(ids []env.PeerID, then func([]bool)) bool
	stop      func()
}

// A logBuffer collects log lines from many goroutines.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// descriptor returns the descriptor of a test network.
func descriptor(name string) []byte {
	n := wire.DefaultNetwork(name)
	n.PrivateAddresses = true
	return n.Descriptor()
}

var (
	onTCP  = []string{"/ip4/127.0.0.1/tcp/0"}
	onQUIC = []string{"/ip4/127.0.0.1/udp/0/quic-v1"}
	onBoth = append(onTCP, onQUIC...)
)

// newTestHost returns a host of network "lab" on loopback that is not running yet.
func newTestHost(t *testing.T, change func(*Config)) *testHost {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	h := &testHost{
		t:         t,
		frames:    make(chan receivedFrame, 10000),
		found:     make(chan env.Peer, 1000),
		reachable: make(chan []string, 100),
		downs:     make(chan env.PeerID, 1000),
		logged:    &logBuffer{},
		isFull:    func() bool { return false },
		stop:      func() {},
	}
	c := DefaultConfig(key)
	c.PortMap = false
	c.Listen = onBoth
	c.Descriptor = descriptor("lab")
	c.Log = slog.New(slog.NewTextHandler(h.logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
	if change != nil {
		change(&c)
	}
	if h.Host, err = New(c); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		h.stop()
		h.Close()
		if t.Failed() {
			t.Logf("log of %v:\n%v", h.host.ID(), h.logged)
		}
	})
	return h
}

// start runs a host until the test ends.
func (h *testHost) start() *testHost {
	ctx, cancel := context.WithCancel(h.t.Context())
	var done sync.WaitGroup
	done.Go(func() {
		err := h.Run(ctx, Events{
			Receive: func(from env.PeerID, class env.Class, frame []byte) bool {
				if h.isFull() {
					return false
				}
				h.frames <- receivedFrame{from, class, string(frame)}
				return true
			},
			Found:     func(p env.Peer) { h.found <- p },
			Reachable: func(addrs []string) { h.reachable <- addrs },
			PeerDown:  func(id env.PeerID) { h.downs <- id },
			Useful:    h.useful,
		})
		if !errors.Is(err, context.Canceled) && !errors.Is(err, ErrClosed) {
			h.t.Errorf("Run: %v", err)
		}
	})
	h.stop = func() { cancel(); done.Wait() }
	wait(h.t, "the host to run", func() bool { return h.events.Load() != nil })
	return h
}

func startTestHost(t *testing.T, change func(*Config)) *testHost {
	t.Helper()
	return newTestHost(t, change).start()
}

// next returns the next value of a channel.
func next[T any](t *testing.T, what string, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(patience):
		t.Fatalf("timed out waiting for %s", what)
	}
	return v
}

// wait polls until a condition holds.
func wait(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(patience); !holds(); {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("timed out waiting for %s", what)
		}
	}
}

func TestFramesArriveInOrder(t *testing.T) {
	for _, c := range []struct {
		name   string
		listen []string
	}{{"TCP", onTCP}, {"QUIC", onQUIC}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			on := func(cfg *Config) { cfg.Listen = c.listen }
			a, b := startTestHost(t, on), startTestHost(t, on)
			if ips := a.IPs(); !slices.Contains(ips, netip.MustParseAddr("127.0.0.1")) {
				t.Errorf("found at %v", ips)
			}
			big := strings.Repeat("x", env.MaxFrame)
			a.Send(b.Peer(), env.Control, []byte("ping"))
			if got := next(t, "a control frame", b.frames); got != (receivedFrame{a.ID(), env.Control, "ping"}) {
				t.Errorf("got %.60v", got)
			}
			b.Send(env.Peer{ID: a.ID()}, env.Bulk, []byte(big)) // over the existing connection
			if got := next(t, "a bulk frame", a.frames); got != (receivedFrame{b.ID(), env.Bulk, big}) {
				t.Errorf("got %.60v", got)
			}
			for i := range 200 {
				a.Send(b.Peer(), env.Control, []byte(fmt.Sprint(i)))
			}
			for i := range 200 {
				if got := next(t, "frames in order", b.frames); got.frame != fmt.Sprint(i) {
					t.Fatalf("frame %d is %.60v", i, got)
				}
			}
			s := a.Stats()
			if s.Control.FramesOut != 201 || s.LinksOut != 1 || s.LinksIn != 1 || s.Connections != 1 {
				t.Errorf("stats %+v", s)
			}
			wait(t, "the count of received frames", func() bool { return b.Stats().Control.FramesIn == 201 })
		})
	}
}

func TestQueuedFramesAreSentBeforeClose(t *testing.T) {
	t.Parallel()
	for _, listen := range [][]string{onTCP, onQUIC} {
		on := func(cfg *Config) { cfg.Listen = listen }
		a, b := startTestHost(t, on), startTestHost(t, on)
		a.Send(b.Peer(), env.Control, []byte("hello"))
		next(t, "the first frame", b.frames)
		for range 100 {
			a.Send(b.Peer(), env.Control, bytes.Repeat([]byte("x"), 1000))
		}
		a.stop()
		for i := range 100 {
			if got := next(t, "a frame sent before the end", b.frames); len(got.frame) != 1000 {
				t.Fatalf("frame %d is %.60v", i, got)
			}
		}
		a.Send(b.Peer(), env.Control, []byte("too late"))
		if s := a.Stats(); s.Control.Drops.NoRoom != 1 {
			t.Errorf("stats %+v", s)
		}
	}
}

func TestCloseIsAHintToNeighbours(t *testing.T) {
	t.Parallel()
	a, b := startTestHost(t, nil), startTestHost(t, nil)
	a.Send(b.Peer(), env.Control, []byte("hello"))
	next(t, "a frame", b.frames)
	b.stop()
	if got := next(t, "a hint that the peer is down", a.downs); got != b.ID() {
		t.Errorf("down: %q", got)
	}
}

func TestPeerThatCannotBeDialledIsDown(t *testing.T) {
	t.Parallel()
	a, b := startTestHost(t, nil), newTestHost(t, func(c *Config) { c.Listen = onTCP })
	gone := b.Peer()
	b.Close()
	a.Send(gone, env.Control, []byte("hello?"))
	if got := next(t, "a hint that the peer is down", a.downs); got != b.ID() {
		t.Errorf("down: %q", got)
	}
	wait(t, "the lost frame to be counted", func() bool { return a.Stats().Control.Drops.Unreachable == 1 })
}

func TestFramesForAFullNodeAreDropped(t *testing.T) {
	t.Parallel()
	a, b := startTestHost(t, nil), newTestHost(t, nil)
	b.isFull = func() bool { return true }
	b.start()
	for range 10 {
		a.Send(b.Peer(), env.Bulk, []byte("x"))
	}
	wait(t, "dropped frames to be counted", func() bool { return b.Stats().Bulk.Drops.Inbox == 10 })
	if s := b.Stats(); s.Bulk.FramesIn != 0 || len(b.frames) != 0 {
		t.Errorf("stats %+v", s)
	}
}

func TestPrivateAddressesAreNotDialledByDefault(t *testing.T) {
	t.Parallel()
	open := wire.DefaultNetwork("open")
	public := func(c *Config) { c.Descriptor = open.Descriptor() }
	a, b := startTestHost(t, public), startTestHost(t, public)
	if addrs := b.Peer().Addrs; len(addrs) != 0 {
		t.Errorf("announces private addresses %q", addrs)
	}
	where := env.Peer{ID: b.ID()}
	for _, l := range b.host.Network().ListenAddresses() {
		where.Addrs = append(where.Addrs, string(l.Bytes()))
	}
	a.Send(where, env.Control, []byte("hello?"))
	next(t, "a hint that the peer is down", a.downs)
	if n := len(b.host.Network().Peers()); n != 0 {
		t.Errorf("%d connections to a private address", n)
	}
	// The operator's own bootstrap addresses may be private.
	c := startTestHost(t, func(c *Config) {
		public(c)
		for _, l := range b.host.Network().ListenAddresses() {
			c.Bootstrap = append(c.Bootstrap, fmt.Sprintf("%v/p2p/%v", l, b.host.ID()))
		}
	})
	c.Send(next(t, "the bootstrap peer", c.found), env.Control, []byte("hello"))
	next(t, "a frame", b.frames)
}

func TestConfigErrorsSayWhatIsWrong(t *testing.T) {
	_, key, _ := ed25519.GenerateKey(nil)
	for want, change := range map[string]func(*Config){
		"libp2p: Key has 0 bytes; it must have 64": func(c *Config) { c.Key = nil },
		"no peer id": func(c *Config) { c.Bootstrap = []string{"/ip4/1.2.3.4/tcp/4801"} },
		"is not the addre": func(c *Config) {
			c.Bootstrap = []string{"/p2p/" + PeerIDString(wire.PeerIDOf(key.Public().(ed25519.PublicKey)))}
		},
		"of a node": func(c *Config) { c.Bootstrap = []string{"1.2.3.4:4801"} },
		"libp2p: Descriptor: not a network descriptor": func(c *Config) { c.Descriptor = []byte("x") },
		"/ip4/1.2.3.4/xx": func(c *Config) { c.Listen = []string{"/ip4/1.2.3.4/xx"} },
	} {
		c := DefaultConfig(key)
		c.PortMap, c.Listen = false, onTCP
		change(&c)
		if h, err := New(c); err == nil {
			t.Errorf("%s: accepted", want)
			h.Close()
		} else if !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func TestRunNeedsANetwork(t *testing.T) {
	h := newTestHost(t, func(c *Config) { c.Descriptor = nil })
	if err := h.Run(t.Context(), Events{}); !errors.Is(err, ErrNoNetwork) {
		t.Errorf("Run: %v", err)
	}
}

// A link that could not be opened waits ever longer before it tries again. It tries at once if the peer opens a
// stream itself, as a restarted peer does.
func TestBackOffEndsWhenThePeerOpensAStream(t *testing.T) {
	t.Parallel()
	a, b := startTestHost(t, nil), startTestHost(t, nil)
	resting := &link{wake: make(chan struct{}, 1)}
	key := linkKey{b.host.ID(), env.Bulk}
	a.links.mu.Lock()
	a.links.all[key] = resting
	a.links.mu.Unlock()
	woken := make(chan struct{})
	go func() {
		defer close(woken)
		resting.backOff(t.Context(), time.Hour)
	}()
	b.Send(a.Peer(), env.Control, []byte("I am back"))
	next(t, "the link to go on", woken)
}

func TestAddrsMatchListenAddrs(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, nil)
	listens, addrs := h.ListenAddrs(), h.Addrs()
	if len(listens) != 2 || len(addrs) != 2 {
		t.Fatalf("listens at %q, is at %q", listens, addrs)
	}
	for i, a := range addrs {
		if strings.Contains(listens[i], "/0") || !strings.HasSuffix(a, "/p2p/"+PeerIDString(h.ID())) || !slices.Contains(addrs, listens[i]+"/p2p/"+PeerIDString(h.ID())) {
			t.Errorf("listens at %q, is at %q", listens[i], a)
		}
	}
	// As long as the network is unknown, private addresses are not allowed.
	unknown := newTestHost(t, func(c *Config) { c.Descriptor = nil })
	if addrs := unknown.Addrs(); len(addrs) > 0 {
		t.Errorf("gives out %q", addrs)
	}
}

// A connection is not trimmed while an outgoing link uses it.
func TestALinkKeepsItsConnection(t *testing.T) {
	t.Parallel()
	a, b := startTestHost(t, nil), startTestHost(t, nil)
	id := peer.ID(b.ID())
	if a.conns.IsProtected(id, "") {
		t.Error("protected before there is a link")
	}
	a.Send(b.Peer(), env.Control, []byte("hello"))
	wait(t, "the link", func() bool { return a.conns.IsProtected(id, "") })
	b.Close()
	wait(t, "the end of the link", func() bool { return !a.conns.IsProtected(id, "") })
}
