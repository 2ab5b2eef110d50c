package corona

import (
	"cmp"
	"slices"
	"time"

	"tidings/corona/coronapb"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/overlay"
	"tidings/overlay/wedge"
)

// A duty is this node's part in the polls of a channel, of whose wedge it has ranks. A node
// has thousands of them, most of which are well: what there is to say about the others
// stands in extra.
type duty struct {
	// What every poll touches comes first.
	next     moment
	asked    moment
	waiting  env.Handle // for an answer; 0: none
	said     *said
	domain   *domain   // nil: nobody has a budget, and it has not asked for rest
	standing *standing // what the log holds; nil: it has not been told
	extra    *extra    // nil: there is none
	lead     *lead     // nil: this node is not the channel's sequencer
	grid     grid
	slot     uint32 // among all duties
	polled   bool   // it asked at all
	private  bool
	random   bool // its phase is of its own choice
}

// An extra is what few duties have.
type extra struct {
	pass
	ailment *ailment // nil: its last poll went well, or there was none
	why     string   // the rule that set the next poll, if it is not the interval
	rest    moment   // until when all pollers are to leave the origin alone
	again   moment   // when the origin is to be asked again, or up to ahead intervals before
	stale   uint64   // digest of a document that has no news either, of a replica that lags; 0: there is none
	staleAt moment   // when the sequencer said so
	watched *watched // the page; nil: it is a feed, or was not looked at yet
}

// rare returns a duty's extra, making it if there is none.
func (d *duty) rare() *extra {
	if d.extra == nil {
		d.extra = &extra{}
	}
	return d.extra
}

// extras are those of a duty, to be read.
func (d *duty) extras() extra {
	if d.extra == nil {
		return extra{}
	}
	return *d.extra
}

func (d *duty) key() overlay.ID { return d.said.key }

// An ailment is what is wrong with the polls of a duty.
type ailment struct {
	state State
	fails int
	said  coronapb.State_Kind // what the sequencer was told last,
	told  time.Time           // and when
}

// A standing is the document that a channel's log holds all of. It is not changed once it is
// made.
type standing struct {
	valid  validators
	prints []imprint // nil: they are not known
	digest uint64
}

// know takes what the log holds, and until when all pollers are to leave the origin alone.
func (d *duty) know(s *standing, rest time.Time) {
	d.standing = s
	if at := momentOf(rest); at != d.extras().rest {
		d.rare().rest = at
	}
}

// graceFor is how late a node that has other ranks now may poll, at most: its slot may have
// passed while it was told.
const graceFor = 10 * time.Second

// grace is that of one grid: of short intervals a small part, or each change of ranks would bring
// many polls besides.
func (g *grid) grace() time.Duration { return min(graceFor, g.Interval/32) }

// slotSlack is how much a slot may move by the measuring of ways.
const slotSlack = time.Second

// Valid says whether words are such that this node would poll by them, or pass them on.
func (c *Corona) Valid(key overlay.ID, words []byte) bool {
	s, _ := c.parseWords(key, words)
	return s != nil
}

// Handoff returns what a node that is newly enlisted is to know at once: how the log
// stands, as this node was told. Nil: nothing.
func (c *Corona) Handoff(key overlay.ID) []byte {
	var s *standing
	var rest time.Time // not what this node alone has seen
	if l := c.leads[key]; l != nil {
		s, rest = l.standing(), l.rest
	} else if d := c.duties.Get(key); d != nil {
		s, rest = d.standing, d.extras().rest.time()
	}
	if s == nil {
		return nil
	}
	return c.cfg.Briefs.message(key, s, rest.Sub(c.clock.Now()))
}

// Serve gives this node ranks of a channel, or others than it had.
func (c *Corona) Serve(key overlay.ID, grid wedge.Duty) {
	s, grant := c.parseWords(key, grid.Words)
	if s == nil {
		c.stats.Garbage++
		return
	}
	now := c.clock.Now()
	d := c.duties.Get(key)
	if d == nil {
		d = c.seat(duty{said: s, lead: c.leads[key], random: c.cfg.Random})
		if c.manners != nil {
			d.domain = c.domain(s.domain, s.private)
		}
		if d.random {
			d.grid.Ref = momentOf(now.Add(-time.Duration(c.rand.Int64N(int64(grid.Interval)))))
		}
		if c.manners != nil {
			d.rare().again = momentOf(c.manners.lately[key])
			delete(c.manners.lately, key)
		}
		if l := d.lead; l != nil {
			d.know(l.standing(), l.rest)
			d.private, d.asked = l.private, momentOf(l.looked)
			if l.state.Kind != coronapb.State_OK && l.state.Kind != coronapb.State_NEW {
				d.rare().ailment = &ailment{state: l.state, fails: l.fails, said: l.state.Kind, told: now}
			}
		}
		if c.cfg.DAG {
			c.begin(now)
		}
	}
	ref := d.grid.Ref
	if d.grid, d.said = gridOf(grid), s; d.random {
		d.grid.Ref = ref
	}
	c.present(d, grant)
	if d.waiting == 0 {
		c.planSlot(d, c.notBefore(d, now))
	}
}

// notBefore is the earliest time for the next poll of a duty that has other ranks now. A slot
// is for whoever has its rank when it comes, and lost if that one leaves it out: a node does
// that only if it has asked a moment ago. Who is new begins with the next slot: what a new
// channel shows the sequencer is just looking at.
func (c *Corona) notBefore(d *duty, now time.Time) time.Time {
	if d.asked == never {
		return now
	}
	from := now.Add(-d.grid.grace())
	if last := d.asked.time().Add(d.grid.breather()); last.After(from) {
		from = last
	}
	if i := d.extras().ailment; i != nil {
		until := i.state.Next.Add(-1)
		if i.state.Kind != coronapb.State_LIMITED {
			until = until.Add(-d.grid.Interval / 2) // it is no matter of minutes
		}
		if until.After(from) {
			from = until
		}
	}
	return from
}

// Release takes a channel from this node.
func (c *Corona) Release(key overlay.ID) {
	if d := c.duties.Get(key); d != nil {
		if m, again := c.manners, d.extras().again; m != nil && again.after(c.clock.Now()) && len(m.lately) < maxLately {
			m.lately[key] = again.time()
		}
		if d.domain != nil {
			c.leave(d.domain)
		}
		c.duties.Delete(key)
	}
}

// seat makes a duty this node's. Its slot is that by which the calendar knows it.
func (c *Corona) seat(of duty) *duty {
	d, slot := c.duties.Put(of)
	d.slot = slot
	return d
}

// due does what is due for a duty.
func (c *Corona) due(d *duty, now time.Time) {
	switch domain := c.domainOf(d); {
	case !d.private && domain != nil && domain.rest.after(now):
		at, _ := d.opening(domain.rest.time())
		c.plan(d, at, domain.name+" asks for fewer requests")
	case !d.private && d.extra != nil && d.extra.rest.after(now):
		at, _ := d.opening(d.extra.rest.time())
		c.plan(d, at, d.said.domain+" asks several nodes for fewer requests")
	default:
		if ok, at, why := c.polite(d, now); !ok {
			c.stats.Skipped++
			c.plan(d, at, why)
			return
		}
		c.poll(d, now)
	}
}

// poll asks the origin.
func (c *Corona) poll(d *duty, now time.Time) {
	c.handle++
	d.waiting, d.asked, d.polled = c.handle, momentOf(now), true
	if c.manners != nil {
		d.spend(now)
	}
	c.out = append(c.out, outing{d, c.handle, d.asked})
	url, isPage := feed.AtOrigin(d.said.url)
	r := env.Request{URL: url, Robots: isPage, Subscribers: d.said.brief.readers}
	if s := d.standing; s != nil {
		r.ETag, r.LastModified, r.ValidatedURL = s.valid.etag, s.valid.lastModified, s.valid.url
	}
	c.expected(d, d.turn(now), "") // planned when the answer is there, or has not come (runOut)
	c.fetcher.Fetch(c.handle, r)
}

// An outing is a poll of the schedule that is out. Answers come in another order than polls go
// out: one that has been answered stays among them, without a duty, until it is the first.
type outing struct {
	duty   *duty
	handle env.Handle
	asked  moment
}

// home takes an outing from those that are out; nil if it is not among them.
func (c *Corona) home(h env.Handle) *duty {
	i, ok := slices.BinarySearchFunc(c.out, h, func(o outing, h env.Handle) int { return cmp.Compare(o.handle, h) })
	if !ok {
		return nil
	}
	d := c.out[i].duty
	c.out[i].duty = nil
	c.clearOut()
	return d
}

// clearOut forgets the first outings that have been answered.
func (c *Corona) clearOut() {
	n := 0
	for n < len(c.out) && c.out[n].duty == nil {
		n++
	}
	if n == len(c.out) {
		c.out = c.out[:0]
	} else {
		c.out = c.out[n:]
	}
}

// runOut looks for answers that never came, and returns when it will do so again.
func (c *Corona) runOut(now time.Time) (next time.Time) {
	for len(c.out) > 0 {
		o := c.out[0]
		if late := o.asked.time().Add(patience); late.After(now) {
			return late
		}
		c.home(o.handle)
		if o.duty.waiting == o.handle {
			o.duty.waiting = 0
			c.stats.Late++
			c.due(o.duty, now)
		}
	}
	return time.Time{}
}

// answered takes the answer to a poll of the schedule. The next one is planned before
// anything comes of this one.
func (c *Corona) answered(d *duty, a env.Answer, r reading, verdict State, now time.Time) {
	d.waiting = 0
	if a.Err == env.ErrBusy {
		c.stats.Busy++
		c.plan(d, now.Add(busyFor/2+time.Duration(c.rand.Int64N(int64(busyFor)))), "other requests to its host go before")
		return
	}
	d.private = a.Private
	c.stats.Polls++
	if d.lead == nil && (r.page != nil || a.Status == 304) {
		d.watch(r.page, now)
	}
	if verdict.Kind != coronapb.State_OK {
		c.stats.Failed++
		c.failed(d, a, verdict, now)
		return
	}
	well := d.extra == nil || d.extra.ailment == nil
	if !well {
		d.extra.ailment = nil
	}
	from := d.asked.time().Add(min(slotSlack, d.grid.Interval/8)) // slots may move by milliseconds
	if least := d.asked.time().Add(c.scaled(floor) - d.grid.Interval/2); !d.private && least.After(from) {
		from = least
	}
	if now.After(from) {
		from = now
	}
	c.planSlot(d, from)
	l := d.lead
	if p := c.lone[d.key()]; p != nil && !p.ended && r.f != nil && r.page == nil {
		c.showAlone(p, r, verdict, now) // nobody may hear of it who would bring it to readers here
	}
	if r.f == nil && l == nil && well {
		c.stats.Unchanged++
		return
	}
	switch {
	case l != nil:
		c.read(l, env.Peer{}, r, now)
	case r.f != nil && d.isNews(&r, now):
		c.find(d, r, now)
	case !well:
		c.report(d, verdict, now)
	}
	if r.f == nil && l == nil {
		c.stats.Unchanged++
	}
}

// isNews says whether a document has an item that the sequencer may lack.
func (d *duty) isNews(r *reading, now time.Time) bool {
	if r.page != nil {
		return d.isNewVersion(r)
	}
	of := prints(r.f)
	s := d.standing
	if s == nil {
		return true
	}
	switch sum := digest(of); {
	case sum == s.digest:
		// A replica with validators of its own.
		d.standing = &standing{valid: r.valid, prints: of, digest: sum}
		return false
	case d.extra != nil && sum == d.extra.stale && now.Sub(d.extra.staleAt.time()) < doubted(d.private, d.grid.Interval):
		return false // after that a document is believed that was not
	case s.prints == nil:
		return true
	}
	return slices.ContainsFunc(of, func(p imprint) bool { return !slices.Contains(s.prints, p) })
}
