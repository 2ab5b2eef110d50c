package daemon

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/libp2p"
	"tidings/overlay/scribe"
	"tidings/proxy"
)

// awaitTimeout bounds how long a test waits for something that should happen soon, on a busy machine.
const awaitTimeout = 90 * time.Second

// A member is a daemon that runs in the test's own process.
type member struct {
	*Daemon
	log *logBuffer
	got chan scribe.Delivery
	end context.CancelFunc
	ran chan error // the result of Run
}

// opened opens a daemon on loopback that logs for the test.
func opened(t *testing.T, c Config) *member {
	t.Helper()
	logged := &logBuffer{}
	m := &member{log: logged, got: make(chan scribe.Delivery, 1000), ran: make(chan error, 1), end: func() {}}
	if c.Listen == nil {
		c.Listen = anyPort
	}
	if c.HTTP == "" {
		c.HTTP = noHTTP
	}
	c.Deliver = func(d scribe.Delivery) { m.got <- d }
	c.Log = slog.New(slog.NewTextHandler(logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
	d, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	m.Daemon = d
	t.Cleanup(func() {
		m.end()
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("log of %s:\n%s", c.Dir, logged)
		}
	})
	return m
}

// running opens a daemon and runs it until the test ends, or stop.
func running(t *testing.T, c Config) *member {
	t.Helper()
	m := opened(t, c)
	m.start(t)
	return m
}

func (m *member) start(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		m.ran <- m.Run(ctx)
	}()
	m.end = func() { end(); <-ended }
}

// stop ends a daemon in good order.
func (m *member) stop(t *testing.T) {
	t.Helper()
	m.end()
	if err := <-m.ran; err != nil {
		t.Errorf("Run: %v", err)
	}
}

func (m *member) status(t *testing.T) Snapshot {
	t.Helper()
	s, err := m.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// awaitMembers waits until a member is active and its leaf has a number of members.
func (m *member) awaitMembers(t *testing.T, count int) Snapshot {
	t.Helper()
	var s Snapshot
	within(t, awaitTimeout, fmt.Sprintf("a leaf of %d", count), func() error {
		if s = m.status(t); s.State != overlay.Active || len(s.Leaf) != count {
			return fmt.Errorf("%v, knows %d", s.State, len(s.Leaf))
		}
		return nil
	})
	return s
}

// awaitMessage waits for a message.
func (m *member) awaitMessage(t *testing.T, group overlay.ID, payload string) {
	t.Helper()
	for {
		select {
		case d := <-m.got:
			if d.Group == group && string(d.Payload) == payload {
				return
			}
		case <-time.After(awaitTimeout):
			t.Fatalf("%q does not come", payload)
		}
	}
}

// A logBuffer collects the logs of several goroutines.
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

func founding(t *testing.T, name string) Config {
	n := laboratory(name)
	return Config{Dir: t.TempDir(), Found: &n}
}

func TestTwoNodesFoundJoinAndComeBack(t *testing.T) {
	t.Parallel()
	a := running(t, founding(t, "pair"))
	first := a.awaitMembers(t, 1)
	joining := Config{Dir: t.TempDir(), Bootstrap: first.Addrs}
	b := running(t, joining)
	second := b.awaitMembers(t, 2)
	a.awaitMembers(t, 2)
	if second.Network != "pair" || second.Hash != first.Hash || second.Size != 2 {
		t.Errorf("joined network %q %v of %d, not %q %v", second.Network, second.Hash, second.Size, "pair", first.Hash)
	}

	group := overlay.Key("pair", "https://example.org/feed")
	subscribed := func(m *member) {
		t.Helper()
		if err := m.JoinGroup(t.Context(), group, 3); err != nil {
			t.Fatal(err)
		}
	}
	publish := func(m *member, payload string) error { return m.PublishGroup(t.Context(), group, []byte(payload)) }
	subscribed(a)
	subscribed(b)
	within(t, awaitTimeout, "both count", func() error {
		for _, m := range []*member{a, b} {
			if p, ok, err := m.Place(t.Context(), group); err != nil || ok && p.Root && p.Weight == 6 {
				return err
			}
		}
		return errors.New("no root knows of six clients")
	})
	for _, m := range []*member{a, b} {
		payload := "from " + m.status(t).Peer
		if err := publish(m, payload); err != nil {
			t.Fatal(err)
		}
		a.awaitMessage(t, group, payload)
		b.awaitMessage(t, group, payload)
	}
	got, err := a.Route(t.Context(), second.ID, nil)
	if err != nil || got.Root != second.ID || got.Hops != 1 {
		t.Errorf("the root of a node's id is %s after %d hops, %v", got.Root.Short(), got.Hops, err)
	}

	within(t, awaitTimeout, "a is remembered", func() error {
		if b.status(t).Overlay.Known != 1 {
			return errors.New("not yet")
		}
		return nil
	})
	b.stop(t)
	if s := a.awaitMembers(t, 1); s.Overlay.Deaths != 0 {
		t.Error("b left without a word")
	}
	if err := publish(b, "too late"); !errors.Is(err, ErrStopped) {
		t.Errorf("publish on a node that has stopped: %v", err)
	}

	b = running(t, Config{Dir: joining.Dir, Listen: second.Listens})
	if back := b.awaitMembers(t, 2); back.ID != second.ID {
		t.Error("b came back as another")
	}
	a.awaitMembers(t, 2)
	subscribed(b)
	within(t, awaitTimeout, "b hears of its group again", func() error {
		if err := publish(a, "welcome back"); err != nil {
			return err
		}
		select {
		case <-b.got:
			return nil
		default:
			return errors.New("nothing yet")
		}
	})
	if err := b.LeaveGroup(t.Context(), group); err != nil {
		t.Fatal(err)
	}
	b.stop(t)
	a.stop(t)
}

func TestFounderAloneComesBack(t *testing.T) {
	t.Parallel()
	c := founding(t, "alone")
	a := running(t, c)
	before := a.awaitMembers(t, 1)
	a.stop(t)
	b := running(t, Config{Dir: c.Dir})
	if after := b.awaitMembers(t, 1); after.ID != before.ID || after.Hash != before.Hash {
		t.Error("it came back as another")
	}
	b.stop(t)
	again := running(t, c) // with the same flags that founded it
	again.awaitMembers(t, 1)
	again.stop(t)
}

func TestOtherNetworkIsRefusedOnBothSides(t *testing.T) {
	t.Parallel()
	a := running(t, founding(t, "one"))
	there := a.awaitMembers(t, 1)

	other := founding(t, "two")
	other.Bootstrap = there.Addrs
	b := running(t, other)
	for _, m := range []*member{a, b} {
		within(t, awaitTimeout, "a refusal on both sides", func() error {
			for _, r := range m.status(t).Refusals {
				if r.Reason == `the node that was asked is in network "one", and the node that asks wants "two"` && r.ByUs == (m == a) {
					return nil
				}
			}
			return fmt.Errorf("refusals: %v", m.status(t).Refusals)
		})
		s, err := m.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if refused := s.State == proxy.StateRefused; refused != (m == b) || refused && !strings.Contains(s.Warnings[0].String(), "start the node with an empty --data") {
			t.Errorf("state %q, warnings %q", s.State, s.Warnings)
		}
	}
	b.stop(t)

	c := opened(t, Config{Dir: t.TempDir(), Bootstrap: there.Addrs, Network: "three"})
	err := c.Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), `refused: the node that was asked is in network "one", and the node that asks wants "three"`) {
		t.Errorf("Run: %v", err)
	}
	if err := c.JoinGroup(t.Context(), overlay.ID{}, 1); !errors.Is(err, ErrStopped) {
		t.Errorf("subscribe on a node that never joined: %v", err)
	}
	d := opened(t, Config{Dir: t.TempDir(), Bootstrap: there.Addrs, Authority: damagedAuthority{}})
	if err := d.Run(t.Context()); !errors.Is(err, errDamagedMembers) {
		t.Errorf("Run of a node whose authority refuses the network: %v", err)
	}
	if has, err := HasNetwork(d.config.Dir); has || err != nil {
		t.Errorf("its data directory belongs to the network: %v", err)
	}
	a.stop(t)
}

// unreachableNode returns the address of a node at a port where nothing listens.
func unreachableNode() string {
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)).Public().(ed25519.PublicKey)
	return "/ip4/127.0.0.1/tcp/9/p2p/" + libp2p.PeerIDString(wire.PeerIDOf(key))
}

func TestCallsWithoutANetworkReturnErrJoining(t *testing.T) {
	t.Parallel()
	m := opened(t, Config{Dir: t.TempDir(), Bootstrap: []string{unreachableNode()}, HTTP: "127.0.0.1:0"})
	m.opened = m.opened.Add(-joinTimeout) // so that callers wait no longer
	m.start(t)
	const url = "https://news.example/feed.xml"
	for name, call := range map[string]func() error{
		"subscribe":   func() error { return m.Subscribe(t.Context(), url, false) },
		"unsubscribe": func() error { return m.Unsubscribe(t.Context(), url) },
		"resubscribe": func() error { return m.Resubscribe(t.Context(), url) },
		"read":        func() error { _, err := m.Read(t.Context(), url); return err },
		"look":        func() error { _, err := m.Inspect(t.Context(), url); return err },
		"list":        func() error { _, err := m.List(t.Context()); return err },
		"describe":    func() error { return m.Describe(t.Context(), url, proxy.Description{}) },
		"trust":       func() error { return m.Trust(t.Context(), url) },
		"watch":       func() error { _, err := m.Watch(t.Context(), "solar"); return err },
		"preview":     func() error { _, err := m.Preview(t.Context(), "solar"); return err },
	} {
		if err := call(); !errors.Is(err, proxy.ErrJoining) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for path, want := range map[string]int{"/": 503, "/channels": 503, "/api/v1/list": 503, "/api/v1/status": 200, "/api/v1/doctor": 200} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+m.HTTPAddr().String()+path, nil)
		r.RemoteAddr = m.HTTPAddr().String()
		r.Header.Set("Tidings", "1")
		r.Header.Set("Tidings-Token", m.dataDir.apiToken)
		w := httptest.NewRecorder()
		m.server.ServeHTTP(w, r)
		if w.Code != want || !strings.Contains(w.Body.String(), "has not found its network yet") {
			t.Errorf("%s: %d\n%s", path, w.Code, w.Body)
		}
	}
	m.stop(t)
}

func TestNodeWithoutANetworkStops(t *testing.T) {
	t.Parallel()
	a := running(t, Config{Dir: t.TempDir(), Bootstrap: []string{unreachableNode()}})
	within(t, awaitTimeout, "an attempt", func() error {
		if a.status(t).Transport.DialFailures == 0 {
			return errors.New("none yet")
		}
		return nil
	})
	if s := a.status(t); s.State != overlay.Alone || s.Network != "" {
		t.Errorf("it is %v in network %q", s.State, s.Network)
	}
	hurry, cancel := context.WithCancel(t.Context())
	cancel()
	if err := a.PublishGroup(hurry, overlay.ID{}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("publish without a network: %v", err)
	}
	a.stop(t)
}

func TestSenderOfGarbageIsBlamed(t *testing.T) {
	t.Parallel()
	a := running(t, founding(t, "blame"))
	there := a.awaitMembers(t, 1)
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	vandal, err := libp2p.New(libp2p.Config{Key: key, Descriptor: laboratory("blame").Descriptor(), Bootstrap: there.Addrs})
	if err != nil {
		t.Fatal(err)
	}
	defer vandal.Close()
	for range 16 {
		vandal.Send(a.host.Peer(), env.Control, []byte("no frame"))
	}
	within(t, awaitTimeout, "a vandal is shut out", func() error {
		if s := a.status(t).Transport; s.Gated != 1 || s.BadFrames != 16 || s.Connections != 0 {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
	a.stop(t)
}

func TestPayloadsOverTheLimitAreRefused(t *testing.T) {
	t.Parallel()
	a := running(t, founding(t, "big"))
	a.awaitMembers(t, 1)
	group := overlay.Key("big", "big")
	if err := a.JoinGroup(t.Context(), group, 1); err != nil {
		t.Fatal(err)
	}
	big := bytes.Repeat([]byte("x"), overlay.MaxPayload+1)
	if err := a.PublishGroup(t.Context(), group, big[:scribe.MaxPayload+1]); err == nil {
		t.Error("too large a message was published")
	}
	if _, err := a.Route(t.Context(), group, big); err == nil {
		t.Error("too large a payload was routed")
	}
	if err := a.PublishGroup(t.Context(), group, big[:scribe.MaxPayload]); err != nil {
		t.Error(err)
	}
	a.awaitMessage(t, group, string(big[:scribe.MaxPayload]))
	if _, err := a.Route(t.Context(), group, big[:overlay.MaxPayload]); err != nil {
		t.Error(err)
	}
	if s := a.status(t); !slices.Equal(s.Leaf, []overlay.ID{s.ID}) {
		t.Errorf("a leaf of %v", s.Leaf)
	}
	a.stop(t)
}
