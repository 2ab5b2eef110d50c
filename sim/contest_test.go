package sim

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"tidings/feedtree"
	"tidings/feedtree/feedtreepb"
	"tidings/internal/env"
	"tidings/internal/node"
	"tidings/internal/wire"
)

// forgeItem makes a peer see an item that the origin does not have.
func (p *Peer) forgeItem() {
	p.FilterAnswer = func(_ env.Request, a env.Answer) env.Answer {
		a.Body = bytes.Replace(a.Body, []byte("<item>"), []byte("<item><title>Forged</title><guid>forged</guid></item><item>"), 1)
		return a
	}
}

// A deafNode drops the messages by which owners ask and say what they have seen.
type deafNode struct{ *node.Node }

func (d deafNode) Receive(from env.PeerID, frame []byte) error {
	if aboutSightings(frame) {
		return nil
	}
	return d.Node.Receive(from, frame)
}

func aboutSightings(frame []byte) bool {
	layer, body, err := wire.ParseFrame(frame)
	m := new(feedtreepb.Message)
	return err == nil && layer == wire.Feed && proto.Unmarshal(body, m) == nil && (m.GetSightRequest() != nil || m.GetSight() != nil || m.GetContest() != nil)
}

// suppressContests restarts a peer as one that neither asks other owners what they have seen, nor hears it, nor signs
// anything itself. If it leads a feed, it appends no contest to its log.
func (p *Peer) suppressContests() {
	build := p.build
	p.Crash(false)
	p.Boot(func(e env.Env) env.Node {
		build(e)
		return deafNode{p.node}
	})
	p.filterOutgoing = func(_ env.Peer, frame []byte) []byte {
		if aboutSightings(frame) {
			return nil
		}
		return frame
	}
}

// forgedAt returns what vouches for the forged item at a peer.
func (p *Peer) forgedAt(url string) (of string) {
	for raw, by := range p.provenances(url) {
		if strings.Contains(raw, "Forged") {
			of = by
		}
	}
	return of
}

// leaderOf returns the sequencer of a feed, as a peer knows it.
func (p *Peer) leaderOf(url string) env.PeerID {
	v, _ := p.node.Owners.View(p.swarm.Key(url))
	return v.Epoch.Sequencer
}

// An item that only one node has found is contested by the owners that looked in vain, whichever node that is. The
// sequencer that has believed it stays, and believes its poller no more.
func TestAForgedItemIsContested(t *testing.T) {
	t.Parallel()
	for _, liar := range []int{1, 2, 6} { // owners, and a poller that is none
		s := feedSwarm(1, Config{})
		s.Grow(16, 100*time.Millisecond)
		s.World.Run(20 * time.Second)
		url := s.serveFeeds(1, 10*time.Minute, 12)[0]
		near := nearestPeers(s, url)
		for _, p := range near {
			p.SubscribeFeed(url)
		}
		s.World.Run(20 * time.Minute)
		leader := near[15].leaderOf(url)
		if near[0].ID() != leader {
			t.Fatal("the nearest node does not lead the feed")
		}
		near[liar].forgeItem()
		s.World.Run(time.Hour)
		if got := near[15].forgedAt(url); got != feedtree.Contested {
			t.Errorf("liar %d: the forged item is %q", liar, got)
		}
		if got := near[15].leaderOf(url); got != leader {
			t.Errorf("liar %d: an honest sequencer has lost the feed", liar)
		}
		if st := near[0].node.Corona.Stats(); st.Distrusted != 1 || st.Verified == 0 {
			t.Errorf("liar %d: %d pollers are distrusted, %d reports verified", liar, st.Distrusted, st.Verified)
		}
	}
}

// A sequencer that forges an item and leaves the contest out of the log loses the feed, and the next one appends the
// contest. The other owners are not barred.
func TestALyingSequencerLosesTheFeed(t *testing.T) {
	t.Parallel()
	for _, readers := range []int{1, 16} { // few and many pollers
		s, url, near := lyingSequencer(t, readers)
		liar := near[0]
		s.World.Run(90 * time.Minute)
		if got := near[15].forgedAt(url); got != feedtree.Contested {
			t.Errorf("%d readers: the forged item is %q", readers, got)
		}
		if near[15].leaderOf(url) == liar.ID() {
			t.Errorf("%d readers: the liar still leads the feed", readers)
		}
		for _, p := range near[1:] {
			if n := p.node.Owners.Stats().Barred; n > 1 {
				t.Errorf("%d readers: %d bars", readers, n)
			}
		}
		items := near[15].provenances(url)
		witnessed := 0
		for _, of := range items {
			if strings.HasPrefix(of, "witnessed ") {
				witnessed++
			}
		}
		if witnessed < 5 {
			t.Errorf("%d readers: of %d items, %d are witnessed", readers, len(items), witnessed)
		}
	}
}

// Origins that show each node another version, and items that are withdrawn at once, cost nobody anything.
func TestHonestNodesAreNotBlamed(t *testing.T) {
	t.Parallel()
	for what, prepare := range map[string]func(s *Swarm, near []*Peer, url string){
		"each node sees another version": func(_ *Swarm, near []*Peer, _ string) {
			for i, p := range near {
				p.FilterAnswer = func(_ env.Request, a env.Answer) env.Answer {
					a.Body = bytes.ReplaceAll(a.Body, []byte("<title>"), fmt.Appendf(nil, "<title>%d ", i))
					return a
				}
			}
		},
		"an item is withdrawn at once": func(s *Swarm, near []*Peer, _ string) {
			until := s.Now().Add(6 * time.Second)
			for _, p := range near {
				p.FilterAnswer = func(_ env.Request, a env.Answer) env.Answer {
					if s.Now().Before(until) {
						a.Body = bytes.Replace(a.Body, []byte("<item>"), []byte("<item><title>Forged</title><guid>forged</guid></item><item>"), 1)
					}
					return a
				}
			}
		},
	} {
		s := feedSwarm(3, Config{})
		s.Grow(16, 100*time.Millisecond)
		s.World.Run(20 * time.Second)
		url := s.serveFeeds(1, 10*time.Minute, 12)[0]
		near := nearestPeers(s, url)
		for _, p := range near {
			p.SubscribeFeed(url)
		}
		s.World.Run(20 * time.Minute)
		leader := near[15].leaderOf(url)
		prepare(s, near, url)
		s.World.Run(time.Hour)
		if near[15].leaderOf(url) != leader {
			t.Errorf("%s: the sequencer has lost the feed", what)
		}
		for _, p := range near {
			if n := p.node.Owners.Stats().Barred; n > 0 {
				t.Errorf("%s: %d bars", what, n)
			}
		}
		of := map[string]int{}
		for _, by := range near[15].provenances(url) {
			of[by]++
		}
		t.Log(what, of)
	}
}
