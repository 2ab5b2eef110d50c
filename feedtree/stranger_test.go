package feedtree_test

import (
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"tidings/feedtree/feedtreepb"
	"tidings/internal/env"
	"tidings/internal/script"
	"tidings/internal/wire"
	"tidings/overlay/owner"
	"tidings/overlay/owner/ownerpb"
	"tidings/sim"
)

// A stranger is a host that speaks the protocol and keeps all frames that it gets. It is not a member and follows
// nothing.
type stranger struct {
	*sim.Host
	env.Env
	frames [][]byte
}

func (s *stranger) Run(time.Time) time.Time { return time.Time{} }
func (s *stranger) Receive(_ env.PeerID, frame []byte) error {
	s.frames = append(s.frames, frame)
	return nil
}
func (s *stranger) Answered(env.Handle, env.Answer) {}
func (s *stranger) Found(env.Peer)                  {}
func (s *stranger) Reachable([]string)              {}
func (s *stranger) PeerDown(env.PeerID)             {}

// newStranger starts a stranger.
func newStranger(s *sim.Swarm) *stranger {
	x := &stranger{Host: s.World.Host(sim.HostConfig{Open: true})}
	x.Boot(func(e env.Env) env.Node {
		x.Env = e
		return x
	})
	return x
}

// ask sends a message and returns the messages of the layer that come back within a second.
func ask[M proto.Message](t *testing.T, s *sim.Swarm, x *stranger, to *sim.Peer, layer wire.Layer, m proto.Message, answer func() M) (of []M) {
	t.Helper()
	x.frames = nil
	x.Do(func() { x.Network.Send(to.Peer(), env.Control, wire.AppendFrame(nil, layer, m)) })
	s.World.Run(time.Second)
	for _, frame := range x.frames {
		l, body, err := wire.ParseFrame(frame)
		if err != nil {
			t.Fatal(err)
		}
		if a := answer(); l == layer && proto.Unmarshal(body, a) == nil {
			of = append(of, a)
		}
	}
	return of
}

// findOwners returns the owners of the feed that a peer's lookup finds.
func findOwners(s *sim.Swarm, p *sim.Peer) (found []env.PeerID) {
	answered := false
	p.Do(func() {
		p.Layers().Owners.FindOwners(s.Key(url), func(f owner.Found) {
			for _, c := range f.Peers() {
				found = append(found, c.Peer.ID)
			}
			answered = true
		})
	})
	s.RunUntil(func() bool { return answered }, 10*time.Millisecond, 30*time.Second)
	return found
}

// A node that does not follow a feed can find its owners but not its readers: not from the feed's root, not through
// a member that acts for it and reads the feed, and not from a reader. Followers that the root knows can find each
// other.
func TestAStrangerDoesNotLearnWhoReadsAFeed(t *testing.T) {
	s := swarm(24, nil)
	s.Serve(url, script.NewLively(script.Config{Seed: 1, Limit: 3, Every: time.Minute}))
	near := s.Nearest(s.Key(url), 24)
	owners, readers, members := near[:5], near[8:14], near[14:]
	var clients []*sim.Peer // some of them are below a reader
	for range 12 {
		clients = append(clients, addClient(s))
	}
	s.World.Run(20 * time.Second)
	for _, p := range readers {
		p.SubscribeFeed(url)
	}
	s.World.Run(3 * time.Minute)

	reads := func(id env.PeerID) bool {
		return slices.ContainsFunc(readers, func(p *sim.Peer) bool { return p.ID() == id })
	}
	below := 0
	for _, p := range append(members, clients...) {
		found := findOwners(s, p)
		if len(found) == 0 {
			t.Errorf("host %d finds no owner", p.Index())
		}
		if i := slices.IndexFunc(found, reads); i >= 0 {
			t.Errorf("host %d, which does not follow the feed, finds a reader", p.Index())
		}
		for _, h := range p.Layers().Overlay.Hosts() {
			if reads(h.Peer.ID) {
				below++
			}
		}
	}
	if below == 0 {
		t.Error("no client is below a reader")
	}

	told := 0
	for _, p := range readers {
		told += len(slices.DeleteFunc(findOwners(s, p), func(id env.PeerID) bool { return !reads(id) }))
	}
	if told == 0 {
		t.Error("no reader finds another one, so siblings could not help")
	}

	x := newStranger(s)
	key := s.Key(url)
	heads := &feedtreepb.Message{Body: &feedtreepb.Message_Heads{Heads: &feedtreepb.Heads{Heads: []*feedtreepb.Head{{Key: key[:], Head: 1}}}}}
	for _, p := range append(slices.Clone(readers), owners[0]) {
		of := ask(t, s, x, p, wire.Feed, heads, func() *feedtreepb.Message { return new(feedtreepb.Message) })
		if len(of) != 1 || of[0].GetHeadsReply() == nil {
			t.Fatalf("host %d answers with %v", p.Index(), of)
		}
		if b := of[0].GetHeadsReply(); (len(b.Different) > 0) != (p == owners[0]) {
			t.Errorf("host %d tells a stranger about %d feeds", p.Index(), len(b.Different))
		}
	}
	// The answer to a stranger's question in a reader's name goes to the reader.
	r := readers[0].Layers().Overlay.Self().Raw
	q := &ownerpb.Message{Body: &ownerpb.Message_FindOwners{FindOwners: &ownerpb.FindOwners{Key: key[:], Record: r}}}
	if of := ask(t, s, x, owners[0], wire.Owner, q, func() *ownerpb.Message { return new(ownerpb.Message) }); len(of) > 0 {
		t.Errorf("a stranger gets the answer %v", of)
	}
	checkSwarm(t, s)
}
