package sim

import (
	"bytes"
	"errors"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"tidings/internal/env"
	"tidings/internal/node"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/relay/relaypb"
)

// No frame of a world shows both who reads a feed quietly and which feed it is: not those that the reader sends
// and gets, nor those that the exit of its circuit has opened, nor any other.
func TestNoMemberSeesReaderAndFeed(t *testing.T) {
	t.Parallel()
	for i, ids := range []string{wire.KeyIDs, wire.KeyIDs, wire.AddressIDs, wire.CertificateIDs} {
		open := i == 0 // a member, and a client
		s := idSwarm(7, ids)
		s.Grow(24, 100*time.Millisecond)
		s.World.Run(20 * time.Second)
		reader := s.Add(open, s.Peers()[0])
		reader.Start()
		s.World.Run(time.Minute)
		url := s.serveFeeds(1, 3*time.Minute, 10)[0]
		near := nearestPeers(s, url)
		near = slices.DeleteFunc(near, func(p *Peer) bool { return p == reader })
		near[12].SubscribeFeed(url)

		key, shadow := s.Key(url), s.Key(url)
		shadow[0] ^= 0x80
		feedMarks := [][]byte{[]byte(url), key[:], shadow[:]}
		readerID := reader.OverlayID()
		readerMarks := [][]byte{[]byte(reader.ID()), reader.Key()[32:], readerID[:], []byte(reader.addr)}
		shows := func(frame []byte, marks [][]byte) bool {
			return slices.ContainsFunc(marks, func(m []byte) bool { return bytes.Contains(frame, m) })
		}
		owns := slices.Contains(nearestPeers(s, url)[:5], reader) // then it has to do with the feed, whoever reads it
		if owns {
			t.Fatal("the reader owns the feed: choose another seed")
		}
		middles, exits, sizes, forwarded := map[env.PeerID]bool{}, map[env.PeerID]bool{}, map[int]bool{}, 0
		for _, p := range s.Peers() {
			p.filterOutgoing = func(to env.Peer, frame []byte) []byte {
				mine := p == reader || to.ID == reader.ID()
				if mine && shows(frame, feedMarks) {
					t.Errorf("a frame from %d to %d shows the feed", p.Index(), s.World.byID[to.ID].Index())
				}
				if shows(frame, feedMarks) && shows(frame, readerMarks) {
					t.Errorf("a frame from %d shows reader and feed", p.Index())
				}
				layer, body, err := wire.ParseFrame(frame)
				if err != nil || layer != wire.Relay {
					return frame
				}
				m := new(relaypb.Message)
				if err := proto.Unmarshal(body, m); err != nil {
					t.Error(err)
				}
				switch b := m.Body.(type) {
				case *relaypb.Message_Data:
					sizes[len(b.Data.Sealed)] = true
					if p == reader {
						middles[to.ID] = true
					}
				case *relaypb.Message_Forward:
					forwarded++
					exits[p.ID()] = true
					if to.ID == reader.ID() || middles[to.ID] {
						t.Error("the exit talks to the middle, or to the reader, about the feed")
					}
					if shows(frame, readerMarks) {
						t.Error("what the exit has opened shows the reader")
					}
				}
				return frame
			}
		}
		reader.SubscribeQuietly(url)
		s.World.Run(40 * time.Minute)
		if len(middles) == 0 || len(exits) == 0 || forwarded < 100 || len(sizes) > 5 {
			t.Errorf("%d middles, %d exits, %d frames forwarded, %d sizes", len(middles), len(exits), forwarded, len(sizes))
		}
		for id := range exits {
			if middles[id] {
				t.Error("one member is middle and exit")
			}
		}
		if n := len(reader.subscriptions[url].firstShown); n < 10 {
			t.Errorf("the reader was shown %d items", n)
		}
		t.Logf("open %v, ids %s: %d frames forwarded, sizes %v, %+v", open, ids, forwarded, sizes, reader.node.Relay.Stats())
		if _, knows := reader.node.Owners.View(key); knows {
			t.Error("the reader's own node keeps the log")
		}
		s.CheckReaders()
		report(t, s)
	}
}

// A quiet reader whose middle or exit dies, or forgets the circuit in a restart, finds others within a minute, and gets
// what it missed. So does one whose own node restarts.
func TestQuietReadersOutliveTheirCircuits(t *testing.T) {
	t.Parallel()
	s := feedSwarm(11, Config{NetworkFaults: NetworkFaults{Loss: 0.01}})
	s.Grow(24, 100*time.Millisecond)
	s.World.Run(20 * time.Second)
	reader := s.Add(false, s.Peers()[0])
	reader.Start()
	s.World.Run(time.Minute)
	url := s.serveFeeds(1, 3*time.Minute, 20)[0]
	near := nearestPeers(s, url)
	near[20].SubscribeFeed(url)
	reader.SubscribeQuietly(url)
	s.World.Run(5 * time.Minute)
	for round := range 5 {
		middle, exit, ok := reader.node.Circuit(s.Key(url))
		if !ok {
			t.Fatalf("round %d: there is no circuit", round)
		}
		dead := []*Peer{s.byID[middle.ID], s.byID[exit.ID], s.byID[exit.ID], s.byID[middle.ID], reader}[round]
		dead.Kill(round == 2)
		if round >= 3 {
			s.World.Run(3 * time.Second)
			dead.Start()
		}
		connected := s.World.RunUntil(func() bool {
			m, e, ok := reader.node.Circuit(s.Key(url))
			connected, _ := reader.node.Quiet(s.Key(url))
			return ok && connected && (round == 4 || m != middle || e != exit)
		}, time.Second, time.Minute)
		if !connected {
			t.Errorf("round %d: no other circuit after a minute", round)
		}
		s.World.Run(10 * time.Minute)
		if !dead.Up() {
			dead.Start()
		}
	}
	s.World.Run(20 * time.Minute)
	s.CheckReaders()
	report(t, s)
	if n := len(reader.subscriptions[url].firstShown); n < 20 {
		t.Errorf("the reader was shown %d items", n)
	}
	t.Logf("%+v", reader.node.Relay.Stats())
}

// A node has room for so many quiet subscriptions. Those that have ended leave no records, no circuits and nothing
// in trees. A subscription cannot become quiet, or the other way round.
func TestQuietSubscriptionsHaveBounds(t *testing.T) {
	t.Parallel()
	s := feedSwarm(5, Config{})
	s.Grow(12, 100*time.Millisecond)
	s.World.Run(20 * time.Second)
	p := s.Peers()[3]
	errs := map[string]error{}
	subscribe := func(url string, quietly bool) error {
		p.Do(func() { p.node.Subscribe(url, quietly, 1, nil, func(err error) { errs[url] = err }) })
		s.World.Run(time.Second)
		return errs[url]
	}
	urls := s.serveFeeds(node.MaxQuiet+2, 3*time.Minute, 10)
	for _, url := range urls[:node.MaxQuiet] {
		if err := subscribe(url, true); err != nil {
			t.Fatal(err)
		}
	}
	if err := subscribe(urls[node.MaxQuiet], true); !errors.Is(err, node.ErrQuietFull) {
		t.Errorf("one more: %v", err)
	}
	if err := subscribe(urls[0], false); err != nil || p.node.Feeds.CountSubscriptions() > 0 {
		t.Errorf("a quiet one is no longer quiet: %v", err)
	}
	if err := subscribe(urls[node.MaxQuiet+1], false); err != nil {
		t.Error(err)
	}
	s.World.Run(5 * time.Minute)
	for _, url := range urls[:node.MaxQuiet] {
		if connected, _ := p.node.Quiet(s.Key(url)); !connected {
			t.Errorf("%s has no circuit", url)
		}
	}
	if n, all := p.node.CountSubscriptions(), len(p.node.SubscriptionKeys()); n != node.MaxQuiet+1 || all != n {
		t.Errorf("%d subscriptions, counted as %d", all, n)
	}
	if err := subscribe(urls[node.MaxQuiet+1], true); !errors.Is(err, node.ErrNotQuiet) {
		t.Errorf("an ordinary one: %v", err)
	}
	for _, url := range urls[:node.MaxQuiet] {
		p.Do(func() { p.node.Unsubscribe(url, func(err error) { errs[url] = err }) })
		if s.World.Run(100 * time.Millisecond); errs[url] != nil {
			t.Error(errs[url])
		}
	}
	s.World.Run(10 * time.Minute)
	p.disk.scan("quiet/", func(key, _ []byte) bool {
		t.Errorf("the record %q is left", key)
		return false
	})
	circuits, guests := 0, 0
	for _, m := range s.Peers() {
		st := m.node.Relay.Stats()
		circuits, guests = circuits+st.Circuits+st.Tunnels, guests+st.Guests
	}
	if circuits+guests > 0 || len(p.node.SubscriptionKeys()) != 1 || p.node.CountSubscriptions() != 1 {
		t.Errorf("%d circuits, %d guests, %d subscriptions, counted as %d", circuits, guests, len(p.node.SubscriptionKeys()), p.node.CountSubscriptions())
	}
}

// Middles that put a key of their own in the exit's place, and members that swallow the frames of circuits, are left for
// others.
func TestLiarsOnCircuitsAreLeft(t *testing.T) {
	t.Parallel()
	for name, lie := range map[string]func(p *Peer, m *relaypb.Message) *relaypb.Message{
		"false key": func(p *Peer, m *relaypb.Message) *relaypb.Message {
			if o := m.GetOpened(); o != nil {
				o.Key = wire.NewSigner(p.Key(), p.swarm.hash).Sign(wire.DomainRelay, make([]byte, 32)).Raw
			}
			return m
		},
		"swallowing": func(_ *Peer, m *relaypb.Message) *relaypb.Message {
			if m.GetForward() != nil || m.GetData() != nil {
				return nil
			}
			return m
		},
	} {
		s := feedSwarm(13, Config{})
		s.Grow(16, 100*time.Millisecond)
		s.World.Run(20 * time.Second)
		url := s.serveFeeds(1, 3*time.Minute, 10)[0]
		liars := map[overlay.ID]bool{}
		for i, p := range s.Peers()[2:] {
			if i%2 == 0 {
				continue
			}
			liars[p.OverlayID()] = true
			p.filterOutgoing = func(_ env.Peer, frame []byte) []byte {
				layer, body, err := wire.ParseFrame(frame)
				m := new(relaypb.Message)
				if err != nil || layer != wire.Relay || proto.Unmarshal(body, m) != nil {
					return frame
				}
				if m = lie(p, m); m == nil {
					return nil
				}
				return wire.AppendFrame(nil, wire.Relay, m)
			}
		}
		for _, p := range s.Peers() {
			if !liars[p.OverlayID()] {
				p.SubscribeQuietly(url)
			}
		}
		s.World.Run(time.Hour)
		failed := uint64(0)
		for _, p := range s.Peers() {
			if liars[p.OverlayID()] {
				continue
			}
			middle, exit, ok := p.node.Circuit(s.Key(url))
			if !ok || name == "false key" && (liars[middle.ID] || liars[exit.ID]) {
				t.Errorf("%s: reader %d has a circuit: %v", name, p.Index(), ok)
			}
			failed += p.node.Relay.Stats().Failed
		}
		if failed == 0 {
			t.Errorf("%s: nobody met a liar", name)
		}
		s.CheckReaders()
		report(t, s)
	}
}

// In a network of address ids a node dials members to see whether they are where they say. A reader's node does not do so
// for what it follows quietly: it would show itself to the owners.
func TestQuietReadersDialNobody(t *testing.T) {
	t.Parallel()
	s := idSwarm(7, wire.AddressIDs)
	s.Grow(24, 100*time.Millisecond)
	s.World.Run(20 * time.Second)
	reader := s.Add(false, s.Peers()[0])
	reader.Start()
	build, dialled := reader.build, 0
	reader.Crash(false)
	reader.Boot(func(e env.Env) env.Node {
		e.Prover = countingProver{e.Prover, &dialled}
		return build(e)
	})
	reader.Found(s.Peers()[0].Host)
	s.World.Run(5 * time.Minute)
	own := dialled
	url := s.serveFeeds(1, 3*time.Minute, 10)[0]
	reader.SubscribeQuietly(url)
	s.World.Run(20 * time.Minute)
	if own == 0 || dialled != own {
		t.Errorf("%d members dialled for itself, and %d for the subscription", own, dialled-own)
	}
	if n := len(reader.subscriptions[url].firstShown); n < 5 {
		t.Errorf("the reader was shown %d items", n)
	}
	s.CheckReaders()
	report(t, s)
}

type countingProver struct {
	env.Prover
	dialled *int
}

func (p countingProver) Prove(peer env.Peer, done func(addr string)) {
	*p.dialled++
	p.Prover.Prove(peer, done)
}
