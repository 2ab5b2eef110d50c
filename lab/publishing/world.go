package publishing

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"tidings/feedtree"
	"tidings/internal/feed"
	"tidings/internal/wire"
	"tidings/sim"
)

// A world is a swarm with publishers.
type world struct {
	*sim.Swarm
	scenario Scenario
	ctx      context.Context
	progress func(float64)
	began    time.Time
	wall     time.Time
	rng      *rand.Rand

	feeds          []*trackedFeed
	publishers     map[*sim.Peer]*publisher
	publisherOrder []*publisher
	tracker        *tracker
	liveGroup      *Group // of items that are published under the scenario's normal conditions
	lateGroup      *Group // of items that late or returning readers are to be shown
	groups         []*Group
	counting       bool

	items       int
	commitTimes []time.Duration
	retried     int
	refused     string
}

const (
	minShare, maxShare = 0.05, 0.20 // share of the members that follow a feed
	// Names of groups.
	groupLive        = "published"            // for readers that are there
	groupLate        = "late or returning"    // for readers that start or come back
	groupPartitioned = "during the partition" // shown while the partition lasts
	groupHealed      = "after the partition"  // missing at the end of the partition
	groupHonest      = "with an honest path"
	groupDropped     = "without an honest path"
)

// newWorld returns a world without members.
func newWorld(ctx context.Context, c Scenario, progress func(float64)) *world {
	network := wire.DefaultNetwork("sim")
	network.Owners = c.Owners
	network.FanOut = cmp.Or(c.FanOut, network.FanOut)
	network.Witnesses = min(network.Witnesses, c.Owners)
	s := sim.NewSwarm(sim.SwarmConfig{World: sim.Config{Seed: c.Seed, Topology: sim.King(c.Seed)}, Network: network})
	w := &world{
		Swarm: s, scenario: c, ctx: ctx, progress: progress, began: s.Now(), wall: time.Now(),
		rng: rand.New(rand.NewPCG(c.Seed, 0x9b)), publishers: map[*sim.Peer]*publisher{},
	}
	w.liveGroup, w.lateGroup = w.newGroup(groupLive, c.Limit), w.newGroup(groupLate, c.Limit)
	w.tracker = &tracker{
		now: s.Now, readers: map[*sim.Peer][]*reader{}, returning: w.lateGroup,
		groupOf: func(*sim.Peer, *trackedFeed) *Group { return w.liveGroup },
	}
	s.SetHooks(sim.Hooks{Shown: w.tracker.itemShown, Started: w.tracker.peerStarted, Stopped: w.tracker.peerStopped})
	return w
}

func (w *world) newGroup(name string, limit time.Duration) *Group {
	p := &Group{Name: name, LimitS: limit.Seconds()}
	w.groups = append(w.groups, p)
	return p
}

// advance lets time pass, unless the run is interrupted.
func (w *world) advance(d time.Duration) error {
	for end := w.Now().Add(d); w.Now().Before(end) && w.ctx.Err() == nil; {
		w.World.Run(min(10*time.Second, end.Sub(w.Now())))
		w.progress(min(float64(w.Now().Sub(w.began))/float64(w.scenario.length()), 1))
	}
	return context.Cause(w.ctx)
}

// start adds the members, subscribes them, and has each publisher write a first item, which does
// not count.
func (w *world) start() error {
	w.Grow(w.scenario.Nodes, growInterval)
	if err := w.advance(time.Duration(w.scenario.Nodes)*growInterval + settleTime); err != nil {
		return err
	}
	places := w.rng.Perm(w.scenario.Nodes)
	for i := range w.scenario.Feeds {
		f := &trackedFeed{
			url: fmt.Sprintf("http://feed%d.example/", i), items: map[feed.ID]int{},
			share: minShare + (maxShare-minShare)*w.rng.Float64(),
		}
		w.feeds = append(w.feeds, f)
		p := w.Peers()[places[i%len(places)]]
		d := newPublisher(w, f, p, w.Seed()<<20+uint64(i))
		w.publishers[p] = d
		w.publisherOrder = append(w.publisherOrder, d)
	}
	for _, p := range w.Peers() {
		if w.publishers[p] == nil {
			w.After(time.Duration(w.rng.Int64N(int64(joinTime))), func() { w.follow(p) })
		}
	}
	if err := w.advance(joinTime); err != nil {
		return err
	}
	for _, d := range w.publisherOrder {
		w.After(time.Duration(w.rng.Int64N(int64(warmupTime/2))), d.write)
	}
	if err := w.advance(warmupTime); err != nil {
		return err
	}
	w.counting = true
	for _, d := range w.publisherOrder {
		d.start()
	}
	return nil
}

// follow subscribes a peer to random feeds.
func (w *world) follow(p *sim.Peer) {
	for _, f := range w.feeds {
		if w.rng.Float64() < f.share {
			p.SubscribeFeed(f.url)
			w.tracker.addReader(p, f)
		}
	}
}

// stop stops the publishers.
func (w *world) stop() {
	for _, d := range w.publisherOrder {
		d.closed = true
	}
}

// channels returns the mean number of feeds of a member.
func (w *world) channels() float64 {
	return float64(len(w.tracker.order)+len(w.publisherOrder)) / float64(max(len(w.Live()), 1))
}

// finish computes the figures of a run.
func (w *world) finish(r *Result) {
	w.tracker.finish()
	for _, p := range w.groups {
		if p.Expected > 0 {
			p.finish()
			r.Groups = append(r.Groups, p)
		}
	}
	for _, v := range w.Violations() {
		if v.Invariant == sim.ShownTwice {
			r.ShownTwice++
		}
		if len(r.Wrong) < maxViolations {
			r.Wrong = append(r.Wrong, v.String())
		}
	}
	r.Repeated = w.tracker.repeated - r.ShownTwice
	r.Items, r.Retried, r.Refused = w.items, w.retried, w.refused
	slices.Sort(w.commitTimes)
	if n := len(w.commitTimes); n > 0 {
		r.CommitP99, r.CommitMax = w.commitTimes[n*99/100].Seconds(), w.commitTimes[n-1].Seconds()
	}
	st := w.FeedStats()
	r.Gaps, r.Filled, r.ForcedReconfigs, r.Merged = st.Gaps, st.Filled, st.ForcedReconfigs, st.Merged
	up := time.Duration(0)
	for _, p := range w.Live() {
		of := p.Layers().Feeds.Stats()
		r.Overdue += of.Overdue
		r.Lacking += of.Lacking
		r.Digests += float64(of.Digests)
		r.Audits += float64(of.Audits)
		up += w.Now().Sub(p.Since())
	}
	r.Digests /= max(up.Minutes(), 1)
	r.Audits /= max(up.Hours(), 1./60)
	r.VirtualS, r.WallS = w.Now().Sub(w.began).Seconds(), time.Since(w.wall).Seconds()
}

// maxViolations bounds the violations that are reported.
const maxViolations = 20

// checkWindows checks what readers have at the end, as their proxies would show it.
func (w *world) checkWindows(r *Result) error {
	for _, rd := range w.tracker.order {
		if !rd.online {
			continue
		}
		rd.peer.Enqueue(func() {
			rd.peer.Layers().Feeds.Read(w.Key(rd.feed.url), func(d feedtree.Document) { r.checkDocument(rd, d) })
		})
	}
	return w.advance(5 * time.Second)
}

// checkDocument compares a reader's document with what it was shown.
func (r *Result) checkDocument(rd *reader, d feedtree.Document) {
	has := map[feed.ID]bool{}
	for _, e := range d.Entries {
		if has[e.Item.ID] {
			r.Duplicated++
		}
		has[e.Item.ID] = true
		if e.Provenance != feedtree.ByPublisher {
			r.Unsigned++
		}
	}
	for id, i := range rd.feed.items {
		if rd.shown[i] && !has[id] {
			r.Vanished++
		}
	}
}
