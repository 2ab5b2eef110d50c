package feedtree

import (
	"encoding/binary"
	"slices"
	"time"

	"tidings/feedtree/feedtreepb"
	"tidings/internal/env"
	"tidings/internal/plant"
	"tidings/overlay"
	"tidings/overlay/owner"
)

// Each feed has a second tree, the shadow tree, which carries only heads: heartbeats in which the sequencer signs
// where the log ends now. The root of the shadow tree is elsewhere on the ring, so a node that withholds messages
// of one tree is usually not above a reader in the other.

const (
	// headPause is how long a sequencer waits for further entries before it publishes the head.
	headPause = time.Second
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
	// maxAnnounceAge is the largest age of a repaired entry that is announced to children.
	maxAnnounceAge = time.Hour
)

// shadowOf returns the group of a feed's shadow tree, which is the key plus half the ring. Applied to that group,
// it returns the key.
func shadowOf(key overlay.ID) overlay.ID {
	key[0] ^= 0x80
	return key
}

// messageID returns the id with which an entry, or its head, goes down a tree. It is the same for every node that
// publishes the entry.
func messageID(h owner.Hash) uint64 { return binary.BigEndian.Uint64(h[:8]) }

// These are the trees of a feed.
const (
	entryTree = iota
	headTree
	treeCount
)

func groupOf(key overlay.ID, tree int) overlay.ID {
	if tree == headTree {
		return shadowOf(key)
	}
	return key
}

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

// scheduleHead announces a new entry in the shadow tree after a short pause, together with entries that follow
// soon.
func (f *FeedTree) scheduleHead(c *channel) {
	if !c.leader.headScheduled {
		c.leader.headScheduled = true
		f.after(headPause, task{kind: taskHead, key: c.key})
	}
}

// publishHead announces in the shadow tree where the log ends.
func (f *FeedTree) publishHead(c *channel) {
	c.leader.headScheduled = false
	if b := f.signBeat(c); b != nil && b.seq > 0 {
		f.stats.Heads++
		payload := marshal(&feedtreepb.News{News: &feedtreepb.News_Beat{Beat: b.raw}})
		f.scribe.PublishWithID(shadowOf(c.key), messageID(owner.Hash(b.head)), payload, func(bool) {})
	}
}

// onHead handles a head that came down a shadow tree.
func (f *FeedTree) onHead(c *channel, raw []byte) error {
	key, b, err := f.openBeat(raw)
	if err != nil {
		return err
	}
	v, ok := f.owners.View(c.key)
	if key != c.key || b.seq == 0 || !ok || v.Epoch == nil || b.branch == v.Epoch.Branch && b.epoch < v.Epoch.Number {
		return nil
	}
	head := owner.Hash(b.head)
	switch now := b.branch == v.Epoch.Branch && b.epoch == v.Epoch.Number; {
	case now && b.signer == v.Epoch.Sequencer:
		if f.owners.Has(c.key, head) {
			c.confirmed = f.clock.Now()
			f.markHeard(c)
		}
		t := f.startProbation(c, head, b.seq)
		t.headSeq = max(t.headSeq, b.seq)
	case !now && slices.Contains(v.Epoch.Owners, b.signer):
		// The signer may have become sequencer since, or have been one on the other side of a partition. The nodes
		// that are asked know. Heads that others sign are ignored, because anybody could make any number of them.
		f.startProbation(c, head, b.seq).maybeUncommitted = head
	default:
		f.stats.Untrusted++
	}
	return nil
}

// startProbation starts a probation for an entry, unless one is running. A running one is followed by another for
// the latest entry.
func (f *FeedTree) startProbation(c *channel, want owner.Hash, seq uint64) *probation {
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
		t.parents[tree] = f.parentIn(groupOf(c.key, tree))
	}
	f.after(entryTimeout, task{kind: taskOverdueEntry, key: c.key})
	f.after(probationTime, task{kind: taskProbationEnd, key: c.key})
	return t
}

// parentIn returns the parent of this node in a group, or "" if it has none.
func (f *FeedTree) parentIn(group overlay.ID) env.PeerID {
	if above := f.scribe.Parents(group); len(above) > 0 {
		return above[0].Peer.ID
	}
	return ""
}

// pullOverdue pulls an entry whose head has arrived and which has not.
func (f *FeedTree) pullOverdue(c *channel) {
	if t := c.probation; t.running && !f.owners.Has(c.key, t.want) && c.subscribed {
		f.stats.Late++
		if t.want == t.maybeUncommitted {
			f.startRepair(c, owner.Hash{})
		} else {
			f.startRepair(c, t.want)
		}
	}
}

// endProbation checks whether both parents have delivered the entry and its head.
func (f *FeedTree) endProbation(c *channel) {
	t := c.probation
	t.running = false
	if !c.subscribed {
		return
	}
	if f.owners.Has(c.key, t.want) { // otherwise the entry may not exist
		_, brought := f.scribe.FirstSender(c.key, messageID(t.want))
		f.recordDelivery(c, entryTree, t.parents[entryTree], brought)
		f.recordDelivery(c, headTree, t.parents[headTree], t.headSeq >= t.seq)
	}
	if t.next != t.want {
		f.startProbation(c, t.next, t.nextSeq)
	}
}

// recordDelivery counts what a parent did not deliver, and leaves a parent that has missed too much.
func (f *FeedTree) recordDelivery(c *channel, tree int, parent env.PeerID, brought bool) {
	group := groupOf(c.key, tree)
	excused := parent == "" || parent != f.parentIn(group) || plant.IgnoreGaps
	if !c.probation.missed[tree].record(parent, brought || excused) || !f.scribe.Block(group, parent) {
		return
	}
	f.stats.Shunned++
	f.log.Info("left a parent that withholds items", "url", c.url, "peer", parent)
	now := f.clock.Now()
	s := f.reputations[parent]
	if now.Sub(s.since) > reputationTime {
		s = reputation{since: now}
	}
	if v, _ := f.owners.View(c.key); v.Epoch != nil && !slices.Contains(s.sequencers, v.Epoch.Sequencer) {
		s.sequencers = append(s.sequencers, v.Epoch.Sequencer)
		if len(s.sequencers) == maxMissed {
			f.leaveInAllTrees(parent)
		}
	}
	f.reputations[parent] = s
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
func (f *FeedTree) leaveInAllTrees(parent env.PeerID) {
	for _, c := range f.sorted() {
		for tree := range treeCount {
			if group := groupOf(c.key, tree); c.subscribed && f.parentIn(group) == parent && f.scribe.Block(group, parent) {
				f.stats.Shunned++
			}
		}
	}
}

// forgetReputations forgets parents that were left long ago.
func (f *FeedTree) forgetReputations(now time.Time) {
	for parent, s := range f.reputations {
		if now.Sub(s.since) > reputationTime {
			delete(f.reputations, parent)
		}
	}
}

// announceRepaired announces the last entry of a feed, which a repair has brought, to the nodes below this node.
// Nodes that are below it in both trees hear of the entry in no other way. They pull its body.
func (f *FeedTree) announceRepaired(c *channel) {
	log := f.owners.Visible(c.key)
	if len(log) == 0 || !c.subscribed {
		return
	}
	if e := log[len(log)-1]; f.clock.Now().Sub(e.Time) < maxAnnounceAge {
		update := &feedtreepb.Update{Entry: e.Raw}
		f.scribe.SendBelow(c.key, messageID(e.Hash), marshal(&feedtreepb.News{News: &feedtreepb.News_Update{Update: update}}))
	}
}
