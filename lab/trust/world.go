package trust

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"tidings/feedtree"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/internal/script"
	"tidings/internal/wire"
	"tidings/lab/table2"
	"tidings/overlay"
	"tidings/sim"
)

// A world is a swarm some of whose members see a forged web.
type world struct {
	*sim.Swarm
	config   Config
	ctx      context.Context
	progress func(float64)
	began    time.Time
	load     *table2.Workload
	owners   int // of a channel
	liars    map[env.PeerID]bool
	channels []*channel
	byURL    map[string]*channel
	peers    map[env.PeerID]*sim.Peer
	corrupt  func() // makes the liars lie, when the measured time begins
	step     func() // is called again and again

	since, until time.Time // in which items count
	polls        int       // of origins in that time, including looks
	looks        uint64    // in that time
}

// A channel is a channel of a world.
type channel struct {
	url      string
	key      overlay.ID
	served   *sim.Feed
	items    map[feed.ID]*item
	showings map[showingKey]*showing
	captured bool // most of the owners were liars at some time
	readers  []*sim.Peer
	pollers  int // the least number in the measured time
	epochs   []epoch
	unseen   []time.Time // when no honest owner polled
}

// An epoch is the beginning of a time in which a channel had the same sequencer.
type epoch struct {
	from      time.Time
	number    uint32
	sequencer env.PeerID
}

// An item is an item that a channel's origin has, or that liars see there.
type item struct {
	at     time.Time // when the origin published it
	forged bool
}

type showingKey struct {
	by env.PeerID
	id feed.ID
}

// A showing is an item at a reader.
type showing struct {
	item     *item
	shownAt  time.Time
	markedAt time.Time // zero: the item is not marked as witnessed
	// contested says that the item, a forged one, is marked as contested at the end.
	contested bool
}

const (
	// joinPause is the time between two members that join; joinTime is for the last ones.
	joinPause, joinTime = 100 * time.Millisecond, 30 * time.Second
	// minUpdate and maxUpdate bound the mean times between two items of a channel, in polling
	// intervals. The paper's channels change more rarely, which would need longer runs.
	minUpdate, maxUpdate = 3, 12
	// observedPerInterval is how often the owners and pollers of all channels are noted in a polling
	// interval.
	observedPerInterval = 10
	// maxItems is more than the items of a channel in any run.
	maxItems = 10_000
)

func newWorld(ctx context.Context, c Config, progress func(float64)) *world {
	network := wire.DefaultNetwork("sim")
	network.PollInterval, network.MaintenanceInterval = c.Interval, c.Interval
	s := sim.NewSwarm(sim.SwarmConfig{World: sim.Config{Seed: c.Seed, Topology: sim.King(c.Seed)}, Network: network})
	w := &world{
		Swarm: s, config: c, ctx: ctx, progress: progress, began: s.Now(), owners: network.Owners,
		liars: map[env.PeerID]bool{}, byURL: map[string]*channel{}, peers: map[env.PeerID]*sim.Peer{},
		load: table2.NewWorkload(int64(c.Seed), c.Members, c.Channels, c.Subscriptions),
	}
	w.step = func() {}
	w.corrupt = func() {
		for _, p := range w.Peers() {
			if w.liars[p.ID()] {
				p.FilterAnswer = forge
			}
		}
	}
	s.SetHooks(sim.Hooks{Shown: w.shown, Witnessed: w.witnessed})
	return w
}

// length returns the time of the whole run.
func (w *world) length() time.Duration {
	return time.Duration(w.config.Members)*joinPause + joinTime + time.Duration(settleIntervals+w.config.Length)*w.config.Interval
}

// advance lets time pass, unless the run is interrupted.
func (w *world) advance(d time.Duration) error {
	step := w.config.Interval / observedPerInterval
	for end := w.Now().Add(d); w.Now().Before(end) && w.ctx.Err() == nil; {
		w.World.Run(min(step, end.Sub(w.Now())))
		w.observe()
		w.step()
		w.progress(min(1, float64(w.Now().Sub(w.began))/float64(w.length())))
	}
	return context.Cause(w.ctx)
}

// run runs the world to its end.
func (w *world) run() error {
	c := w.config
	rng := rand.New(rand.NewPCG(c.Seed, 0x7e))
	w.Grow(c.Members, joinPause)
	for _, p := range w.Peers() {
		w.peers[p.ID()] = p
	}
	if err := w.advance(time.Duration(c.Members)*joinPause + joinTime); err != nil {
		return err
	}
	order := rng.Perm(c.Members)
	for _, i := range order[:int(math.Round(c.Liars*float64(c.Members)))] {
		w.liars[w.Peers()[i].ID()] = true
	}
	for i := range c.Channels {
		w.serve(i, rng)
	}
	if err := w.advance(settleIntervals * c.Interval); err != nil {
		return err
	}
	w.corrupt()
	for _, ch := range w.channels {
		ch.pollers = c.Members
	}
	w.since = w.Now()
	polls, looks := w.spent()
	if err := w.advance(time.Duration(c.Length) * c.Interval); err != nil {
		return err
	}
	w.until = w.Now()
	w.polls, w.looks = w.spent()
	w.polls -= polls
	w.looks -= looks
	w.readContests()
	return nil
}

// readContests notes which forged items readers see as contested.
func (w *world) readContests() {
	for _, ch := range w.channels {
		for key, s := range ch.showings {
			if p := w.peers[key.by]; s.item.forged && p.Active() {
				p.Do(func() {
					p.Layers().Feeds.Read(ch.key, func(d feedtree.Document) {
						s.contested = slices.ContainsFunc(d.Entries, func(e feed.Entry) bool { return e.Item.ID == key.id && e.Provenance == feedtree.Contested })
					})
				})
			}
		}
	}
	w.World.Run(time.Second) // the logs are read meanwhile
}

// spent returns the polls since the beginning, and how many of them were only made to confirm news or to audit a log.
func (w *world) spent() (polls int, looks uint64) {
	for _, p := range w.Peers() {
		if p.Up() {
			st := p.Layers().Feeds.Stats()
			looks += st.Looks + st.OriginAudits
		}
	}
	return w.FeedStats().Polls, looks
}

// serve serves a channel, and subscribes members to it within the next polling interval.
func (w *world) serve(i int, rng *rand.Rand) {
	every := time.Duration(minUpdate * math.Pow(maxUpdate/minUpdate, rng.Float64()) * float64(w.config.Interval))
	settings := script.Config{Seed: w.config.Seed<<20 + uint64(i), Every: every}
	url := w.load.URL(i)
	ch := &channel{url: url, key: w.Key(url), served: w.Serve(url, script.NewLively(settings)), items: map[feed.ID]*item{}, showings: map[showingKey]*showing{}}
	settings.Window = maxItems
	all := script.NewLively(settings)
	v := all.At(w.length())
	for n, it := range parse(v.Body, v.ContentType).Items {
		ch.items[it.ID] = &item{at: ch.served.Began.Add(all.Item(all.Published(w.length()) - 1 - n).At)}
	}
	forgery := forge(env.Request{URL: url}, env.Answer{Body: v.Body})
	for _, it := range parse(forgery.Body, v.ContentType).Items {
		if ch.items[it.ID] == nil {
			ch.items[it.ID] = &item{forged: true}
		}
	}
	w.channels = append(w.channels, ch)
	w.byURL[url] = ch
	readers := rng.Perm(w.config.Members)[:min(w.config.Members, max(1, w.load.Channels[i].Subscribers))]
	w.load.Channels[i] = table2.Channel{Subscribers: len(readers), Update: every}
	for _, m := range readers {
		ch.readers = append(ch.readers, w.Peers()[m])
		w.After(time.Duration(rng.Int64N(int64(w.config.Interval))), func() { w.Peers()[m].SubscribeFeed(url) })
	}
}

func parse(body []byte, contentType string) *feed.Feed {
	doc, err := feed.Parse(body, contentType)
	if err != nil {
		panic(fmt.Sprintf("trust: a feed of the world: %v", err))
	}
	return doc
}

// forge is the web of all liars: each document has one more item, the same one for all of them.
func forge(r env.Request, a env.Answer) env.Answer {
	lie := fmt.Sprintf("<item><title>Forged</title><guid isPermaLink=\"false\">forged %s</guid></item>\n<item>", r.URL)
	a.Body = bytes.Replace(a.Body, []byte("<item>"), []byte(lie), 1)
	return a
}

// observe notes the owners and the pollers of all channels.
func (w *world) observe() {
	for _, ch := range w.channels {
		if !w.since.IsZero() && !w.honestPoll(ch) {
			ch.unseen = append(ch.unseen, w.Now())
		}
		root := w.Root(ch.key)
		if root == nil {
			continue
		}
		w.noteOwners(ch, root)
		v, _ := root.Layers().Owners.View(ch.key)
		if v.Epoch == nil {
			continue
		}
		if n := len(ch.epochs); n == 0 || ch.epochs[n-1].number != v.Epoch.Number {
			ch.epochs = append(ch.epochs, epoch{w.Now(), v.Epoch.Number, v.Epoch.Sequencer})
		}
		if leader := w.peers[v.Epoch.Sequencer]; leader.Active() {
			served, _ := leader.Layers().Wedges.Served(ch.key)
			ch.pollers = min(ch.pollers, served)
		}
	}
}

// noteOwners notes whether the owners of a channel that a member knows are mostly liars.
func (w *world) noteOwners(ch *channel, p *sim.Peer) {
	v, _ := p.Layers().Owners.View(ch.key)
	if v.Epoch == nil {
		return
	}
	lying := 0
	for _, owner := range v.Epoch.Owners {
		if w.liars[owner] {
			lying++
		}
	}
	ch.captured = ch.captured || lying >= feedtree.SightingsNeeded(len(v.Epoch.Owners))
}

// shown notes that a reader is shown an item.
func (w *world) shown(p *sim.Peer, url string, id feed.ID) {
	ch := w.byURL[url]
	it, key := ch.items[id], showingKey{p.ID(), id}
	if it == nil {
		panic("trust: a reader was shown an item of " + url + " that nobody serves")
	}
	if ch.showings[key] == nil {
		ch.showings[key] = &showing{item: it, shownAt: w.Now()}
	}
}

// witnessed notes that items of a reader are marked as witnessed.
func (w *world) witnessed(p *sim.Peer, url string, items []feed.ID) {
	ch := w.byURL[url]
	w.noteOwners(ch, p)
	for _, id := range items {
		if s := ch.showings[showingKey{p.ID(), id}]; s != nil && s.markedAt.IsZero() {
			s.markedAt = w.Now()
		}
	}
}

// counts reports whether an item is an honest one of the measured time.
func (w *world) counts(it *item) bool {
	return !it.forged && it.at.After(w.since) && it.at.Before(w.until)
}

// old reports whether an item should be witnessed at the end.
func (w *world) old(it *item) bool {
	return w.counts(it) && it.at.Before(w.until.Add(-oldAfter*w.config.Interval))
}
