package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"tidings/cobra/provision"
	"tidings/cobra/tiers"
	"tidings/internal/env"
)

// TestFeedsMoveToNearCrawlers: each web server is near to one of three crawlers, later to another one, while frames are
// lost, repeated and overtaken, and crawlers crash. Every feed is then polled by one crawler, mostly a near one, no crawler
// polls more than its bound, and every article reaches every query that it matches, once and in order.
func TestFeedsMoveToNearCrawlers(t *testing.T) {
	const crawlers, feeds, turns, end = 3, 24, time.Hour, 105 * time.Minute
	seeds(t, 2, 6, func(t *testing.T, seed uint64) {
		var scripts []*burstScript
		place := map[string]int{}
		for i := range feeds {
			scripts = append(scripts, &burstScript{feed: i, every: 5 * time.Minute, end: end, shows: 30, paragraphs: 1})
			place[fmt.Sprintf("http://burst%d.example/", i)] = i
		}
		var w *tierWorld
		far := func(host int, url string) time.Duration {
			turned := 0
			if w != nil && w.Now().After(w.since.Add(turns)) {
				turned = 1
			}
			switch (place[url] + turned + host) % crawlers {
			case 0:
				return 20 * time.Millisecond
			case 1:
				return 150 * time.Millisecond
			}
			return 400 * time.Millisecond
		}
		faults := NetworkFaults{Loss: 0.02, Duplicate: 0.05, Reorder: 0.05}
		w = newTierWorld(t, seed, Config{NetworkFaults: faults, ToOrigin: far}, crawlers, scripts, func(string, int) tiers.Config { return tiers.Config{} })
		polled := map[string][]int{} // by whom in the last minutes, in turn
		var latency time.Duration
		var polls int
		made := w.made[provision.Crawler]
		for i, p := range made {
			p.FilterAnswer = func(r env.Request, a env.Answer) env.Answer {
				if r.LastModified != "" { // a probe
					return a
				}
				if by := polled[r.URL]; len(by) == 0 || by[len(by)-1] != i {
					polled[r.URL] = append(by, i)
				}
				latency += a.Latency
				polls++
				return a
			}
		}
		rng := rand.New(rand.NewPCG(seed, 37))
		check := func(what string) {
			clear(polled)
			latency, polls = 0, 0
			w.World.Run(3 * time.Minute)
			mean := latency / time.Duration(polls)
			t.Logf("%s: mean latency %v", what, mean)
			if what == "near" && mean > 100*time.Millisecond {
				t.Errorf("mean latency %v; with each feed at random it is 190 ms", mean)
			}
			held := 0
			for i, p := range made {
				s := p.node.Tiers.State()
				t.Logf("%s: %d feeds, %+v", s.Name, s.Feeds, s.Stats)
				if held += s.Feeds; s.Feeds > feeds*12/10/crawlers+crawlers {
					t.Errorf("crawler %d polls %d of %d feeds", i, s.Feeds, feeds)
				}
			}
			for url, by := range polled {
				if len(by) > 2 { // it may have moved once
					t.Errorf("%s is polled by crawlers %v", url, by)
				}
			}
			if held != feeds || len(polled) != feeds {
				t.Errorf("%d feeds are held and %d are polled, of %d", held, len(polled), feeds)
			}
		}
		crash := func(until time.Duration) {
			for w.Now().Before(w.since.Add(until)) {
				p := made[rng.IntN(crawlers)]
				p.Kill(rng.IntN(2) == 0)
				w.World.Run(time.Duration(1+rng.IntN(20)) * time.Second)
				p.Start()
				w.World.Run(time.Duration(rng.IntN(240)) * time.Second)
			}
		}
		w.World.Run(9*time.Minute + 30*time.Second)
		crash(25 * time.Minute)
		w.World.Run(25 * time.Minute)
		check("near")
		w.World.Run(15 * time.Minute) // some crawlers are far now
		crash(95 * time.Minute)
		w.World.Run(15 * time.Minute)
		check("turned")
		for i, n := range w.missing(t, true) {
			if n > 0 {
				t.Errorf("reflector %d lacks %d articles", i, n)
			}
			if again := w.made[provision.Reflector][i].tier.reflector.Stats().Again; again > 0 {
				t.Errorf("reflector %d got %d articles again", i, again)
			}
		}
	})
}

// TestLentFeedsSurviveAChangedPlan: feeds have moved to near crawlers when one crawler leaves the plan, and again when it comes
// back, while frames are lost and crawlers crash. No article is lost or shown twice, each feed is polled by one crawler in
// the end, and feeds go to near crawlers again.
func TestLentFeedsSurviveAChangedPlan(t *testing.T) {
	const feeds, end = 24, 125 * time.Minute
	seeds(t, 1, 6, func(t *testing.T, seed uint64) {
		var scripts []*burstScript
		place := map[string]int{}
		for i := range feeds {
			scripts = append(scripts, &burstScript{feed: i, every: 5 * time.Minute, end: end, shows: 30, paragraphs: 1})
			place[fmt.Sprintf("http://burst%d.example/", i)] = i
		}
		far := func(host int, url string) time.Duration {
			return []time.Duration{20 * time.Millisecond, 150 * time.Millisecond, 400 * time.Millisecond}[(place[url]+host)%3]
		}
		w, urls := newCentre(seed, Config{NetworkFaults: NetworkFaults{Loss: 0.02, Duplicate: 0.05, Reorder: 0.05}, ToOrigin: far}, 9, scripts)
		peers := w.Peers()
		crawlers, filters, reflectors := peers[:3], peers[3:6], peers[6:]
		w.made = map[string][]*Peer{provision.Crawler: crawlers, provision.Filter: filters, provision.Reflector: reflectors}
		all := MeshPlan("1-three crawlers", 3, crawlers, filters, reflectors)
		for _, p := range peers {
			p.tier = &tier{feeds: urls, config: tiers.Config{Plan: all}}
		}
		w.begin(filters)
		rng := rand.New(rand.NewPCG(seed, 47))
		gone := rng.IntN(3)
		two := MeshPlan("2-two crawlers", 3, slices.Delete(slices.Clone(crawlers), gone, gone+1), filters, reflectors)
		change := func(plan tiers.Plan) {
			w.Replan(plan, rng)
			for range 3 {
				p := crawlers[rng.IntN(3)]
				w.World.Run(time.Duration(rng.IntN(12)) * time.Second)
				p.Kill(rng.IntN(2) == 0)
				w.World.Run(time.Duration(1+rng.IntN(12)) * time.Second)
				p.Start()
			}
		}
		check := func(what string, most int) {
			held, handed := 0, uint64(0)
			for _, p := range crawlers {
				s := p.node.Tiers.State()
				t.Logf("%s: %s in plan %s, settled %v: %d feeds, %+v", what, s.Name, s.Plan, s.Settled, s.Feeds, s.Stats)
				if held, handed = held+s.Feeds, handed+s.Stats.Handed; s.Feeds > most {
					t.Errorf("%s: %s polls %d of %d feeds", what, s.Name, s.Feeds, feeds)
				}
			}
			if held != feeds {
				t.Errorf("%s: %d feeds are polled, of %d", what, held, feeds)
			}
			if handed == 0 {
				t.Errorf("%s: no feed has moved", what)
			}
		}
		w.World.Run(40 * time.Minute)
		check("three", feeds*12/10/3+3)
		change(two)
		w.World.Run(40 * time.Minute)
		check("two", feeds*12/10/2+2)
		if s := crawlers[gone].node.Tiers.State(); !s.Retired || s.Feeds > 0 {
			t.Errorf("the crawler that has left: %+v", s)
		}
		change(MeshPlan("3-three crawlers again", 3, crawlers, filters, reflectors))
		w.World.Run(60 * time.Minute)
		check("three again", feeds*12/10/3+3)
		for i, n := range w.missing(t, false) {
			if n > 0 {
				t.Errorf("reflector %d lacks %d articles", i, n)
			}
		}
	})
}
