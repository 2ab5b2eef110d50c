package tiers

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	"tidings/cobra/tiers/tierspb"
	"tidings/internal/env"
	"tidings/internal/wire"
)

// TestAFeedIsHandedOnceWhateverIsLost: a feed goes to another crawler and back. Messages are lost, come late and come again,
// and both nodes restart at any time; at most one of them polls the feed, and in the end its home does, with what the other
// has found.
func TestAFeedIsHandedOnceWhateverIsLost(t *testing.T) {
	url := ""
	for i := 0; share(url, 2) != 0; i++ { // the share of the crawler d, which comes first in the plan
		url = fmt.Sprintf("http://%d.example/", i)
	}
	for seed := range 300 {
		ids := []env.PeerID{"d", "c"}
		disks := []*memory{newMemory(), newMemory()}
		var nodes [2]*Tiers
		boot := func(i int) {
			nodes[i] = startIn(t, fourNodes, ids[i], disks[i], nil)
			nodes[i].SetFeeds([]string{url})
		}
		boot(0)
		boot(1)
		polls := func(i int) bool { f := nodes[i].crawler.feeds[url]; return f != nil && f.stage == here }
		dice := nodes[0].rand
		for range seed {
			dice.Uint64()
		}
		var wires [2][][]byte
		step := func(faults bool) {
			for i, n := range nodes {
				disks[i].now = disks[i].now.Add(handRetry)
				n.Run(disks[i].now)
				for h := range n.crawler.polls {
					n.Answered(h, env.Answer{Status: 304})
				}
				n.Run(disks[i].now)
				wires[1-i] = append(wires[1-i], disks[i].sent...)
				disks[i].sent = nil
			}
			for i := range nodes {
				for k := len(wires[i]) - 1; k >= 0; k-- { // the newest first
					if faults && dice.IntN(3) == 0 {
						continue // it comes later, or again
					}
					receive(t, nodes[i], ids[1-i], wires[i][k])
				}
				if !faults || dice.IntN(2) == 0 {
					wires[i] = nil
				}
				if faults && dice.IntN(8) == 0 {
					boot(i)
				}
			}
			if polls(0) && polls(1) {
				t.Fatalf("seed %d: both crawlers poll the feed", seed)
			}
		}
		home := func() *crawled { return nodes[0].crawler.feeds[url] }
		found := false
		for range 40 {
			if f := home(); f.stage == here && dice.IntN(3) == 0 {
				nodes[0].crawler.leave(f, ids[1])
			} else if f.stage == away && dice.IntN(3) == 0 {
				nodes[0].crawler.recall(f, ids[0])
			}
			step(true)
			if f := nodes[1].crawler.feeds[url]; f != nil && f.stage == here && len(f.record.Items) == 0 { // an article was found
				f.record.Items, found = []uint64{7}, true
				nodes[1].crawler.settle(f, func() {})
			}
		}
		for n := 0; !polls(0); n++ {
			if f := home(); f.stage == away {
				nodes[0].crawler.recall(f, ids[0])
			}
			if step(false); n > 60 { // the other crawler says within two minutes that it is up
				t.Fatalf("seed %d: the feed does not come home: here in stage %d, term %d", seed, home().stage, home().record.Term)
			}
		}
		if f := home(); found && (len(f.record.Items) != 1 || f.record.Items[0] != 7) {
			t.Fatalf("seed %d: the home knows items %v after %d terms", seed, f.record.Items, f.record.Term)
		}
	}
}

func receive(t *testing.T, n *Tiers, from env.PeerID, frame []byte) {
	t.Helper()
	_, body, err := wire.ParseFrame(frame)
	if err != nil {
		t.Fatal(err)
	}
	var m tierspb.Message
	if err := proto.Unmarshal(body, &m); err != nil {
		t.Fatal(err)
	}
	if m.GetSend() != nil { // to the filter, which is not there
		return
	}
	if err := n.Receive(from, body); err != nil {
		t.Fatal(err)
	}
}
