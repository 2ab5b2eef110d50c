package corona

import (
	"strings"
	"time"

	"tidings/corona/coronapb"
	"tidings/difference"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/overlay"
)

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
