package corona

import (
	"log/slog"
	"math/rand/v2"
	"time"

	"tidings/difference"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/overlay"
)

// An Application is what the layers above make of polls.
type Application interface {
	// Found hands over what a poll found new in a channel, to become entries of
	// its log, and the document it was found in. done is called when all of it is
	// held by a quorum, or with false when it is not; Found returns false if it
	// cannot take it now.
	Found(key overlay.ID, d difference.Delta, doc *feed.Feed, done func(ok bool)) bool

	// Said hands over another word about the polls of a channel, for its
	// subscribers.
	Said(key overlay.ID, state []byte, haste Haste)

	// SetNote replicates the channel's record among its owners.
	SetNote(key overlay.ID, note []byte)

	// Weight returns the clients of a channel, as last reported.
	Weight(key overlay.ID) int

	// Fetched answers Ask with the document, nil if there is none.
	Fetched(key overlay.ID, f *feed.Feed, state State)
}

// Haste says when subscribers should know.
type Haste uint8

const (
	NoHaste Haste = iota // with the next heartbeat
	Soon                 // in some minutes
	AtOnce
)

// Config is what a Corona is told. A zero field means its default.
type Config struct {
	// PollInterval is tau, the time between two polls of a channel. Default 30 min.
	PollInterval time.Duration
	// MaintenanceInterval is that of leases. Default 10 min.
	MaintenanceInterval time.Duration
}

func (c Config) filled() Config {
	if c.PollInterval == 0 {
		c.PollInterval = 30 * time.Minute
	}
	if c.MaintenanceInterval == 0 {
		c.MaintenanceInterval = 10 * time.Minute
	}
	return c
}

// A Corona is one node's part in polling. It is not safe for concurrent use.
type Corona struct {
	cfg     Config
	clock   env.Clock
	fetcher env.Fetcher
	worker  env.Worker
	rand    *rand.Rand
	log     *slog.Logger
	app     Application
	stats   Stats

	channels map[overlay.ID]*channel
	asked    map[overlay.ID]string // documents asked for outside the schedule
	polls    map[env.Handle]poll
	handle   env.Handle
	paused   map[string]time.Time // registrable domains that asked to be left alone
	cal      env.Calendar[overlay.ID]
}

// Stats counts what a Corona did since it started.
type Stats struct {
	Channels  int    // polled here
	Polls     uint64 // answers to polls
	Unchanged uint64 // of which 304, or a document without anything new
	Findings  uint64 // of which brought something new
	Failed    uint64 // of which failed
	Items     uint64 // new items and edits found
	Asked     uint64 // documents fetched for a reader alone
	Late      uint64 // answers that never came
	Busy      uint64 // polls that the fetcher had no room for
}

// A poll is a request that is out.
type poll struct {
	key  overlay.ID
	solo bool // asked for a reader, outside the schedule
}

const (
	// floor and ceiling bound the interval of a public origin, whatever the
	// network or the origin wish.
	floor   = 15 * time.Minute
	ceiling = 24 * time.Hour
	// patience is how long an answer may take. The fetcher always answers, after
	// less than a minute; this is for a world that forgot.
	patience = 5 * time.Minute
	// doubtFor is how long documents are not believed that look as if they had taken
	// the place of the feed: a host that lost its database mostly has it back by then,
	// and few feeds that turn all over are so quick to do it again.
	doubtFor = time.Hour
	// privateDoubt is the same in intervals, for an origin on a private address.
	privateDoubt = 4
	// busyFor is about how long a poll waits for which the fetcher had no room.
	busyFor = time.Minute
	// retell is the least time between two words to subscribers about polls that
	// fail: the next is due at a time that they cannot know.
	retell = time.Minute
	// idleLook is how often a channel without readers is looked at.
	idleLook = time.Minute
)

// New returns a Corona that polls nothing yet.
func New(e env.Env, cfg Config, app Application) *Corona {
	return &Corona{
		cfg:      cfg.filled(),
		clock:    e.Clock,
		fetcher:  e.Fetcher,
		worker:   e.Worker,
		rand:     e.Rand,
		log:      e.Log,
		app:      app,
		channels: map[overlay.ID]*channel{},
		asked:    map[overlay.ID]string{},
		polls:    map[env.Handle]poll{},
		paused:   map[string]time.Time{},
	}
}

// plan sets the time of the next poll; why is the rule that set it.
func (c *Corona) plan(ch *channel, at time.Time, why string) {
	ch.next = at
	ch.state.Next, ch.state.Why = at, why
	if !at.IsZero() {
		c.cal.Add(at, ch.key)
	}
}

// Run does what is due and returns when it wants to be run next.
func (c *Corona) Run(now time.Time) time.Time {
	for {
		key, at, ok := c.cal.Pop(now)
		if !ok {
			return c.cal.Next()
		}
		ch := c.channels[key]
		switch {
		case ch == nil || !ch.next.Equal(at):
		case ch.waiting != 0 && now.Sub(ch.asked) < patience:
			c.plan(ch, now.Add(patience), ch.state.Why)
		case c.idle(ch, now):
			c.plan(ch, now.Add(idleLook), "nobody reads it")
		default:
			c.poll(ch, now)
		}
	}
}

// poll asks the origin.
func (c *Corona) poll(ch *channel, now time.Time) {
	if until := c.paused[ch.domain]; until.After(now) && !ch.private {
		c.plan(ch, until.Add(time.Duration(c.rand.Int64N(int64(time.Minute)))), ch.domain+" asked to be left alone")
		return
	}
	if ch.waiting != 0 {
		c.stats.Late++
		delete(c.polls, ch.waiting)
	}
	c.handle++
	ch.waiting, ch.asked = c.handle, now
	c.polls[c.handle] = poll{key: ch.key}
	r := env.Request{URL: ch.url, Subscribers: c.readers(ch)}
	if ch.known.Len() > 0 {
		r.ETag, r.LastModified, r.ValidatedURL = ch.valid.etag, ch.valid.lastModified, ch.valid.url
	}
	c.plan(ch, now.Add(patience), "")
	c.fetcher.Fetch(c.handle, r)
}

// Ask fetches a document once, outside the schedule, for a reader here: who reads
// without subscribing, or whom nobody in the network could help. Answers go to
// Application.Fetched.
func (c *Corona) Ask(key overlay.ID, url string) {
	if _, known := c.asked[key]; known {
		return
	}
	c.asked[key] = url
	c.handle++
	c.polls[c.handle] = poll{key: key, solo: true}
	c.stats.Asked++
	c.fetcher.Fetch(c.handle, env.Request{URL: url})
}

// Stats returns the counters.
func (c *Corona) Stats() Stats {
	st := c.stats
	st.Channels = len(c.channels)
	return st
}
