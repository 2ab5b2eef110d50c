package corona

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"tidings/corona/coronapb"
	"tidings/difference"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/overlay"
	"tidings/overlay/wedge"
)

// leaderState is the state of a channel that this node is the sequencer of. The sequencer collects
// what pollers find and decides how many nodes poll.
type leaderState struct {
	channelBudget
	allocation
	estimates
	reporting
	committed
	health
	pacing
	pageState

	known      *difference.Known
	order      wedge.Order   // the last order to the channel's wedge; N = 0: there is none
	sentParams channelParams // parameters last sent to the wedge
	suspicion  suspicion
	moved      move // to where the feed has moved

	inherited inheritance

	lastRead env.Moment // when the channel last had readers
	servedAt env.Moment // when a member last had ranks of the channel, as far as this node knows
	ownFetch
	upkeepAt env.Moment // time of the next upkeep
	ceased   bool       // this node leads the channel no longer, or in another term
}

// ownFetch is a request of the sequencer itself, outside the schedule of polls.
type ownFetch struct {
	fetchedAt  env.Moment // when it was last made; Never: it was not, or it was not allowed
	fetching   env.Handle // its handle; 0: none is under way
	fetchAgain bool       // it was refused, because this node was busy
}

// An inheritance is a part of the record that the sequencer before left. Its interval holds until a document sets another one,
// and its readers count until the tree has formed again.
type inheritance struct {
	interval time.Duration
	weight   int
	pollers  int
}

// committed is the last document of which the log holds every item, and what is about to be.
type committed struct {
	valid         validators
	fingerprints  []fingerprint  // of the document that valid belongs to
	head          uint64         // its version, as in snapshot
	pastSnapshots []pastSnapshot // earlier snapshots, oldest first; at most maxPastSnapshots
	inFlight      int            // changes that are being judged or are on their way to a quorum
	waiters       []waiter       // pollers to answer when the log holds what they found
}

// health is how the polls of a channel go.
type health struct {
	state         State
	detail        string                       // what readers lack of the document
	stateSentAt   env.Moment                   // when subscribers last got a state
	failureSentAt env.Moment                   // when subscribers last got a state because another poller failed
	fails         int                          // consecutive failed polls
	failing       map[env.PeerID]failureReport // pollers whose last poll failed
	recoveredAt   env.Moment                   // the last report of a success since the last failure; Never: none
	failingTold   int                          // failing nodes, as pollers were last told
	limitedUntil  env.Moment                   // until when all pollers leave the origin alone
}

// pacing is how often one node polls a channel, and why.
type pacing struct {
	interval time.Duration
	why      string // the rule that set interval
	hints    feed.Hints
	maxAge   time.Duration // max-age of the last response
	private  bool          // the origin has a private address
	unpushed time.Duration // interval without the hub
	push     *pushing      // nil: its documents name no hub, and nobody has hinted at news
}

// pageState is the state of a channel that is a page.
type pageState struct {
	page    bool   // the channel is a page, not a feed
	judging bool   // a page view is being judged
	marks   string // of the page, as in the note
}

// validators are the HTTP validators of a document whose items are all in the log.
type validators struct{ etag, lastModified, url string }

// digest tells validators apart; it is never 0.
func (v validators) digest() uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%q", v)
	return h.Sum64() | 1
}

// suspicion is about documents that look as if another feed had replaced this one.
type suspicion struct {
	since env.Moment // Never: there is none
	first *feed.Feed // the first suspicious document; nil: only an earlier sequencer saw it
}

// failureReport is a poller's last report of a failed poll.
type failureReport struct {
	state    State
	at       time.Time
	declined bool // the poller has given its ranks to another member
}

// pastSnapshot is the digest of an earlier snapshot, and when it was replaced.
type pastSnapshot struct {
	digest uint64
	until  time.Time
}

// maxPastSnapshots bounds the earlier snapshots that are remembered. Replicas that lag further
// behind are rare.
const maxPastSnapshots = 4

// wait notes that a poller waits for an answer to its last report. Beyond maxWaiters a poller gets
// none and reports the same document again.
func (l *leaderState) wait(w waiter) {
	i := slices.IndexFunc(l.waiters, func(other waiter) bool { return other.to.ID == w.to.ID })
	switch {
	case i >= 0:
		l.waiters[i] = w
	case len(l.waiters) < maxWaiters:
		l.waiters = append(l.waiters, w)
	}
}

// maxWaiters bounds the pollers of one channel that wait for an answer.
const maxWaiters = 1024

// waiter is a poller that is answered when the log holds its news.
type waiter struct {
	to    env.Peer
	nonce uint64
}

// snapshot returns what pollers are told about the log; nil if there is nothing yet.
func (l *leaderState) snapshot() *snapshot {
	if l.fingerprints == nil && l.valid == (validators{}) {
		return nil
	}
	return &snapshot{valid: l.valid, fingerprints: l.fingerprints, digest: digest(l.fingerprints), head: l.head}
}

// snapshotMessage encodes the channel's snapshot in answer to the observation with a nonce.
func (l *leaderState) snapshotMessage(nonce uint64, now time.Time) *coronapb.Message {
	s := l.snapshot()
	if s == nil {
		s = &snapshot{}
	}
	return s.message(l.key, nonce, l.limitedUntil.Time().Sub(now), l.unreadable())
}

// couldPoll says whether a node can have a rank in the wedge of a channel that is led here. Ids
// near a key are cheap to make, so a node whose id falls into the leaf set must be a known member
// of it.
func (b *base) couldPoll(id overlay.ID, l *leaderState) bool {
	if leaf := b.node.Leaf(); leaf.Covers(id) && leaf.Has(id) == nil {
		return false
	}
	return b.couldBeNearest(id, l.key, l.pollers)
}

// readers is the number of clients of a channel. A new sequencer uses the earlier sequencer's count
// for two leases if that is larger, because the tree has to form again.
func (b *base) readers(l *leaderState) int {
	n := b.app.Weight(l.key)
	if b.clock.Now().Sub(l.since.Time()) < 2*b.cfg.MaintenanceInterval {
		n = max(n, l.inherited.weight)
	}
	return n
}

// note replicates what a new sequencer continues from.
func (b *base) note(l *leaderState) {
	n := note{
		valid: l.valid, interval: cmp.Or(l.unpushed, l.interval), State: l.state, fails: l.fails, weight: b.readers(l),
		pollers: l.pollers, ref: l.order.IntervalStart, updateRate: l.updateRate, meanBytes: l.meanBytes, grant: string(l.grant), private: l.private, marks: l.marks, move: l.moved, push: l.push, distrusted: l.distrusted,
	}
	record := n.append()
	if len(record) > maxNote {
		n.distrusted = nil
		record = n.append()
	}
	b.app.SetNote(l.key, record)
}
