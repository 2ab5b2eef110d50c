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

// A feed has a second tree, its shadow, for heads alone: the sequencer signs where the log ends now,
// as in a heartbeat. Its root stands elsewhere on the ring, so that who swallows what comes
// down one tree is mostly not in the way of the other.

const (
	// headPause is how long a sequencer waits for more entries before it tells of the last.
	headPause = time.Second
	// headPatience is how much longer than its head an entry may take: then it is pulled.
	headPatience = 5 * time.Second
	// trialTime is how long a parent has to bring what there is. A parent that got it by a repair
	// has passed it on by then.
	trialTime = 2 * headPatience
	// strikesOut is how often in a row a parent may not have brought an entry, or a head, before it
	// is left; and in the feeds of how many sequencers before it is left in all.
	strikesOut = 3
	// scoreFor is how long it is remembered that a parent was left.
	scoreFor = time.Hour
	// passOnFor is how old an entry may be that is passed on after it was repaired.
	passOnFor = time.Hour
)

// shadowOf is the group of a feed's shadow tree, and the other way round: the key with its first
// digit turned by half the ring.
func shadowOf(key overlay.ID) overlay.ID {
	key[0] ^= 0x80
	return key
}

// idOf is the id with which an entry, or its head, goes down a tree, whoever gives it to it.
func idOf(h owner.Hash) uint64 { return binary.BigEndian.Uint64(h[:8]) }

// The trees of a feed.
const (
	entries = iota
	heads
	trees
)

func groupOf(key overlay.ID, tree int) overlay.ID {
	if tree == heads {
		return shadowOf(key)
	}
	return key
}

// A trial watches who brings one entry of a feed: by both trees it is to come. The sequencer does so
// too, if it subscribes: whom it does not get its own words from is no use to those below it.
type trial struct {
	want    owner.Hash // of the entry
	seq     uint64
	parents [trees]env.PeerID // when it began; "": there is none
	running bool
	next    owner.Hash // the last entry that there is, as was heard meanwhile
	nextSeq uint64
	headed  uint64 // up to which entry its heads have come

	// doubtful is an entry that may never have been held by a quorum.
	doubtful owner.Hash

	strikes [trees]strikes
}

// strikes are the entries, or heads, in a row that one parent has not brought.
type strikes struct {
	parent env.PeerID
	n      int
}

// A score says in whose feeds a parent was left of late: a sequencer alone can make it seem that
// parents withhold what it has given to nobody.
type score struct {
	sequencers []env.PeerID
	since      time.Time
}

// headSoon tells of a new entry in the shadow tree, together with others that come soon.
func (f *FeedTree) headSoon(c *channel) {
	if !c.lead.heading {
		c.lead.heading = true
		f.after(headPause, task{kind: taskHead, key: c.key})
	}
}

// sayHead tells in the shadow tree where the log ends.
func (f *FeedTree) sayHead(c *channel) {
	c.lead.heading = false
	if b := f.signBeat(c); b != nil && b.seq > 0 {
		f.stats.Heads++
		payload := marshal(&feedtreepb.News{News: &feedtreepb.News_Beat{Beat: b.raw}})
		f.scribe.PublishWithID(shadowOf(c.key), idOf(owner.Hash(b.head)), payload, func(bool) {})
	}
}

// onHead takes a head that came down a shadow tree.
func (f *FeedTree) onHead(c *channel, raw []byte) error {
	key, b, err := f.openBeat(raw)
	if err != nil {
		return err
	}
	v, ok := f.owners.View(c.key)
	if key != c.key || b.seq == 0 || !ok || v.Epoch == nil || b.lineage == v.Epoch.Branch && b.epoch < v.Epoch.Number {
		return nil
	}
	head := owner.Hash(b.head)
	switch now := b.lineage == v.Epoch.Branch && b.epoch == v.Epoch.Number; {
	case now && b.signer == v.Epoch.Sequencer:
		if f.owners.Has(c.key, head) {
			c.confirmed = f.clock.Now()
			f.heardOf(c)
		}
		t := f.try(c, head, b.seq)
		t.headed = max(t.headed, b.seq)
	case !now && slices.Contains(v.Epoch.Owners, b.signer):
		// An owner may lead by now, or have done so on the other side of a partition: who is asked says
		// whether that is true. Of others everybody could make any number.
		f.try(c, head, b.seq).doubtful = head
	default:
		f.stats.Untrusted++
	}
	return nil
}

// try watches who brings an entry that there is, if nothing is watched now.
func (f *FeedTree) try(c *channel, want owner.Hash, seq uint64) *trial {
	t := c.trial
	if t == nil {
		t = &trial{}
		c.trial = t
	}
	t.next, t.nextSeq = want, seq
	if t.running || t.want == want {
		return t
	}
	t.want, t.seq, t.running = want, seq, true
	for tree := range t.parents {
		t.parents[tree] = f.parentIn(groupOf(c.key, tree))
	}
	f.after(headPatience, task{kind: taskLate, key: c.key})
	f.after(trialTime, task{kind: taskJudge, key: c.key})
	return t
}

// parentIn is the parent of this node in a group, "" if it has none.
func (f *FeedTree) parentIn(group overlay.ID) env.PeerID {
	if above := f.scribe.Parents(group); len(above) > 0 {
		return above[0].Peer.ID
	}
	return ""
}

// late gets an entry whose head has come and which has not.
func (f *FeedTree) late(c *channel) {
	if t := c.trial; t.running && !f.owners.Has(c.key, t.want) && c.subscribed {
		f.stats.Late++
		if t.want == t.doubtful {
			f.gap(c, owner.Hash{})
		} else {
			f.gap(c, t.want)
		}
	}
}

// judge looks whether both parents have brought what there is.
func (f *FeedTree) judge(c *channel) {
	t := c.trial
	t.running = false
	if !c.subscribed {
		return
	}
	if f.owners.Has(c.key, t.want) { // or it is only said to be
		_, brought := f.scribe.FirstSender(c.key, idOf(t.want))
		f.score(c, entries, t.parents[entries], brought)
		f.score(c, heads, t.parents[heads], t.headed >= t.seq)
	}
	if t.next != t.want {
		f.try(c, t.next, t.nextSeq)
	}
}

// score counts what a parent has not brought, and leaves one that never does.
func (f *FeedTree) score(c *channel, tree int, parent env.PeerID, brought bool) {
	group := groupOf(c.key, tree)
	excused := parent == "" || parent != f.parentIn(group) || plant.BlindToGaps
	if !c.trial.strikes[tree].count(parent, brought || excused) || !f.scribe.Block(group, parent) {
		return
	}
	f.stats.Shunned++
	f.log.Info("left a parent that withholds items", "url", c.url, "peer", parent)
	now := f.clock.Now()
	s := f.scores[parent]
	if now.Sub(s.since) > scoreFor {
		s = score{since: now}
	}
	if v, _ := f.owners.View(c.key); v.Epoch != nil && !slices.Contains(s.sequencers, v.Epoch.Sequencer) {
		s.sequencers = append(s.sequencers, v.Epoch.Sequencer)
		if len(s.sequencers) == strikesOut {
			f.leaveAll(parent)
		}
	}
	f.scores[parent] = s
}

// count takes what a parent has brought or has not, and says whether it is to be left. What the one
// before it has not brought counts against nobody else.
func (s *strikes) count(parent env.PeerID, brought bool) (out bool) {
	if brought {
		s.n = 0
		return false
	}
	if s.parent != parent {
		*s = strikes{parent: parent}
	}
	if s.n++; s.n < strikesOut {
		return false
	}
	s.n = 0
	return true
}

// leaveAll leaves a parent in all trees.
func (f *FeedTree) leaveAll(parent env.PeerID) {
	for _, c := range f.sorted() {
		for tree := range trees {
			if group := groupOf(c.key, tree); c.subscribed && f.parentIn(group) == parent && f.scribe.Block(group, parent) {
				f.stats.Shunned++
			}
		}
	}
}

// forgive forgets who was left long ago.
func (f *FeedTree) forgive(now time.Time) {
	for who, s := range f.scores {
		if now.Sub(s.since) > scoreFor {
			delete(f.scores, who)
		}
	}
}

// passOn tells those below this node of the last entry of a feed, which it has got by a
// repair: no other way leads to those who are below it in both trees. They pull its body.
func (f *FeedTree) passOn(c *channel) {
	log := f.owners.Visible(c.key)
	if len(log) == 0 || !c.subscribed {
		return
	}
	if e := log[len(log)-1]; f.clock.Now().Sub(e.Time) < passOnFor {
		update := &feedtreepb.Update{Entry: e.Raw}
		f.scribe.SendBelow(c.key, idOf(e.Hash), marshal(&feedtreepb.News{News: &feedtreepb.News_Update{Update: update}}))
	}
}
