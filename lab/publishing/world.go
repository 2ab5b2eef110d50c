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

// A world is a swarm in which publishers write.
type world struct {
	*sim.Swarm
	is       Scenario
	ctx      context.Context
	progress func(float64)
	began    time.Time
	wall     time.Time
	dice     *rand.Rand

	feeds    []*followed
	desks    map[*sim.Peer]*desk
	order    []*desk
	ledger   *ledger
	live     *Part // of items that are published while all is as the scenario has it from the start
	late     *Part // of what is to be shown to who comes later
	parts    []*Part
	counting bool

	items       int
	held        []time.Duration
	pushedAgain int
	refused     string
}

const (
	leastShare, mostShare = 0.05, 0.20 // of the members, that follow a feed
	// Names of parts.
	partLive    = "published"         // to those who are there
	partLate    = "come later"        // to those who come, or come back
	partApart   = "while parted"      // as far as they were shown then
	partHealed  = "after the healing" // what lacked then
	partClean   = "with a clean way"
	partUnclean = "without one"
)

// newWorld returns a world without members.
func newWorld(ctx context.Context, c Scenario, progress func(float64)) *world {
	network := wire.DefaultNetwork("sim")
	network.Owners = c.Owners
	network.FanOut = cmp.Or(c.FanOut, network.FanOut)
	network.Witnesses = min(network.Witnesses, c.Owners)
	s := sim.NewSwarm(sim.SwarmConfig{World: sim.Config{Seed: c.Seed, Topology: sim.King(c.Seed)}, Network: network})
	w := &world{
		Swarm: s, is: c, ctx: ctx, progress: progress, began: s.Now(), wall: time.Now(),
		dice: rand.New(rand.NewPCG(c.Seed, 0x9b)), desks: map[*sim.Peer]*desk{},
	}
	w.live, w.late = w.newPart(partLive, c.Limit), w.newPart(partLate, c.Limit)
	w.ledger = &ledger{
		now: s.Now, readers: map[*sim.Peer][]*reader{}, back: w.late,
		part: func(*sim.Peer, *followed) *Part { return w.live },
	}
	s.SetHooks(sim.Hooks{Shown: w.ledger.shows, Started: w.ledger.came, Stopped: w.ledger.went})
	return w
}

func (w *world) newPart(name string, limit time.Duration) *Part {
	p := &Part{Name: name, LimitS: limit.Seconds()}
	w.parts = append(w.parts, p)
	return p
}

// pass lets time pass, unless the run is to end.
func (w *world) pass(d time.Duration) error {
	for end := w.Now().Add(d); w.Now().Before(end) && w.ctx.Err() == nil; {
		w.World.Run(min(10*time.Second, end.Sub(w.Now())))
		w.progress(min(float64(w.Now().Sub(w.began))/float64(w.is.length()), 1))
	}
	return context.Cause(w.ctx)
}

// begin has the members come, follow feeds, and be shown a first item of each, which does not count.
func (w *world) begin() error {
	w.Grow(w.is.Nodes, growPause)
	if err := w.pass(time.Duration(w.is.Nodes)*growPause + settle); err != nil {
		return err
	}
	places := w.dice.Perm(w.is.Nodes)
	for i := range w.is.Feeds {
		f := &followed{
			url: fmt.Sprintf("http://feed%d.example/", i), items: map[feed.ID]int{},
			share: leastShare + (mostShare-leastShare)*w.dice.Float64(),
		}
		w.feeds = append(w.feeds, f)
		p := w.Peers()[places[i%len(places)]]
		d := newDesk(w, f, p, w.Seed()<<20+uint64(i))
		w.desks[p] = d
		w.order = append(w.order, d)
	}
	for _, p := range w.Peers() {
		if w.desks[p] == nil {
			w.After(time.Duration(w.dice.Int64N(int64(joining))), func() { w.follow(p) })
		}
	}
	if err := w.pass(joining); err != nil {
		return err
	}
	for _, d := range w.order {
		w.After(time.Duration(w.dice.Int64N(int64(warmth/2))), d.write)
	}
	if err := w.pass(warmth); err != nil {
		return err
	}
	w.counting = true
	for _, d := range w.order {
		d.tick()
	}
	return nil
}

// follow has a peer follow feeds, by the dice.
func (w *world) follow(p *sim.Peer) {
	for _, f := range w.feeds {
		if w.dice.Float64() < f.share {
			p.SubscribeFeed(f.url)
			w.ledger.follows(p, f)
		}
	}
}

// close has publishers write no more.
func (w *world) close() {
	for _, d := range w.order {
		d.shut = true
	}
}

// channels is how many feeds a member follows in the mean.
func (w *world) channels() float64 {
	return float64(len(w.ledger.order)+len(w.order)) / float64(max(len(w.Live()), 1))
}

// sum makes the figures of a run.
func (w *world) sum(r *Result) {
	w.ledger.close()
	for _, p := range w.parts {
		if p.Wanted > 0 {
			p.sum()
			r.Parts = append(r.Parts, p)
		}
	}
	for _, v := range w.Violations() {
		if v.Invariant == sim.ShownTwice {
			r.Twice++
		}
		if len(r.Wrong) < maxWrong {
			r.Wrong = append(r.Wrong, v.String())
		}
	}
	r.Again = w.ledger.again - r.Twice
	r.Items, r.Pushed, r.Refused = w.items, w.pushedAgain, w.refused
	slices.Sort(w.held)
	if n := len(w.held); n > 0 {
		r.HeldP99, r.HeldMost = w.held[n*99/100].Seconds(), w.held[n-1].Seconds()
	}
	st := w.FeedStats()
	r.Gaps, r.Filled, r.Jumps, r.Merged = st.Gaps, st.Filled, st.ForcedReconfigs, st.Merged
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

// maxWrong bounds the findings that are told.
const maxWrong = 20

// windows looks what readers have in the end, as their proxies would show it.
func (w *world) windows(r *Result) error {
	for _, rd := range w.ledger.order {
		if !rd.up {
			continue
		}
		rd.peer.Enqueue(func() {
			rd.peer.Layers().Feeds.Read(w.Key(rd.feed.url), func(d feedtree.Document) { r.look(rd, d) })
		})
	}
	return w.pass(5 * time.Second)
}

// look compares a reader's document with what it was shown.
func (r *Result) look(rd *reader, d feedtree.Document) {
	has := map[feed.ID]bool{}
	for _, e := range d.Entries {
		if has[e.Item.ID] {
			r.Doubled++
		}
		has[e.Item.ID] = true
		if e.Provenance != feedtree.ByPublisher {
			r.Unsigned++
		}
	}
	for id, i := range rd.feed.items {
		if rd.shown[i] && !has[id] {
			r.Gone++
		}
	}
}
