package corona

import (
	"slices"
	"time"

	"tidings/corona/coronapb"
	"tidings/difference"
	"tidings/internal/env"
	"tidings/overlay"
)

// assignment is this node's part in the polls of a channel in whose wedge it has ranks. A node has
// thousands of assignments, most of them without trouble, so rarely used fields live in extra.
type assignment struct {
	// Fields that every poll touches come first.
	next        env.Moment
	polledAt    env.Moment
	waiting     env.Handle // handle of the poll in flight; 0: none
	target      *pollTarget
	domain      *domain   // nil: budgets are off, and the domain has not limited this node
	snapshot    *snapshot // what the log holds; nil: this node was not told
	extra       *extra    // rarely used state; nil: none
	schedule    schedule
	fetched     uint64 // digest of the validators of the last document that this node has fetched itself; 0: none
	index       uint32 // in poller.assignments; the calendar refers to it
	led         bool   // this node is the channel's sequencer
	polled      bool   // this node has polled the channel at least once
	private     bool
	randomPhase bool // this node drew its own phase
}

// extra is state that few assignments have.
type extra struct {
	permitState
	failure      *failure   // nil: the last poll succeeded, or there was none
	why          string     // the rule that set the next poll; empty: the interval
	limitedUntil env.Moment // until when all pollers leave the origin alone
	failing      int        // nodes whose polls fail, as the sequencer last said; 0: other nodes can read the channel
	allowedAt    env.Moment // when the next poll is due by count; a poll may come up to maxAhead intervals earlier
	staleDigest  uint64     // digest of a lagging replica's document and head, which are no news; 0: none
	staleSince   env.Moment // when the sequencer answered the report of that document
	inFull       bool       // the next poll fetches the document even if the log has it, because this node was to look
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
	declined     bool                // the ranks go to another member
}

// snapshot describes the last document of which the channel's log holds every item, and the head. It
// is immutable.
type snapshot struct {
	valid        validators
	fingerprints []fingerprint // nil: not known
	digest       uint64
	head         uint64 // difference.HeadVersion; 0: other heads are no news
}

// coversHead says whether a version of a head is no news.
func (s *snapshot) coversHead(version uint64) bool { return s.head == 0 || s.head == version }

// setSnapshot notes what the log holds, and until when all pollers leave the origin alone.
func (d *assignment) setSnapshot(s *snapshot, limitedUntil env.Moment) {
	d.snapshot = s
	if limitedUntil != d.extras().limitedUntil {
		d.ensureExtra().limitedUntil = limitedUntil
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

// lacks says whether a document lacks an item of the snapshot between two that it has, or all of them: the origin may
// have withdrawn it.
func lacks(of, snapshot []fingerprint) bool {
	has := make(map[[16]byte]bool, len(of))
	for _, p := range of {
		has[p.id] = true
	}
	some, missing := false, false
	for _, p := range snapshot {
		switch {
		case !has[p.id]:
			missing = some
		case missing:
			return true
		default:
			some = true
		}
	}
	return len(of) == 0 && len(snapshot) > 0
}

// hasNews says whether a document has an item or a head that the sequencer may lack, or lacks an item that it may have
// withdrawn.
func (d *assignment) hasNews(r *observation, now time.Time) bool {
	if r.page != nil {
		return d.isNewVersion(r)
	}
	of := fingerprintsOf(r.f)
	s := d.snapshot
	if s == nil {
		return true
	}
	head := difference.HeadVersion(&r.f.Head)
	if r.partial { // which may lack something
		head = s.head
	}
	switch sum := digest(of); {
	case sum == s.digest && s.coversHead(head):
		// This is the same document from a replica with its own validators.
		d.snapshot = &snapshot{valid: r.valid, fingerprints: of, digest: sum, head: s.head}
		return false
	case d.extra != nil && sum^head == d.extra.staleDigest && now.Sub(d.extra.staleSince.Time()) < SuspicionPeriod(d.private, d.schedule.Interval):
		return false // after the suspicion period the sequencer accepts such a document
	case s.fingerprints == nil || !s.coversHead(head):
		return true
	}
	return lacks(of, s.fingerprints) || slices.ContainsFunc(of, func(p fingerprint) bool {
		return !slices.ContainsFunc(s.fingerprints, func(known fingerprint) bool { return known.covers(p) })
	})
}
