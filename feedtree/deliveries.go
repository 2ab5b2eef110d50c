package feedtree

import (
	"maps"
	"slices"
	"time"

	"tidings/feedtree/feedtreepb"
	"tidings/internal/env"
	"tidings/overlay"
	"tidings/overlay/owner"
)

// deliveries handles what comes down the two trees of a feed, and leaves parents that withhold it.
//
// The second tree, the shadow tree, carries only heads: heartbeats in which the sequencer signs
// where the log ends now. The root of the shadow tree is elsewhere on the ring, so a node that withholds messages
// of one tree is usually not above a reader in the other.
type deliveries struct {
	*common
	cutOffs     *cutOffs
	repairer    *repairer
	heartbeats  *heartbeats
	reputations map[env.PeerID]reputation // of parents that this node left
	overdue     plans                     // feeds of which an entry may be late
	ends        plans                     // feeds whose probation ends
}

func newDeliveries(m *common, cutOffs *cutOffs, repairer *repairer, heartbeats *heartbeats) *deliveries {
	dv := &deliveries{common: m, cutOffs: cutOffs, repairer: repairer, heartbeats: heartbeats, reputations: map[env.PeerID]reputation{}}
	dv.overdue, dv.ends = m.feedPlans(dv.pullOverdue), m.feedPlans(dv.endProbation)
	return dv
}

const (
	// entryTimeout is how long after its head an entry may arrive. Then it is pulled.
	entryTimeout = 5 * time.Second
	// probationTime is how long parents have to deliver an entry or a head. It leaves time for a parent that had to
	// repair the entry itself.
	probationTime = 2 * entryTimeout
	// maxMissed is the number of entries, or heads, in a row that a parent may fail to deliver before this node
	// leaves it in that tree. A parent that was left in feeds of as many sequencers is left in all trees.
	maxMissed = 3
	// reputationTime is how long this node remembers that it left a parent.
	reputationTime = time.Hour
)

// A probation checks which parents deliver one entry and its head. A sequencer that subscribes takes part: a parent
// that does not deliver its own entries to it is of no use to the nodes below.
type probation struct {
	want    owner.Hash // the entry in question
	seq     uint64
	parents [treeCount]env.PeerID // at the start of the probation; "": no parent
	running bool
	next    owner.Hash // the last entry that was heard of since
	nextSeq uint64
	headSeq uint64 // number of the last entry whose head has arrived

	// maybeUncommitted is an entry that possibly was never committed.
	maybeUncommitted owner.Hash

	missed [treeCount]missedDeliveries
}

// A missedDeliveries counts the entries, or heads, in a row that one parent did not deliver.
type missedDeliveries struct {
	parent env.PeerID
	n      int
}

// A reputation lists the sequencers in whose feeds this node recently left a parent. One sequencer alone can make
// parents look as if they withheld what it never gave them.
type reputation struct {
	sequencers []env.PeerID
	since      time.Time
}

// onUpdate handles an entry that came down a tree.
func (dv *deliveries) onUpdate(key overlay.ID, u *feedtreepb.Update) {
	c := dv.feeds[key]
	if c == nil || !c.subscribed {
		return
	}
	dv.stats.Received++
	e, result := dv.owners.Offer(u.Entry, u.Body, u.Epoch, func(e *owner.Entry) {
		// Where the parents keep no log, nothing else would show the gap.
		if dv.feeds[key] == c {
			dv.repairer.start(c, e.Hash)
		}
	})
	switch {
	case e == nil || e.Key != key || result == owner.Refused:
		dv.stats.Garbage++
		dv.refusals.add(Refusal{URL: c.url, Why: "a message in the feed's tree is not an entry signed by its sequencer"})
	case result == owner.Gap:
		dv.repairer.start(c, e.Hash)
	case result == owner.OtherBranch:
	default:
		if result == owner.Known {
			dv.stats.Repeated++
		}
		dv.cutOffs.markCertain(c)
		dv.startProbation(c, e.Hash, e.At.Seq)
		dv.note(c, e, result == owner.Known)
	}
}

// A Delivery says how an entry of a feed's log came down the feed's tree to this node.
type Delivery struct {
	Items   int        // new and edited items in the entry
	Written time.Time  // when the sequencer appended the entry, by its clock
	Arrived time.Time  // when it came down the tree, by this node's clock
	From    env.PeerID // the peer that brought it first; "": this node is the root of the tree
	Known   bool       // this node had the entry already, because it keeps the log as an owner or had pulled the entry
}

// note remembers the last delivery with items.
func (dv *deliveries) note(c *channel, e *owner.Entry, known bool) {
	if e.Items == 0 || c.delivery != nil && !e.Time.After(c.delivery.Written) {
		return
	}
	from, _ := dv.scribe.FirstSender(c.key, messageID(e.Hash))
	c.delivery = &Delivery{Items: e.Items, Written: e.Time, Arrived: dv.clock.Now(), From: from, Known: known}
}

// LastDelivery returns the last delivery with items of a feed that this node follows; ok is false if there was none since the
// node started.
func (dv *deliveries) LastDelivery(key overlay.ID) (d Delivery, ok bool) {
	if c := dv.feeds[key]; c != nil && c.delivery != nil {
		return *c.delivery, true
	}
	return Delivery{}, false
}

// onHead handles a head that came down a shadow tree.
func (dv *deliveries) onHead(c *channel, raw []byte) error {
	key, b, err := dv.heartbeats.open(raw)
	if err != nil {
		return err
	}
	v, ok := dv.owners.View(c.key)
	if key != c.key || b.seq == 0 || !ok || v.Epoch == nil || b.branch == v.Epoch.Branch && b.epoch < v.Epoch.Number {
		return nil
	}
	head := owner.Hash(b.head)
	switch now := b.branch == v.Epoch.Branch && b.epoch == v.Epoch.Number; {
	case now && b.signer == v.Epoch.Sequencer:
		if dv.owners.Has(c.key, head) {
			dv.cutOffs.markCertain(c)
		}
		t := dv.startProbation(c, head, b.seq)
		t.headSeq = max(t.headSeq, b.seq)
	case !now && slices.Contains(v.Epoch.Owners, b.signer):
		// The signer may have become sequencer since, or have been one on the other side of a partition. The nodes
		// that are asked know. Heads that others sign are ignored, because anybody could make any number of them.
		dv.startProbation(c, head, b.seq).maybeUncommitted = head
	default:
		dv.stats.Untrusted++
	}
	return nil
}

// startProbation starts a probation for an entry, unless one is running. A running one is followed by another for
// the latest entry.
func (dv *deliveries) startProbation(c *channel, want owner.Hash, seq uint64) *probation {
	t := c.probation
	if t == nil {
		t = &probation{}
		c.probation = t
	}
	t.next, t.nextSeq = want, seq
	if t.running || t.want == want {
		return t
	}
	t.want, t.seq, t.running = want, seq, true
	for tree := range t.parents {
		t.parents[tree] = dv.parentIn(groupOf(c.key, tree))
	}
	dv.overdue.add(dv.after(entryTimeout), c.key)
	dv.ends.add(dv.after(probationTime), c.key)
	return t
}

// pullOverdue pulls an entry that has not arrived although its head has.
func (dv *deliveries) pullOverdue(c *channel) {
	if t := c.probation; t != nil && t.running && !dv.owners.Has(c.key, t.want) && c.subscribed {
		dv.stats.Late++
		if t.want == t.maybeUncommitted {
			dv.repairer.start(c, owner.Hash{})
		} else {
			dv.repairer.start(c, t.want)
		}
	}
}

// endProbation checks whether both parents have delivered the entry and its head.
func (dv *deliveries) endProbation(c *channel) {
	t := c.probation
	if t == nil {
		return
	}
	if t.running = false; !c.subscribed {
		return
	}
	if dv.owners.Has(c.key, t.want) { // otherwise the entry may not exist
		_, brought := dv.scribe.FirstSender(c.key, messageID(t.want))
		dv.recordDelivery(c, entryTree, t.parents[entryTree], brought)
		dv.recordDelivery(c, headTree, t.parents[headTree], t.headSeq >= t.seq)
	}
	switch {
	case t.next != t.want:
		dv.startProbation(c, t.next, t.nextSeq)
	case t.parents == [treeCount]env.PeerID{}: // this node is the root of both trees, and there is nobody to judge
		c.probation = nil
	}
}

// recordDelivery counts what a parent did not deliver, and leaves a parent that has missed too much.
func (dv *deliveries) recordDelivery(c *channel, tree int, parent env.PeerID, brought bool) {
	group := groupOf(c.key, tree)
	excused := parent == "" || parent != dv.parentIn(group)
	if !c.probation.missed[tree].record(parent, brought || excused) || !dv.scribe.Block(group, parent) {
		return
	}
	dv.stats.ParentsLeft++
	dv.log.Info("left a parent that withholds items", "url", c.url, "peer", parent)
	now := dv.clock.Now()
	s := dv.reputations[parent]
	if now.Sub(s.since) > reputationTime {
		s = reputation{since: now}
	}
	if v, _ := dv.owners.View(c.key); v.Epoch != nil && !slices.Contains(s.sequencers, v.Epoch.Sequencer) {
		s.sequencers = append(s.sequencers, v.Epoch.Sequencer)
		if len(s.sequencers) == maxMissed {
			dv.leaveInAllTrees(parent)
		}
	}
	dv.reputations[parent] = s
}

// record counts a delivery or a failure, and reports whether the parent is to be left. A new parent does not
// inherit the failures of the one before.
func (s *missedDeliveries) record(parent env.PeerID, brought bool) (out bool) {
	if brought {
		s.n = 0
		return false
	}
	if s.parent != parent {
		*s = missedDeliveries{parent: parent}
	}
	if s.n++; s.n < maxMissed {
		return false
	}
	s.n = 0
	return true
}

// leaveInAllTrees leaves a parent in all trees.
func (dv *deliveries) leaveInAllTrees(parent env.PeerID) {
	for _, c := range dv.feeds.sorted() {
		for tree := range treeCount {
			if group := groupOf(c.key, tree); c.subscribed && dv.parentIn(group) == parent && dv.scribe.Block(group, parent) {
				dv.stats.ParentsLeft++
			}
		}
	}
}

// forgetReputations forgets parents that were left long ago.
func (dv *deliveries) forgetReputations(now time.Time) {
	maps.DeleteFunc(dv.reputations, func(_ env.PeerID, s reputation) bool { return now.Sub(s.since) > reputationTime })
}
