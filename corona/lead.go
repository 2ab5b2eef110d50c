package corona

import (
	"cmp"
	"strings"
	"time"

	"tidings/corona/coronapb"
	"tidings/difference"
	"tidings/honeycomb"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/overlay"
	"tidings/overlay/wedge"
)

// A lead is a channel that this node is the sequencer of: what its pollers find comes
// here, and here it is decided how many they are.
type lead struct {
	key    overlay.ID
	url    string
	domain *domain
	known  *difference.Known
	page   bool // not a feed

	order    wedge.Order        // what its wedge was told last; N = 0: there is none
	pollers  int                // how many there are to be
	level    int                // of Levels: that which its wedge is to reach
	by       *honeycomb.Channel // the factors by which that was decided; nil: it was not yet
	brief    brief              // what its wedge was told last
	interval time.Duration
	why      string // the rule that set it
	hints    feed.Hints
	fresh    time.Duration // max-age of the last answer
	valid    validators
	prints   []imprint // of the document that valid is of
	past     []past    // the documents that stood before, the last one at the end
	words    string    // what readers lack of it
	state    State
	told     time.Time // when subscribers were told last
	heard    time.Time // when it was what a poller had said
	fails    int       // polls in a row that failed
	private  bool
	doubt    doubt
	rhythm   rhythm
	cost     float64                // what a poll of it fetches, in bytes, on average
	lag      time.Duration          // mean time between the date of an item and when it was found; 0: not known
	ill      map[env.PeerID]illness // pollers whose last poll failed
	wellAt   time.Time              // when somebody has said that its polls go well again; zero: nobody since the last that failed

	// What the sequencer before left: the interval until a document says it again, the
	// failures, and the readers until the tree has formed anew.
	heritage note

	since   time.Time  // when this node took it over
	seen    time.Time  // when somebody was known to read it
	looked  time.Time  // when this node asked itself, beside all slots
	looking env.Handle // for that answer; 0: none
	handing int        // findings on their way to a quorum, or being judged
	judging bool       // what a look at the page has brought is being judged
	marks   string     // of the page, as the note has them
	gather  []*gather  // findings whose items are on their way here; the first is asked for
	waiters []waiter   // pollers to be told when the log holds what they found
	rest    time.Time  // until when all pollers are to leave the origin alone
	tendAt  time.Time  // when it is looked after next

	ticket uint64                   // which pollers beyond the leaf show with what they find
	spoke  map[env.PeerID]time.Time // when pollers have made their last reports, by their clocks

	// How often its domain lets it be asked.
	want  int           // the pollers that it would have otherwise
	paced time.Duration // the interval that it would have otherwise; 0: it was not polled yet
	pass
	grant []byte // its permit, as the pollers are told
}

// validators are those of a document whose items are all in the log.
type validators struct{ etag, lastModified, url string }

// A doubt is about documents that look as if they had taken the place of the feed.
type doubt struct {
	since time.Time  // zero: there is none
	first *feed.Feed // nil: only another sequencer has seen it
}

// An illness is what a poller has said of polls that fail.
type illness struct {
	state State
	at    time.Time
}

// Lead makes this node the sequencer of a channel of which some items are known. note is
// the record that an earlier one left, nil if there was none. epoch names the sequencer's
// time in office: a later one has a greater number.
func (c *Corona) Lead(key overlay.ID, url string, epoch uint64, known *difference.Known, note []byte) {
	now := c.clock.Now()
	l := &lead{key: key, url: url, domain: c.domain(originOf(url)), known: known, since: now, seen: now, interval: c.cfg.PollInterval, spoke: map[env.PeerID]time.Time{}}
	_, l.page = feed.AtOrigin(url)
	l.state = State{Kind: coronapb.State_NEW, Since: now}
	l.order.Term.Epoch = epoch
	l.ticket = c.ticketOf(key, epoch)
	c.leads[key] = l
	if spelled, err := feed.Canonical(url); err != nil || spelled != url {
		// Whoever wanted it did not ask for it as a reader here can.
		c.say(l, State{Kind: coronapb.State_REFUSED, Words: "not an address as it has to be spelled"}, now)
		return
	}
	l.order.Ref = c.begins(l, now)
	first := true
	if n, ok := parseNote(note); ok {
		if n.State.Kind == coronapb.State_REFUSED { // by the node before, or as it was started: this one asks
			n.State, n.fails = State{Kind: coronapb.State_NEW, Since: n.State.Since}, 0
		}
		first = n.State.Polled.IsZero()
		c.inherit(l, n, now)
		if known.Lossy() { // "not modified" would hide what the log has lost
			l.valid, first = validators{}, true
		}
		c.takeOver(l, n.grant, now)
	}
	if d := c.duties.Get(key); d != nil {
		d.lead = l
		l.learnFrom(d)
		d.know(l.standing(), l.rest) // what it was told as a poller, its log need not hold
	}
	c.tendSoon(l, now)
	c.presides(l, now)
	if first {
		c.look(l, now)
	}
	l.want = max(l.heritage.pollers, 1)
	c.enlist(l, l.want, now)
	c.begin(now)
	c.decideSoon(now)
}

// inherit goes on with what the sequencer before has noted.
func (c *Corona) inherit(l *lead, n note, now time.Time) {
	l.valid, l.state, l.lag, l.heritage, l.fails, l.private = n.valid, n.State, n.State.Lag, n, n.fails, n.private
	if n.private && !l.domain.seen {
		l.domain.seen, l.domain.private = true, true // until an answer says otherwise
	}
	if n.State.Kind == coronapb.State_OK && n.State.Words != noItems {
		l.words = n.State.Words
	}
	if n.State.Kind == coronapb.State_NOT_A_FEED && strings.HasSuffix(n.State.Words, ifItStays) {
		l.doubt.since = n.State.Since
		if now.Before(l.doubt.since) { // by a clock that was ahead
			l.doubt.since = now
		}
	}
	l.rhythm, l.cost = n.rhythm, n.cost
	l.known.Page().SetMarks([]byte(n.marks))
	if l.rhythm.at.After(now) { // by a clock that was ahead
		l.rhythm.at = now
	}
	l.interval = max(l.interval, n.interval)
	// Its slots stay where they were, on this node's clock.
	if behind := now.Sub(n.ref) % l.interval; behind >= 0 {
		l.order.Ref = now.Add(-behind)
	} else {
		l.order.Ref = now.Add(-behind - l.interval)
	}
	// What the origin asked for holds for whoever polls: until it is over, or, where
	// the clock of the sequencer before was ahead, for as long as it was to last.
	if longest := now.Add(l.state.Next.Sub(l.state.Polled)); l.state.Next.After(longest) {
		l.state.Next = longest
	}
	if n.fails > 0 && l.state.Kind == coronapb.State_LIMITED {
		c.spare(l.domain, l.state.Next)
	}
}

// look asks the origin at once, beside all slots: for a channel that is new, or that has
// readers again.
func (c *Corona) look(l *lead, now time.Time) {
	if !c.exempt(l.domain) && !c.solo(l.domain, now) {
		l.looked, l.looking = time.Time{}, 0 // it is tried again
		return
	}
	c.handle++
	l.looked, l.looking = now, c.handle
	c.polls[c.handle] = poll{key: l.key, kind: first}
	url, _ := feed.AtOrigin(l.url)
	c.fetcher.Fetch(c.handle, env.Request{
		URL: url, Robots: l.page, Subscribers: c.readers(l),
		ETag: l.valid.etag, LastModified: l.valid.lastModified, ValidatedURL: l.valid.url,
	})
}

// Cease ends Lead. Who leads now has its own order for the wedge; this node's ends, lest
// both stand where they do not meet.
func (c *Corona) Cease(key overlay.ID) {
	if l := c.leads[key]; l != nil {
		_ = c.wedges.Enlist(key, wedge.Order{}) // an end is never refused
		delete(c.leads, key)
		if d := c.duties.Get(key); d != nil {
			d.lead = nil
		}
		c.resigns(l)
		c.gathers -= len(l.gather)
		c.leave(l.domain)
	}
}

// Filter returns what is new to the sequencer in a finding of somebody else's, and
// takes note that it is known.
func (c *Corona) Filter(key overlay.ID, d difference.Delta) difference.Delta {
	l := c.leads[key]
	if l == nil {
		return difference.Delta{}
	}
	fresh := l.known.Unknown(d)
	l.known.Add(fresh)
	return fresh
}

// readers is how many clients a channel has. Who takes over counts those that the
// sequencer before knew for two leases, while the tree forms anew.
func (c *Corona) readers(l *lead) int {
	n := c.app.Weight(l.key)
	if c.clock.Now().Sub(l.since) < 2*c.cfg.MaintenanceInterval {
		n = max(n, l.heritage.weight)
	}
	return n
}

// tendSoon plans the next look after a lead.
func (c *Corona) tendSoon(l *lead, now time.Time) {
	l.tendAt = now.Add(max(idleLook, c.cfg.MaintenanceInterval/10))
	c.tend.Add(l.tendAt, l.key)
}

// tended looks after a lead: one that nobody has read for two leases has no pollers.
func (c *Corona) tended(l *lead, now time.Time) {
	c.tendSoon(l, now)
	if c.readers(l) > 0 {
		l.seen = now
	}
	if term := c.app.Term(l.key); term > l.order.Term.Epoch {
		// Who led it meanwhile, unseen from here, has ended what stood.
		l.order.Term, l.order.N = wedge.Term{Epoch: term}, 0
	}
	if l.order.N > 0 && !c.wedges.Leads(l.key) {
		// A second sequencer, on the other side of a partition, gave an order of a later term. It has replaced
		// this one everywhere, and ended when that sequencer gave up.
		l.order.N = 0
	}
	idle, was := now.Sub(l.seen) > 2*c.cfg.MaintenanceInterval, l.state.Kind == coronapb.State_IDLE
	switch {
	case idle && !was:
		c.enlist(l, 0, now)
		l.state.Next, l.state.Why = time.Time{}, ""
		c.say(l, State{Kind: coronapb.State_IDLE, Words: "nobody reads it"}, now)
	case !idle && was:
		c.look(l, now)
		c.enlist(l, 1, now)
	case !idle && l.looking != 0 && now.Sub(l.looked) >= patience:
		c.stats.Late++
		delete(c.polls, l.looking)
		c.look(l, now)
	case !idle && l.looked.IsZero() && l.state.Kind == coronapb.State_NEW:
		c.look(l, now) // there was no room for it
	case !idle:
		if l.order.N == 0 {
			c.enlist(l, l.want, now)
		}
		if n := float64(c.readers(l)); l.by == nil || n >= grown*l.by.Subscribers || grown*n <= l.by.Subscribers {
			c.decideSoon(now)
		}
		c.forgetIll(l, now)
	}
	if !idle && c.cfg.ExemptPrivate && !l.domain.seen && l.looking == 0 && now.Sub(l.looked) > l.interval {
		c.look(l, now) // who has taken over and does not poll: whether it is exempt is seen when it answers
	}
	if l.permit != nil && !l.permit.expiry.After(now) {
		c.stats.Expired++
		l.permit, l.grant = nil, nil
		c.pace(l, nil)
		c.enlist(l, l.pollers, now)
	}
}

// enlist tells a channel's wedge how many pollers there are to be, and what they are to
// know, if that has changed. There are no more than its domain bears.
func (c *Corona) enlist(l *lead, pollers int, now time.Time) {
	if most := c.most(l.domain, l.permit, c.readers(l), l.interval); most > 0 {
		pollers = min(pollers, most)
	}
	o := l.order
	o.N, o.Interval = pollers, l.interval
	if c.cfg.DAG && pollers > 0 {
		o.N, o.Reach = 1, c.digit()
	}
	b := c.briefOf(l, now)
	if o.N == l.order.N && o.Interval == l.order.Interval && !l.brief.stale(b) {
		c.polledBy(l, pollers, now)
		return
	}
	o.Ref = o.Ref.Add(now.Sub(o.Ref) / o.Interval * o.Interval)
	o.Words = b.words(l.url)
	o.Term.Seq++
	if err := c.wedges.Enlist(l.key, o); err != nil {
		c.stats.Unlisted++
		c.log.Debug("pollers of a feed could not be informed", "url", l.url, "err", err) // until the next look after it
		return
	}
	l.order, l.brief = o, b
	c.polledBy(l, pollers, now)
}

// polledBy notes how many poll a channel, and says so to its readers.
func (c *Corona) polledBy(l *lead, pollers int, now time.Time) {
	was := l.pollers
	if l.pollers = pollers; pollers > 0 && was > 0 && was != pollers {
		c.say(l, l.state, now)
	}
}

// standing is what pollers are told that the log has.
func (l *lead) standing() *standing {
	if l.prints == nil && l.valid == (validators{}) {
		return nil
	}
	return &standing{valid: l.valid, prints: l.prints, digest: digest(l.prints)}
}

// planned notes when the next poll of a channel is due, and by which rule, if this node
// makes all of them.
func (c *Corona) planned(l *lead, at time.Time, why string) {
	if l.pollers == 1 {
		l.state.Next, l.state.Why = at, cmp.Or(why, l.why)
	}
}

// expect notes when the next poll of a channel is due that others poll, too, or alone, and
// do not say when: as seldom as polls are if they are even. Where each draws its phase it can only be so in the mean.
func (c *Corona) expect(l *lead) {
	if l.pollers > 1 || c.duties.Get(l.key) == nil {
		l.state.Next, l.state.Why = l.state.Polled.Add(l.interval/time.Duration(max(l.pollers, 1))), l.why
		if c.cfg.Random && l.pollers > 1 {
			l.state.Why = "in the mean, as phases are random: " + l.why
		}
	}
}

// A View is how the polls of a channel go, as its sequencer knows.
type View struct {
	State State
	Known int // items
}

// View returns how a channel's polls go; ok is false if this node does not lead it.
func (c *Corona) View(key overlay.ID) (View, bool) {
	l := c.leads[key]
	if l == nil {
		return View{}, false
	}
	s := l.state
	if d := c.duties.Get(key); d == nil || l.pollers > 1 {
		now := c.clock.Now()
		s = s.Projected(now, now)
	}
	return View{State: s, Known: l.known.Len()}, true
}
