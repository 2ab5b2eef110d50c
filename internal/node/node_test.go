package node_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"tidings/cobra"
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

// quick returns a network whose feeds are polled every minute.
func quick(name string) wire.Network {
	network := wire.DefaultNetwork(name)
	network.PollInterval, network.MaintenanceInterval = time.Minute, 2*time.Minute
	return network
}

func feedURL(i int) string { return fmt.Sprintf("http://feed%d.example/", i) }

// smallNetwork returns a small quiet swarm with a few trees, in which feeds are read.
func smallNetwork() *sim.Swarm {
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

// checkNetwork checks that a swarm is a working network, that readers have all new items, and that no node
// keeps more state than it needs.
func checkNetwork(t *testing.T, s *sim.Swarm) {
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

// config returns the configuration of a node in a world whose origins are on private addresses.
func config(network wire.Network) node.Config {
	c := node.DefaultConfig(network)
	c.Corona.ExemptPrivate = true
	return c
}

// nullApplication ignores all events.
type nullApplication struct{}

func (nullApplication) News(overlay.ID, []difference.Change, time.Time)            {}
func (nullApplication) Witnessed(overlay.ID, []feed.ID)                            {}
func (nullApplication) StateChanged(overlay.ID)                                    {}
func (nullApplication) Saw(overlay.ID, *feed.Feed)                                 {}
func (nullApplication) Dispatched(firehose.Dispatch) bool                          { return true }
func (nullApplication) Reflect(*cobra.Article, func(bool))                         {}
func (nullApplication) Fetched(overlay.ID, *feed.Feed, corona.Offer, corona.State) {}
func (nullApplication) Deliver(scribe.Delivery)                                    {}

// A garbler is the network interface of an honest node that changes outgoing frames. choices selects the
// changes.
type garbler struct {
	env.Network
	choices []byte
	sent    [][]byte
}

func (m *garbler) choose(n int) int {
	if len(m.choices) == 0 {
		return 0
	}
	next := m.choices[0]
	m.choices = m.choices[1:]
	return int(next) % n
}

// Send sends a frame unchanged, changed, twice, or not at all, or an earlier frame in its place.
func (m *garbler) Send(to env.Peer, class env.Class, frame []byte) {
	if len(m.choices) > 0 && len(m.sent) < 1000 {
		m.sent = append(m.sent, frame)
	}
	switch m.choose(8) {
	case 1: // change a byte
		frame = slices.Clone(frame)
		frame[m.choose(256)*len(frame)/256] ^= byte(1 + m.choose(255))
	case 2: // truncate it
		frame = frame[:m.choose(256)*len(frame)/256]
	case 3: // send an earlier frame
		frame = m.sent[m.choose(256)*len(m.sent)/256]
	case 4: // send it twice
		m.Network.Send(to, class, frame)
	case 5: // join two halves
		other := m.sent[m.choose(256)*len(m.sent)/256]
		frame = slices.Concat(frame[:len(frame)/2], other[len(other)/2:])
	case 6: // drop it
		return
	}
	if len(frame) <= env.MaxFrame {
		m.Network.Send(to, class, frame)
	}
}

// garbleTraffic lets a node with garbled frames live among the members of a small network for some minutes,
// and then die.
func garbleTraffic(t *testing.T, story []byte) {
	s := smallNetwork()
	h := s.World.Host(sim.HostConfig{Open: true})
	network := quick("sim")
	hash := wire.HashOf(network.Descriptor())
	m := &garbler{choices: story}
	h.Boot(func(e env.Env) env.Node {
		m.Network = e.Network
		e.Network = m
		n, err := node.New(e, wire.NewSigner(h.Key(), hash), wire.NewVerifier(hash), config(network), nullApplication{})
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
	checkNetwork(t, s)
}

var conversationsFlag = flag.Int("stories", 30, "how many garbled conversations are held")

func TestNodesEndureGarbledTraffic(t *testing.T) {
	t.Parallel()
	for i := range *conversationsFlag {
		story := make([]byte, 40*(1+i%20))
		dice := rand.NewChaCha8([32]byte{byte(i), byte(i >> 8)})
		dice.Read(story)
		if garbleTraffic(t, story); t.Failed() {
			t.Fatalf("story %d", i)
		}
	}
}

// FuzzTraffic garbles a whole conversation: frames are changed, truncated, repeated, reordered or dropped. No
// node may fail, and once the garbling node is gone the others must be a working network.
func FuzzTraffic(f *testing.F) {
	f.Add([]byte{})
	f.Add(slices.Repeat([]byte{3, 100, 4}, 100))
	f.Add(slices.Repeat([]byte{5, 10, 0, 0, 1, 200, 7}, 60))
	f.Add(slices.Repeat([]byte{0, 0, 0, 0, 0, 2, 250, 6, 1, 90, 3}, 60))
	f.Fuzz(func(t *testing.T, story []byte) {
		if len(story) <= 4<<10 {
			garbleTraffic(t, story)
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
	s := smallNetwork()
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

// A silentNode sends only what the test tells it to send.
type silentNode struct{ env.Env }

func (silentNode) Run(time.Time) time.Time          { return time.Time{} }
func (silentNode) Receive(env.PeerID, []byte) error { return nil }
func (silentNode) Found(env.Peer)                   {}
func (silentNode) Reachable([]string)               {}
func (silentNode) PeerDown(env.PeerID)              {}

// Garbage is counted and dropped. The link of a peer that goes on sending it is cut.
func TestLinkOfAGarbageSenderIsCut(t *testing.T) {
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
		s := smallNetwork()
		h := s.World.Host(sim.HostConfig{Open: true})
		var e env.Env
		h.Boot(func(opened env.Env) env.Node {
			e = opened
			return silentNode{e}
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
		checkNetwork(t, s)
	}
}

// No node accepts the record of a node of another network.
func TestRecordOfAnotherNetworkIsRefused(t *testing.T) {
	s := smallNetwork()
	h := s.World.Host(sim.HostConfig{Open: true})
	network := quick("other")
	hash := wire.HashOf(network.Descriptor())
	var n *node.Node
	h.Boot(func(e env.Env) env.Node {
		var err error
		if n, err = node.New(e, wire.NewSigner(h.Key(), hash), wire.NewVerifier(hash), config(network), nullApplication{}); err != nil {
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
	checkNetwork(t, s)
}

// If polls are seconds apart, readers learn within a few polls how many nodes poll a feed. With the usual
// half hour, digests stay a minute apart.
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
