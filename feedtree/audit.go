package feedtree

import (
	"slices"
	"time"

	"tidings/feedtree/feedtreepb"
	"tidings/internal/env"
	"tidings/internal/plant"
	"tidings/overlay"
)

// audit compares heads with owners, past all trees: each feed of which nothing certain was heard is
// compared with one of its owners, by the dice, once in an AuditInterval at least. What there is to
// ask one owner goes together, also what would be due only later. A node with 4,800 feeds in a network of a
// thousand so asks one owner in a second; one with a hundred, one in six.
func (f *FeedTree) audit(now time.Time) {
	if plant.BlindToGaps {
		return
	}
	owned := map[env.PeerID][]*channel{} // feeds that may be compared, by owner
	var due []*channel
	for _, c := range f.sorted() {
		if !c.subscribed || c.lead != nil || c.repair != nil {
			continue
		}
		v, ok := f.owners.View(c.key)
		age := min(now.Sub(c.confirmed), now.Sub(c.audited))
		if !ok || v.Epoch == nil || v.Owns || age < f.cfg.AuditInterval/2 {
			continue
		}
		for _, p := range v.Epoch.Owners {
			owned[p] = append(owned[p], c)
		}
		if age > f.cfg.AuditInterval-f.cfg.DigestInterval*5/4 { // the next look would be too late
			due = append(due, c)
		}
	}
	for _, c := range due {
		if c.audited.Equal(now) {
			continue
		}
		v, _ := f.owners.View(c.key)
		who := v.Epoch.Owners[f.rand.IntN(len(v.Epoch.Owners))]
		var heads []*feedtreepb.Head
		for _, c := range owned[who] {
			if !c.audited.Equal(now) {
				c.audited = now
				heads = append(heads, &feedtreepb.Head{Key: c.key[:], Head: f.head(c.key)})
			}
		}
		for chunk := range slices.Chunk(heads, maxHeads) {
			f.stats.Audits++
			f.send(f.peer(who), &feedtreepb.Message{Body: &feedtreepb.Message_Heads{Heads: &feedtreepb.Heads{Heads: chunk}}})
		}
	}
}

// mayKnow says whether a peer may say that this node is behind in a feed: a parent, whom it has asked,
// or an owner.
func (f *FeedTree) mayKnow(c *channel, peer env.PeerID) (owner, ok bool) {
	v, _ := f.owners.View(c.key)
	if v.Epoch != nil && slices.Contains(v.Epoch.Owners, peer) {
		return true, true
	}
	return false, f.isParent(c.key, peer)
}

// catchUp gets what a peer has beyond what is here. If that is an owner's, and it is there for longer than
// the trees take, the parents have withheld it.
func (f *FeedTree) catchUp(c *channel, peer env.PeerID, isOwner bool) {
	before := f.head(c.key)
	f.owners.Pull(f.peer(peer), c.key, func(bool) {
		if f.feeds[c.key] != c || !c.subscribed || f.head(c.key) == before {
			return
		}
		log := f.owners.Shown(c.key)
		if last := log[len(log)-1]; isOwner && f.clock.Now().Sub(last.Time) > trialTime {
			f.stats.Unheard++
			f.try(c, last.Hash, last.At.Seq)
		}
		f.passOn(c)
	})
}

// followed returns the feed of a key of which this node may be behind, nil if it does not follow it, or is
// getting what it lacks already.
func (f *FeedTree) followed(key []byte) *channel {
	if c := f.feeds[overlay.ID(key)]; c != nil && c.subscribed && c.repair == nil && !plant.BlindToGaps {
		return c
	}
	return nil
}
