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

// assignment is this node's part in the polls of a channel in whose wedge it has ranks. A node has
// thousands of assignments, most of them without trouble, so rarely used fields live in extra.
type assignment struct {
	// Fields that every poll touches come first.
	next        moment
	polledAt    moment
	waiting     env.Handle // handle of the poll in flight; 0: none
	target      *pollTarget
	domain      *domain      // nil: budgets are off, and the domain has not limited this node
	snapshot    *snapshot    // what the log holds; nil: this node was not told
	extra       *extra       // rarely used state; nil: none
	leader      *leaderState // nil: this node is not the channel's sequencer
	schedule    schedule
	index       uint32 // in Corona.assignments; the calendar refers to it
	polled      bool   // this node has polled the channel at least once
	private     bool
	randomPhase bool // this node drew its own phase
}

// extra is state that few assignments have.
type extra struct {
	permitState
	failure      *failure   // nil: the last poll succeeded, or there was none
	why          string     // the rule that set the next poll; empty: the interval
	limitedUntil moment     // until when all pollers leave the origin alone
	allowedAt    moment     // when the next poll is due by count; a poll may come up to maxAhead intervals earlier
	staleDigest  uint64     // digest of a lagging replica's document, which has no news; 0: none
	staleSince   moment     // when the sequencer answered the report of that document
	pageWatch    *pageWatch // nil: the channel is a feed, or was not fetched yet
}

// ensureExtra returns an assignment's extra, making one if there is none.
func (d *assignment) ensureExtra() *extra {
	if d.extra == nil {
		d.extra = &extra{}
	}
	return d.extra
}

// extras returns a copy of an assignment's extra for reading.
func (d *assignment) extras() extra {
	if d.extra == nil {
		return extra{}
	}
	return *d.extra
}

func (d *assignment) key() overlay.ID { return d.target.key }

// failure describes the failing polls of an assignment.
type failure struct {
	state        State
	fails        int
	reportedKind coronapb.State_Kind // the kind last reported to the sequencer,
	reportedAt   time.Time           // and when
}

// snapshot describes the last document of which the channel's log holds every item. It is
// immutable.
type snapshot struct {
	valid        validators
	fingerprints []fingerprint // nil: not known
	digest       uint64
}

// setSnapshot notes what the log holds, and until when all pollers leave the origin alone.
func (d *assignment) setSnapshot(s *snapshot, limitedUntil time.Time) {
	d.snapshot = s
	if at := momentOf(limitedUntil); at != d.extras().limitedUntil {
		d.ensureExtra().limitedUntil = at
	}
}

// maxGrace is how late a node may still poll a slot of a rank that it has just got. The slot may
// have passed while the node was being told.
const maxGrace = 10 * time.Second

// grace is maxGrace, or a small part of a short interval. A fixed grace would cause many extra
// polls at each change of ranks.
func (g *schedule) grace() time.Duration { return min(maxGrace, g.Interval/32) }

// slotSlack is how much a slot may move when the reference phase is measured anew.
const slotSlack = time.Second

// Valid says whether a payload is one that this node would poll by or pass on.
func (c *Corona) Valid(key overlay.ID, payload []byte) bool {
	s, _ := c.parsePayload(key, payload)
	return s != nil
}

// Handoff returns the snapshot that a newly enlisted node should know at once; nil if there is
// none.
func (c *Corona) Handoff(key overlay.ID) []byte {
	var s *snapshot
	var limitedUntil time.Time // only what the sequencer said; what this node alone has seen does not count
	if l := c.leaders[key]; l != nil {
		s, limitedUntil = l.snapshot(), l.limitedUntil
	} else if d := c.assignments.Get(key); d != nil {
		s, limitedUntil = d.snapshot, d.extras().limitedUntil.time()
	}
	if s == nil {
		return nil
	}
	return c.cfg.Payloads.snapshotMessage(key, s, limitedUntil.Sub(c.clock.Now()))
}

// Serve gives this node ranks of a channel, or changes the ranks that it has.
func (c *Corona) Serve(key overlay.ID, duty wedge.Assignment) {
	s, grant := c.parsePayload(key, duty.Payload)
	if s == nil {
		c.stats.Garbage++
		return
	}
	now := c.clock.Now()
	d := c.assignments.Get(key)
	if d == nil {
		d = c.addAssignment(assignment{target: s, leader: c.leaders[key], randomPhase: c.cfg.Random})
		if c.domains.budgeted {
			d.domain = c.domains.refer(s.domain, s.private)
			d.ensureExtra().allowedAt = c.permits.takeAllowed(key)
		}
		if d.randomPhase {
			d.schedule.Ref = momentOf(now.Add(-time.Duration(c.rand.Int64N(int64(duty.Interval)))))
		}
		if l := d.leader; l != nil {
			d.setSnapshot(l.snapshot(), l.limitedUntil)
			d.private, d.polledAt = l.private, momentOf(l.fetchedAt)
			if l.state.Kind != coronapb.State_OK && l.state.Kind != coronapb.State_NEW {
				d.ensureExtra().failure = &failure{state: l.state, fails: l.fails, reportedKind: l.state.Kind, reportedAt: now}
			}
		}
		if c.cfg.DAG {
			c.allocator.startDecisions(now)
		}
	}
	ref := d.schedule.Ref
	if d.schedule, d.target = scheduleOf(duty), s; d.randomPhase {
		d.schedule.Ref = ref
	}
	c.takeAssignmentGrant(d, grant)
	if d.waiting == 0 {
		c.planNextSlot(d, c.notBefore(d, now))
	}
}

// notBefore is the earliest time for the next poll of an assignment whose ranks have changed. A
// slot belongs to the node that has its rank when it comes, and nobody makes up for a slot that
// this node skips, so a node skips only if it polled a moment ago. A node without an earlier poll
// starts with the next slot: the sequencer is already fetching a new channel.
func (c *Corona) notBefore(d *assignment, now time.Time) time.Time {
	if d.polledAt == never {
		return now
	}
	from := now.Add(-d.schedule.grace())
	if last := d.polledAt.time().Add(d.schedule.minGap()); last.After(from) {
		from = last
	}
	if i := d.extras().failure; i != nil {
		until := i.state.Next.Add(-1)
		if i.state.Kind != coronapb.State_LIMITED {
			until = until.Add(-d.schedule.Interval / 2) // such a failure lasts longer than minutes
		}
		if until.After(from) {
			from = until
		}
	}
	return from
}

// Release ends this node's assignment for a channel.
func (c *Corona) Release(key overlay.ID) {
	if d := c.assignments.Get(key); d != nil {
		c.permits.keepAllowed(key, d.extras().allowedAt)
		if d.domain != nil {
			c.domains.release(d.domain)
		}
		c.assignments.Delete(key)
	}
}

// addAssignment stores an assignment. The calendar refers to it by its index.
func (c *Corona) addAssignment(of assignment) *assignment {
	d, slot := c.assignments.Put(of)
	d.index = slot
	return d
}

// due handles an assignment whose next poll is due.
func (c *Corona) due(d *assignment, now time.Time) {
	switch domain := c.domainOf(d); {
	case !d.private && domain != nil && domain.limitedUntil.after(now):
		at, _ := d.nextAllowed(domain.limitedUntil.time())
		c.plan(d, at, domain.name+" asks for fewer requests")
	case !d.private && d.extra != nil && d.extra.limitedUntil.after(now):
		at, _ := d.nextAllowed(d.extra.limitedUntil.time())
		c.plan(d, at, d.target.domain+" asks several nodes for fewer requests")
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
func (c *Corona) poll(d *assignment, now time.Time) {
	c.lastHandle++
	d.waiting, d.polledAt, d.polled = c.lastHandle, momentOf(now), true
	if c.domains.budgeted {
		d.chargePoll(now)
	}
	c.outstanding = append(c.outstanding, outstandingPoll{d, c.lastHandle, d.polledAt})
	url, isPage := feed.AtOrigin(d.target.url)
	r := env.Request{URL: url, Robots: isPage, Subscribers: d.target.params.readers}
	if s := d.snapshot; s != nil {
		r.ETag, r.LastModified, r.ValidatedURL = s.valid.etag, s.valid.lastModified, s.valid.url
	}
	c.setNext(d, d.nextSlot(now), "") // answered or checkOverdue plans the next poll
	c.fetcher.Fetch(c.lastHandle, r)
}

// outstandingPoll is a scheduled poll without an answer. Answers come in any order: an answered
// poll stays in the list, without an assignment, until it is the first.
type outstandingPoll struct {
	assignment *assignment
	handle     env.Handle
	askedAt    moment
}

// takeOutstanding takes the assignment of an outstanding poll; nil if the poll is not in the list.
func (c *Corona) takeOutstanding(h env.Handle) *assignment {
	i, ok := slices.BinarySearchFunc(c.outstanding, h, func(o outstandingPoll, h env.Handle) int { return cmp.Compare(o.handle, h) })
	if !ok {
		return nil
	}
	d := c.outstanding[i].assignment
	c.outstanding[i].assignment = nil
	c.trimOutstanding()
	return d
}

// trimOutstanding drops answered polls from the front of the list.
func (c *Corona) trimOutstanding() {
	n := 0
	for n < len(c.outstanding) && c.outstanding[n].assignment == nil {
		n++
	}
	if n == len(c.outstanding) {
		c.outstanding = c.outstanding[:0]
	} else {
		c.outstanding = c.outstanding[n:]
	}
}

// checkOverdue repeats polls whose answers never came, and returns the time of the next check.
func (c *Corona) checkOverdue(now time.Time) (next time.Time) {
	for len(c.outstanding) > 0 {
		o := c.outstanding[0]
		if late := o.askedAt.time().Add(answerTimeout); late.After(now) {
			return late
		}
		c.takeOutstanding(o.handle)
		if o.assignment.waiting == o.handle {
			o.assignment.waiting = 0
			c.stats.Late++
			c.due(o.assignment, now)
		}
	}
	return time.Time{}
}

// answered takes the answer to a scheduled poll. It plans the next poll before it evaluates this
// one.
func (c *Corona) answered(d *assignment, a env.Answer, r observation, verdict State, now time.Time) {
	d.waiting = 0
	if a.Err == env.ErrBusy {
		c.stats.Busy++
		c.plan(d, now.Add(busyRetry/2+time.Duration(c.rand.Int64N(int64(busyRetry)))), "waiting for other requests to its host")
		return
	}
	d.private = a.Private
	c.stats.Polls++
	if d.leader == nil && (r.page != nil || a.Status == 304) {
		d.updatePageWatch(r.page, now)
	}
	if verdict.Kind != coronapb.State_OK {
		c.stats.Failed++
		c.failed(d, a, verdict, now)
		return
	}
	well := d.extra == nil || d.extra.failure == nil
	if !well {
		d.extra.failure = nil
	}
	from := d.polledAt.time().Add(min(slotSlack, d.schedule.Interval/8)) // slots may move by milliseconds
	if least := d.polledAt.time().Add(c.scaled(minPublicInterval) - d.schedule.Interval/2); !d.private && least.After(from) {
		from = least
	}
	if now.After(from) {
		from = now
	}
	c.planNextSlot(d, from)
	l := d.leader
	if p := c.lonePolls[d.key()]; p != nil && !p.ended && r.f != nil && r.page == nil {
		c.showAlone(p, r, verdict, now) // this node may be cut off from every node that would distribute the document to its readers
	}
	if r.f == nil && l == nil && well {
		c.stats.Unchanged++
		return
	}
	switch {
	case l != nil:
		c.takeObservation(l, env.Peer{}, r, now)
	case r.f != nil && d.hasNews(&r, now):
		c.reportChange(d, r, now)
	case !well:
		c.reportStatus(d, verdict, now)
	}
	if r.f == nil && l == nil {
		c.stats.Unchanged++
	}
}

// hasNews says whether a document has an item that the sequencer may lack.
func (d *assignment) hasNews(r *observation, now time.Time) bool {
	if r.page != nil {
		return d.isNewVersion(r)
	}
	of := fingerprintsOf(r.f)
	s := d.snapshot
	if s == nil {
		return true
	}
	switch sum := digest(of); {
	case sum == s.digest:
		// This is the same document from a replica with its own validators.
		d.snapshot = &snapshot{valid: r.valid, fingerprints: of, digest: sum}
		return false
	case d.extra != nil && sum == d.extra.staleDigest && now.Sub(d.extra.staleSince.time()) < suspicionPeriodOf(d.private, d.schedule.Interval):
		return false // after the suspicion period the sequencer accepts such a document
	case s.fingerprints == nil:
		return true
	}
	return slices.ContainsFunc(of, func(p fingerprint) bool { return !slices.Contains(s.fingerprints, p) })
}
