package node_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"tidings/cobra/firehose"
	"tidings/corona"
	"tidings/difference"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/internal/node"
	"tidings/internal/script"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/scribe"
	"tidings/sim"
)

const members, feeds = 4, 2

// quick is a network whose feeds are polled every minute.
func quick(name string) wire.Network {
	network := wire.DefaultNetwork(name)
	network.PollInterval, network.MaintenanceInterval = time.Minute, 2*time.Minute
	return network
}

func feedURL(i int) string { return fmt.Sprintf("http://feed%d.example/", i) }

// grown returns a small quiet swarm with a few trees, in which feeds are read.
func grown() *sim.Swarm {
	s := sim.NewSwarm(sim.SwarmConfig{World: sim.Config{Seed: 77, Topology: sim.Uniform(10 * time.Millisecond)}, Network: quick("sim")})
	s.Grow(members, 100*time.Millisecond)
	s.World.Run(20 * time.Second)
	for i := range 3 {
		for _, p := range s.Peers() {
			p.JoinGroup(s.Key(fmt.Sprint(i)), 1)
		}
	}
	for i := range feeds {
		s.Serve(feedURL(i), script.NewLively(script.Config{Seed: uint64(i), Format: script.Format(i), Every: time.Minute, Limit: 8}))
		for j, p := range s.Peers() {
			if (i+j)%2 == 0 {
				p.SubscribeFeed(feedURL(i))
			}
		}
	}
	s.World.Run(10 * time.Second)
	return s
}

// endures checks that a swarm is a network, that readers have all items that came
// meanwhile, and that nobody remembers more than he needs.
func endures(t *testing.T, s *sim.Swarm) {
	t.Helper()
	s.World.Run(15 * time.Minute)
	before := s.RouteStats()
	for i, p := range s.Peers() {
		for j := range 5 {
			s.Route(p, s.Key(fmt.Sprint(i, j)))
		}
		s.Publish(p, s.Key(fmt.Sprint(i%3)), 100)
	}
	s.World.Run(6 * time.Minute)
	s.CheckQuiet()
	s.CheckReaders()
	for _, v := range s.Violations() {
		t.Error(v)
	}
	if r := s.RouteStats(); r.Acked-before.Acked != 5*members {
		t.Errorf("%d of %d messages acknowledged", r.Acked-before.Acked, 5*members)
	}
	for _, p := range s.Peers() {
		o, g := p.Layers().Overlay.Stats(), p.Layers().Scribe.Stats()
		if o.Peers > members+40 || o.Passages > 100 || g.Groups > 3+2*feeds || g.Links > members {
			t.Errorf("host %d has more on its mind than it should: %+v, %+v", p.Index(), o, g)
		}
		if w := p.Layers().Owners.Stats(); w.Replicas > feeds {
			t.Errorf("host %d has to do with more keys than there are feeds: %+v", p.Index(), w)
		}
	}
}

// config is that of a node in a world whose origins are on private addresses.
func config(network wire.Network) node.Config {
	c := node.DefaultConfig(network)
	c.Corona.ExemptPrivate = true
	return c
}

// deaf is the owner of a node who does not listen.
type deaf struct{}

func (deaf) News(overlay.ID, []difference.Change, time.Time)            {}
func (deaf) Told(overlay.ID)                                            {}
func (deaf) Dispatched(firehose.Dispatch) bool                          { return true }
func (deaf) Fetched(overlay.ID, *feed.Feed, corona.Offer, corona.State) {}
func (deaf) Deliver(scribe.Delivery)                                    {}

// A mumbler is an honest node whose frames come out wrong.
type mumbler struct {
	env.Network
	story []byte
	said  [][]byte
}

func (m *mumbler) choose(n int) int {
	if len(m.story) == 0 {
		return 0
	}
	b := m.story[0]
	m.story = m.story[1:]
	return int(b) % n
}

// Send sends frames as they are, changed, again, later, or to another.
func (m *mumbler) Send(to env.Peer, class env.Class, frame []byte) {
	if len(m.story) > 0 && len(m.said) < 1000 {
		m.said = append(m.said, frame)
	}
	switch m.choose(8) {
	case 1: // change a byte
		frame = slices.Clone(frame)
		frame[m.choose(256)*len(frame)/256] ^= byte(1 + m.choose(255))
	case 2: // cut it short
		frame = frame[:m.choose(256)*len(frame)/256]
	case 3: // what was said before
		frame = m.said[m.choose(256)*len(m.said)/256]
	case 4: // twice
		m.Network.Send(to, class, frame)
	case 5: // half of this and half of that
		other := m.said[m.choose(256)*len(m.said)/256]
		frame = slices.Concat(frame[:len(frame)/2], other[len(other)/2:])
	case 6: // not at all
		return
	}
	if len(frame) <= env.MaxFrame {
		m.Network.Send(to, class, frame)
	}
}

// traffic lets a mumbler live among the members of a small world for some
// minutes, and then die.
func traffic(t *testing.T, story []byte) {
	s := grown()
	h := s.World.Host(sim.HostConfig{Open: true})
	network := quick("sim")
	hash := wire.HashOf(network.Descriptor())
	m := &mumbler{story: story}
	h.Boot(func(e env.Env) env.Node {
		m.Network = e.Network
		e.Network = m
		n, err := node.New(e, wire.NewSigner(h.Key(), hash), wire.NewVerifier(hash), config(network), deaf{})
		if err != nil {
			panic(err)
		}
		for i := range 5 {
			n.Scribe.Join(s.Key(fmt.Sprint(i)), 2)
		}
		for i := range feeds {
			n.Feeds.Subscribe(feedURL(i), 2, nil, func(error) {})
		}
		return n
	})
	h.Found(s.Peers()[0].Host)
	h.Found(s.Peers()[1].Host)
	s.World.Run(3 * time.Minute)
	h.Crash(false)
	endures(t, s)
}

var storiesFlag = flag.Int("stories", 30, "how many garbled conversations are held")

func TestNodesEndureGarbledTraffic(t *testing.T) {
	t.Parallel()
	for i := range *storiesFlag {
		story := make([]byte, 40*(1+i%20))
		dice := rand.NewChaCha8([32]byte{byte(i), byte(i >> 8)})
		dice.Read(story)
		if traffic(t, story); t.Failed() {
			t.Fatalf("story %d", i)
		}
	}
}

// FuzzTraffic has a whole conversation garbled: frames are changed, cut, said
// again, out of order or to the wrong one. Nobody may fall, and when the one that
// mumbles is gone the others are a network as before.
func FuzzTraffic(f *testing.F) {
	f.Add([]byte{})
	f.Add(slices.Repeat([]byte{3, 100, 4}, 100))
	f.Add(slices.Repeat([]byte{5, 10, 0, 0, 1, 200, 7}, 60))
	f.Add(slices.Repeat([]byte{0, 0, 0, 0, 0, 2, 250, 6, 1, 90, 3}, 60))
	f.Fuzz(func(t *testing.T, story []byte) {
		if len(story) <= 4<<10 {
			traffic(t, story)
		}
	})
}

// FuzzFrame sends any bytes as a frame.
func FuzzFrame(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0x0a, 0})
	f.Add([]byte{0x12, 0})
	f.Add([]byte{0x1a, 0})
	f.Add([]byte{0x22, 0})
	s := grown()
	for _, p := range s.Peers()[1:] {
		f.Add(wire.AppendDelimited(nil, p.Layers().Overlay.Self().Raw))
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		n := s.Peers()[0]
		garbage := func() uint64 {
			of := n.Layers()
			return of.Overlay.Stats().Garbage + of.Scribe.Stats().Garbage + of.Owners.Stats().Garbage + of.Feeds.Stats().Garbage
		}
		before := garbage()
		var err error
		n.Do(func() { err = n.Layers().Receive(s.Peers()[1].ID(), frame) })
		counted := garbage() - before
		if _, _, broken := wire.ParseFrame(frame); broken != nil && err == nil || counted > 0 && err == nil {
			t.Errorf("%x: %v, counted %d", frame, err, counted)
		}
	})
}

// A mute is a host that says only what the test lets it say.
type mute struct{ env.Env }

func (mute) Run(time.Time) time.Time          { return time.Time{} }
func (mute) Receive(env.PeerID, []byte) error { return nil }
func (mute) Found(env.Peer)                   {}
func (mute) Reachable([]string)               {}
func (mute) PeerDown(env.PeerID)              {}

// Garbage is counted and dropped, and the link of a peer that goes on is cut.
func TestLinkOfWhoSendsGarbageIsCut(t *testing.T) {
	t.Parallel()
	for what, garbage := range map[string][]byte{
		"no frame":            []byte("garbage"),
		"no layer":            {0x2a, 0},
		"no overlay message":  {0x0a, 1, 0xff},
		"no scribe message":   {0x12, 1, 0xff},
		"no owner message":    {0x1a, 1, 0xff},
		"no feed message":     {0x22, 1, 0xff},
		"an empty message":    {0x0a, 0},
		"a frame and more":    {0x0a, 0, 0},
		"a length of nothing": {0x0a, 0xff, 0xff, 0xff, 0x0f},
	} {
		s := grown()
		h := s.World.Host(sim.HostConfig{Open: true})
		var e env.Env
		h.Boot(func(opened env.Env) env.Node {
			e = opened
			return mute{e}
		})
		victim := s.Peers()[1]
		send := func() {
			h.Do(func() { e.Network.Send(victim.Peer(), env.Control, garbage) })
			s.World.Run(time.Second)
		}
		for range 10 {
			send()
		}
		if st := victim.Host.Stats(); st.BadFrames != 10 || st.LinksCut != 0 {
			t.Errorf("%s: after 10 frames %d were refused, the link was cut %d times", what, st.BadFrames, st.LinksCut)
		}
		for range 10 {
			send()
		}
		if st := victim.Host.Stats(); st.BadFrames != 16 || st.LinksCut != 1 {
			t.Errorf("%s: after 20 frames %d were refused, the link was cut %d times", what, st.BadFrames, st.LinksCut)
		}
		endures(t, s)
	}
}

// A node of another network finds nobody who believes its record.
func TestRecordOfAnotherNetworkIsRefused(t *testing.T) {
	s := grown()
	h := s.World.Host(sim.HostConfig{Open: true})
	network := quick("other")
	hash := wire.HashOf(network.Descriptor())
	var n *node.Node
	h.Boot(func(e env.Env) env.Node {
		var err error
		if n, err = node.New(e, wire.NewSigner(h.Key(), hash), wire.NewVerifier(hash), config(network), deaf{}); err != nil {
			panic(err)
		}
		return n
	})
	h.Found(s.Peers()[0].Host)
	s.World.Run(5 * time.Minute)
	if n.Overlay.State() == overlay.Active || s.Peers()[0].Layers().Overlay.Leaf().Len() != members {
		t.Errorf("a node of another network is %v", n.Overlay.State())
	}
	if st := s.Peers()[0].Host.Stats(); st.BadFrames == 0 {
		t.Error("nobody noticed")
	}
	endures(t, s)
}

// Where polls are seconds apart, a reader hears within a few of them how many poll its feed; a
// network's usual half hour leaves the digests their minute.
func TestDigestsFollowPolls(t *testing.T) {
	for poll, want := range map[time.Duration]time.Duration{
		30 * time.Minute: time.Minute, 10 * time.Minute: time.Minute, 20 * time.Second: 2 * time.Second, time.Second: time.Second,
	} {
		network := wire.DefaultNetwork("sim")
		network.PollInterval = poll
		if got := node.DefaultConfig(network).Feeds.DigestInterval; got != want {
			t.Errorf("polls each %v: digests each %v, want %v", poll, got, want)
		}
	}
}
