package corona

import (
	"bytes"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"tidings/corona/coronapb"
	"tidings/difference"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/overlay"
)

// An Application is what the layers above make of polls.
type Application interface {
	// Found hands over what a poll found new in a channel, to become entries of
	// its log, and the document it was found in. done is called when
	// all of it is held by a quorum, or with false when it is not; Found returns
	// false if it cannot take it now.
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

// A channel is one that this node polls.
type channel struct {
	key    overlay.ID
	url    string
	domain string
	known  *difference.Known

	interval time.Duration
	hints    feed.Hints
	fresh    time.Duration // max-age of the last answer
	valid    validators
	words    string // what readers lack of the document that valid is of
	state    State
	told     time.Time // when subscribers were told last
	fails    int
	private  bool
	doubt    doubt

	// What the poller before left: the interval until a document says it again, and
	// the readers until the tree has formed anew.
	heritage note

	since   time.Time // when this node took it over
	read    time.Time // when somebody was known to read it
	next    time.Time
	waiting env.Handle // for an answer; 0: none
	asked   time.Time
	handing int // findings on their way to a quorum
}

// validators are those of a document whose items are all in the log.
type validators struct{ etag, lastModified, url string }

// A doubt is about documents that look as if they had taken the place of the feed.
type doubt struct {
	since time.Time  // zero: there is none
	first *feed.Feed // nil: only another poller has seen it
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

// Lead makes this node poll a channel of which some items are known. note is the
// record that an earlier poller left, nil if there was none.
func (c *Corona) Lead(key overlay.ID, url string, known *difference.Known, note []byte) {
	now := c.clock.Now()
	ch := &channel{key: key, url: url, domain: domainOf(url), known: known, since: now, read: now, interval: c.cfg.PollInterval}
	ch.state = State{Kind: coronapb.State_NEW, Since: now}
	c.channels[key] = ch
	if spelled, err := feed.Canonical(url); err != nil || spelled != url {
		// Whoever wanted it did not ask for it as a reader here can.
		c.say(ch, State{Kind: coronapb.State_REFUSED, Words: "not an address as it has to be spelled"}, now)
		return
	}
	first := true
	if n, ok := parseNote(note); ok {
		first = n.State.Polled.IsZero()
		ch.valid = n.valid
		ch.fails = n.fails
		ch.state = n.State
		ch.heritage = n
		if n.State.Kind == coronapb.State_OK && n.State.Words != noItems {
			ch.words = n.State.Words
		}
		if n.State.Kind == coronapb.State_NOT_A_FEED && strings.HasSuffix(n.State.Words, ifItStays) {
			ch.doubt.since = n.State.Since
			if now.Before(ch.doubt.since) { // by a clock that was ahead
				ch.doubt.since = now
			}
		}
		ch.interval = max(ch.interval, n.interval)
	}
	// Who takes over does not know when the last poll was, and many channels may
	// change hands at one time.
	at := now
	if !first {
		at = now.Add(time.Duration(c.rand.Int64N(int64(ch.interval) + 1)))
	}
	why := ""
	// What the origin asked for holds for whoever polls: until it is over, or, where
	// the clock of the poller before was ahead, for as long as it was to last.
	next := ch.state.Next
	if longest := now.Add(next.Sub(ch.state.Polled)); next.After(longest) {
		next = longest
	}
	if ch.fails > 0 && next.After(at) {
		at, why = next, ch.state.Why
		if ch.state.Kind == coronapb.State_LIMITED {
			c.pause(ch.domain, next, now)
		}
	}
	c.plan(ch, at, why)
}

// Cease ends Lead.
func (c *Corona) Cease(key overlay.ID) {
	if ch := c.channels[key]; ch != nil {
		delete(c.polls, ch.waiting)
		delete(c.channels, key)
	}
}

// Filter returns what is new to the poller in a finding of somebody else's, and
// takes note that it is known.
func (c *Corona) Filter(key overlay.ID, d difference.Delta) difference.Delta {
	ch := c.channels[key]
	if ch == nil {
		return difference.Delta{}
	}
	fresh := ch.known.Unknown(d)
	ch.known.Add(fresh)
	return fresh
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

// readers is how many clients a channel has. Who takes over counts those that the
// poller before knew for two leases, while the tree forms anew.
func (c *Corona) readers(ch *channel) int {
	n := c.app.Weight(ch.key)
	if c.clock.Now().Sub(ch.since) < 2*c.cfg.MaintenanceInterval {
		n = max(n, ch.heritage.weight)
	}
	return n
}

// idle says whether nobody reads a channel: the tree had no clients for two
// leases.
func (c *Corona) idle(ch *channel, now time.Time) bool {
	if c.readers(ch) > 0 {
		ch.read = now
	}
	idle := now.Sub(ch.read) > 2*c.cfg.MaintenanceInterval
	if idle && ch.state.Kind != coronapb.State_IDLE {
		c.say(ch, State{Kind: coronapb.State_IDLE, Words: "nobody reads it"}, now)
	}
	return idle
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

// Answered takes the answer to a request.
func (c *Corona) Answered(h env.Handle, a env.Answer) {
	p, ok := c.polls[h]
	if !ok {
		return
	}
	delete(c.polls, h)
	if a.Status != 200 || len(a.Body) == 0 {
		c.judge(p, h, a, nil, nil)
		return
	}
	var f *feed.Feed
	var err error
	c.worker.Do(func() { f, err = feed.Parse(a.Body, a.ContentType) }, func() { c.judge(p, h, a, f, err) })
}

// judge makes of an answer what it means.
func (c *Corona) judge(p poll, h env.Handle, a env.Answer, f *feed.Feed, err error) {
	now := c.clock.Now()
	verdict := judge(a, f, err)
	verdict.Since, verdict.Polled = now, now
	if p.solo {
		delete(c.asked, p.key)
		if verdict.Kind != coronapb.State_OK {
			f = nil
		}
		c.app.Fetched(p.key, f, verdict)
		return
	}
	ch := c.channels[p.key]
	if ch == nil || ch.waiting != h {
		return
	}
	ch.waiting = 0
	if a.Err == env.ErrBusy {
		c.busy(ch, now)
		return
	}
	ch.private = a.Private
	c.stats.Polls++
	ch.state.Polled = now
	if verdict.Kind == coronapb.State_OK && f != nil {
		if odd := c.odd(ch, f, now); odd != "" {
			verdict = State{Kind: coronapb.State_NOT_A_FEED, Words: odd}
		}
	}
	if verdict.Kind != coronapb.State_OK {
		c.stats.Failed++
		c.failed(ch, a, verdict, now)
		return
	}
	ch.fails = 0
	ch.fresh = a.MaxAge
	if a.Moved && a.FinalURL != ch.url {
		verdict.Moved = a.FinalURL
	}
	at, why := c.next(ch, f, now)
	c.plan(ch, at, why)
	switch {
	case f == nil:
		verdict.Words = ch.words
	case len(f.Items) > 0:
		ch.words = verdict.Words
	}
	// The items go before the word that all is well.
	c.detect(ch, validators{a.ETag, a.LastModified, a.FinalURL}, f)
	c.say(ch, verdict, now)
}

// ifItStays ends the words about a document that is not believed yet.
const ifItStays = ": it is believed if it stays"

// odd says, in words, why a document is not believed to be the feed; "" if it is. What
// looks like another feed is believed when it stays. It is at once when it is replaced
// by yet another: then all of this feed is new each time, and what was not believed was
// news.
func (c *Corona) odd(ch *channel, f *feed.Feed, now time.Time) string {
	words := ch.known.Suspicious(f)
	if words == "" {
		ch.doubt = doubt{}
		return ""
	}
	if ch.doubt.since.IsZero() {
		ch.doubt.since = now
	}
	if ch.doubt.first == nil {
		ch.doubt.first = f
	}
	long, first := doubtFor, ch.doubt.first
	if ch.private {
		long = min(long, privateDoubt*ch.interval)
	}
	if now.Sub(ch.doubt.since) < long && !difference.Unlike(first, f) {
		return words + ifItStays
	}
	ch.doubt = doubt{}
	if first != f {
		c.detect(ch, validators{}, first)
	}
	return ""
}

// busy plans a poll anew for which the fetcher had no room. The origin was not asked,
// so nothing has become known of it.
func (c *Corona) busy(ch *channel, now time.Time) {
	c.stats.Busy++
	c.plan(ch, now.Add(busyFor/2+time.Duration(c.rand.Int64N(int64(busyFor)))), "other requests to its host go before")
	c.app.Said(ch.key, ch.state.Append(), NoHaste)
}

// detect compares a document with what is known, and hands over what is new. valid are
// its validators.
func (c *Corona) detect(ch *channel, valid validators, f *feed.Feed) {
	if f == nil { // 304
		c.stats.Unchanged++
		c.validate(ch, valid)
		return
	}
	ch.known.Recognise(f)
	d := ch.known.Diff(f)
	ch.known.See(f)
	if d.Empty() {
		c.stats.Unchanged++
		if len(f.Items) > 0 {
			// Those of an empty document are worth nothing, as it is small; and they
			// could hide, by their date, an older document with items.
			c.validate(ch, valid)
		}
		return
	}
	c.stats.Findings++
	c.stats.Items += uint64(len(d.Changes))
	ch.handing++
	taken := c.app.Found(ch.key, d, f, func(ok bool) {
		ch.handing--
		// Only when all is held does "not modified" mean that nothing is missing.
		if ok && ch.handing == 0 && c.channels[ch.key] == ch {
			ch.valid = valid
			c.note(ch)
		}
	})
	if !taken {
		ch.handing--
		return // the next poll finds it again
	}
	ch.known.Add(d)
}

// validate notes the validators of a document that brought nothing new.
func (c *Corona) validate(ch *channel, valid validators) {
	if valid != ch.valid && ch.handing == 0 {
		ch.valid = valid
		c.note(ch)
	}
}

// note replicates what a new poller goes on with.
func (c *Corona) note(ch *channel) {
	c.app.SetNote(ch.key, note{valid: ch.valid, interval: ch.interval, State: ch.state, fails: ch.fails, weight: c.readers(ch)}.append())
}

// say notes how the polls of a channel go, and tells if that has changed.
func (c *Corona) say(ch *channel, s State, now time.Time) {
	s.Polled, s.Next, s.Why, s.Readers = ch.state.Polled, ch.next, ch.state.Why, c.readers(ch)
	s.Since = now
	same := s.Kind == ch.state.Kind && s.Words == ch.state.Words && s.Moved == ch.state.Moved
	if same {
		s.Since = ch.state.Since
	}
	if was := ch.state.Readers; (s.Readers-was)*16 <= was && (was-s.Readers)*16 <= was {
		s.Readers = was // not worth a message
	}
	haste := NoHaste
	switch {
	case !same:
		haste = AtOnce
	case s.Readers != ch.state.Readers, s.Kind != coronapb.State_OK && now.Sub(ch.told) >= retell:
		haste = Soon
	}
	if haste != NoHaste {
		ch.told = now
	}
	ch.state = s
	c.app.Said(ch.key, s.Append(), haste)
	if !same {
		c.note(ch)
	}
}

// A View is how the polls of a channel go at this node.
type View struct {
	State    State
	Interval time.Duration
	Known    int // items
}

// View returns how a channel's polls go; ok is false if it is not polled here.
func (c *Corona) View(key overlay.ID) (View, bool) {
	ch := c.channels[key]
	if ch == nil {
		return View{}, false
	}
	return View{State: ch.state, Interval: ch.interval, Known: ch.known.Len()}, true
}

// Keys returns the channels polled here, in their order.
func (c *Corona) Keys() []overlay.ID {
	var of []overlay.ID
	for key := range c.channels {
		of = append(of, key)
	}
	slices.SortFunc(of, func(a, b overlay.ID) int { return bytes.Compare(a[:], b[:]) })
	return of
}

// Stats returns the counters.
func (c *Corona) Stats() Stats {
	st := c.stats
	st.Channels = len(c.channels)
	return st
}
