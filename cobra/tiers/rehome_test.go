package tiers

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"tidings/cobra/provision"
	"tidings/internal/env"
)

// A message is a frame on its way.
type message struct {
	from  env.PeerID
	frame []byte
	steps int // that it is late
}

// TestOneCrawlerPollsAFeedAfterChangedPlans: crawlers hand a feed to each other while they come, leave and change their order in
// the plan, each at a time of its own. Messages are lost, come late and come again, and nodes restart. When all run the
// same plan, one of them polls the feed.
func TestOneCrawlerPollsAFeedAfterChangedPlans(t *testing.T) {
	const url = "http://a.example/"
	const latest = 4 // steps that a message is late
	ids := []env.PeerID{"c", "d", "e"}
	for seed := range uint64(100) {
		dice := rand.New(rand.NewPCG(seed, 53))
		made := 0
		down := env.PeerID("") // a crawler that the plan lacks, and that is down until the next plan
		newPlan := func() Plan {
			order := slices.Clone(ids)
			dice.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
			made++
			p := Plan{OutFilters: 1, Digest: fmt.Sprint(made, "-plan"), Nodes: slices.Clone(threeTiers.Nodes[1:])}
			in := 2 + dice.IntN(2)
			if down = ""; in < len(ids) && dice.IntN(2) == 0 {
				down = order[2]
			}
			for _, id := range order[:in] {
				p.Nodes = append(p.Nodes, Node{Name: "crawler-" + string(id), Role: provision.Crawler, Peer: env.Peer{ID: id}, Links: []string{"filter-1-1"}})
			}
			return p
		}
		plan := newPlan()
		for len(plan.Nodes) < 2+len(ids) { // the first one has all crawlers
			plan = newPlan()
		}
		disks, nodes, files := map[env.PeerID]*memory{}, map[env.PeerID]*Tiers{}, map[env.PeerID]Plan{}
		wires := map[env.PeerID][]message{} // by receiver
		boot := func(id env.PeerID) {
			if n := nodes[id]; n != nil && n.retired() {
				files[id] = n.plans.plan // another one that lacks the node would not be taken
			}
			nodes[id] = startIn(t, files[id], id, disks[id], nil)
			nodes[id].SetFeeds([]string{url})
		}
		for _, id := range ids {
			disks[id], files[id] = newMemory(), plan
			boot(id)
		}
		steps, changed := 0, 0
		take := func(id env.PeerID) {
			n := nodes[id]
			if id == down {
				return
			}
			files[id] = plan
			for _, l := range n.out.links { // nothing is under way to the filter
				l.plan, l.settled = n.plans.plan.Digest, true
			}
			if before := n.plans.plan.Digest; n.SetPlan(plan) == nil && n.plans.plan.Digest != before {
				changed = steps
				n.SetFeeds([]string{url})
			}
		}
		agree := func() bool { // all that are up run the plan
			return !slices.ContainsFunc(ids, func(id env.PeerID) bool { return id != down && nodes[id].plans.plan.Digest != plan.Digest })
		}
		step := func(faults bool) {
			steps++
			for _, id := range ids {
				d, n := disks[id], nodes[id]
				if d.now = d.now.Add(handRetry); id == down {
					continue
				}
				n.Run(d.now)
				for h := range n.crawler.polls {
					n.Answered(h, env.Answer{Status: 304})
				}
				n.Run(d.now)
				for i, frame := range d.sent {
					wires[d.to[i]] = append(wires[d.to[i]], message{id, frame, 0})
				}
				d.sent, d.to = nil, nil
			}
			for _, id := range ids {
				if id == down {
					wires[id] = nil
					continue
				}
				for _, m := range slices.Backward(wires[id]) { // the newest first
					if !faults || dice.IntN(3) > 0 {
						receive(t, nodes[id], m.from, m.frame)
					}
				}
				wires[id] = slices.DeleteFunc(wires[id], func(m message) bool { return !faults || m.steps == latest || dice.IntN(3) == 0 })
				for i := range wires[id] {
					wires[id][i].steps++
				}
				if faults && dice.IntN(12) == 0 {
					boot(id)
				}
			}
		}
		stages := func() (all []string) {
			for _, id := range ids {
				if f := nodes[id].crawler.feeds[url]; f != nil {
					all = append(all, fmt.Sprintf("%s in %s: stage %d to %q, record %v", id, nodes[id].plans.plan.Digest, f.stage, f.to, f.record))
				}
			}
			return all
		}
		for range 60 {
			for range 8 {
				if dice.IntN(3) == 0 {
					take(ids[dice.IntN(len(ids))])
				}
				for _, id := range ids {
					n := nodes[id]
					if f, l := n.crawler.feeds[url], n.crawler.near; f != nil && agree() && n.crawler.owns(url) && dice.IntN(4) == 0 {
						to := l.crawlers[dice.IntN(len(l.crawlers))].Peer.ID
						if f.stage == here && to != l.crawlers[l.self].Peer.ID {
							n.crawler.leave(f, to)
						} else if f.stage == away {
							n.crawler.recall(f, to)
						}
					}
				}
				step(true)
			}
			if agree() && steps-changed > latest {
				plan = newPlan()
			}
		}
		down = ""
		polling := 0
		for n := 0; n < 100 && (n < 60 || polling != 1); n++ {
			for _, id := range ids {
				take(id)
			}
			step(false)
			polling = 0
			for _, id := range ids {
				if f := nodes[id].crawler.feeds[url]; f != nil && f.stage == here {
					polling++
				}
			}
		}
		if polling != 1 {
			t.Fatalf("seed %d: %d crawlers poll the feed:\n%s", seed, polling, strings.Join(stages(), "\n"))
		}
	}
}
