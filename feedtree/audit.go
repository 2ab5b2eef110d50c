package feedtree

import (
	"slices"
	"time"

	"tidings/feedtree/feedtreepb"
	"tidings/internal/env"
	"tidings/internal/plant"
	"tidings/overlay"
)

// An inquest is what one owner was asked in an audit and has not answered.
type inquest struct {
	keys []overlay.ID
	at   time.Time
}

const (
	// maxSought is for how many feeds owners are looked for in one look: their addresses are
	// not known, or those that are known do not answer. The others are looked for in the next.
	maxSought = 16
	// likelyOwners is how many of those found are asked where none of them is known to be an owner.
	likelyOwners = 3
	// maxReached bounds the owners whose addresses are remembered; at the bound all are forgotten.
	maxReached = 4096
)

// audit compares heads with owners, past all trees: each feed of which nothing certain was heard is
// compared with one of its owners, by the dice, once in an AuditInterval at least. What there is to
// ask one owner goes together, also what would be due only later. A node with 4,800 feeds in a network of a
// thousand so asks two owners a second at the most; one with a hundred, one in five seconds. A feed of which no
// parent keeps a log is compared each minute, and one that this node owns when nobody has spoken of it for half of
// the time after which it would count as cut off.
func (f *FeedTree) audit(now time.Time) {
	if plant.BlindToGaps {
		return
	}
	f.unanswered(now)
	asked := map[env.PeerID][]*channel{} // feeds that may be compared, by owner
	var due []*channel
	for _, c := range f.sorted() {
		if !c.subscribed || c.lead != nil {
			continue
		}
		within := f.cfg.AuditInterval
		if f.blind(c) {
			within = f.cfg.DigestInterval
		}
		v, ok := f.owners.View(c.key)
		certain := c.confirmed
		if v.Owns {
			// The sequencer sends an owner all entries, and nothing while there are none. The owner asks
			// another one before that silence would count as being cut off.
			within, certain = f.cfg.feedSilence()/2, c.heard
		}
		age := min(now.Sub(certain), now.Sub(c.audited))
		if !ok || v.Epoch == nil || age < within/2 || v.Owns && len(v.Epoch.Owners) == 1 {
			continue
		}
		for _, p := range v.Epoch.Owners {
			asked[p] = append(asked[p], c)
		}
		if age > within-f.cfg.DigestInterval*5/4 { // the next look would be too late
			due = append(due, c)
		}
	}
	sought := 0
	for _, c := range due {
		if c.audited.Equal(now) {
			continue
		}
		v, _ := f.owners.View(c.key)
		var near []env.Peer
		for _, p := range v.Epoch.Owners {
			if to := f.peer(p); len(to.Addrs) > 0 && !c.deserted && p != f.signer.PeerID() {
				near = append(near, to)
			}
		}
		if len(near) > 0 {
			who := near[f.rand.IntN(len(near))]
			f.inquire(who, asked[who.ID], now)
		} else if sought++; sought <= maxSought {
			f.seekOwners(c, now)
		}
	}
}

// inquire asks an owner how the logs of feeds end.
func (f *FeedTree) inquire(who env.Peer, of []*channel, now time.Time) {
	i := f.inquests[who.ID]
	if i == nil {
		i = &inquest{}
		f.inquests[who.ID] = i
	}
	i.at = now
	var heads []*feedtreepb.Head
	for _, c := range of {
		if !c.audited.Equal(now) {
			c.audited = now
			i.keys = append(i.keys, c.key)
			heads = append(heads, &feedtreepb.Head{Key: c.key[:], Head: f.head(c.key)})
		}
	}
	for chunk := range slices.Chunk(heads, maxHeads) {
		f.stats.Audits++
		f.send(who, &feedtreepb.Message{Body: &feedtreepb.Message_Heads{Heads: &feedtreepb.Heads{Heads: chunk}}})
	}
}

// seekOwners finds a feed's owners by way of its key, and asks one of them.
func (f *FeedTree) seekOwners(c *channel, now time.Time) {
	c.audited = now
	f.owners.FindOwners(c.key, func(found []*overlay.Contact) {
		// Owners come first, and then those who follow.
		v, _ := f.owners.View(c.key)
		owns := func(p *overlay.Contact) bool { return v.Epoch != nil && slices.Contains(v.Epoch.Owners, p.Peer.ID) }
		if known := slices.ContainsFunc(found, owns); known {
			found = slices.DeleteFunc(slices.Clone(found), func(p *overlay.Contact) bool { return !owns(p) })
		} else {
			found = slices.DeleteFunc(slices.Clone(found), func(p *overlay.Contact) bool { return p.Peer.ID == f.signer.PeerID() })
			found = found[:min(len(found), likelyOwners)]
		}
		if f.feeds[c.key] != c || !c.subscribed || len(found) == 0 {
			return
		}
		for _, p := range found {
			if len(f.reached) >= maxReached {
				clear(f.reached)
			}
			f.reached[p.Peer.ID] = p.Peer
		}
		c.deserted, c.audited = false, time.Time{}
		f.inquire(found[f.rand.IntN(len(found))].Peer, []*channel{c}, f.clock.Now())
	})
}

// unanswered gives up on owners who do not answer: those of the feeds that they were asked of are to be
// found anew, for there may be others now.
func (f *FeedTree) unanswered(now time.Time) {
	for who, i := range f.inquests {
		if now.Sub(i.at) < f.cfg.DigestInterval/2 {
			continue
		}
		for _, key := range i.keys {
			if c := f.feeds[key]; c != nil {
				c.deserted, c.audited = true, time.Time{}
			}
		}
		delete(f.reached, who)
		delete(f.inquests, who)
	}
}

// answeredBy notes that an owner has answered, and of which of the feeds that it was asked of it keeps
// no log any more.
func (f *FeedTree) answeredBy(who env.PeerID, unknown [][]byte) {
	i := f.inquests[who]
	delete(f.inquests, who)
	for _, k := range unknown {
		if c := f.feeds[overlay.ID(k)]; c != nil && i.of(c) {
			c.deserted, c.audited = true, time.Time{}
		}
	}
	if i == nil {
		return
	}
	for _, key := range i.keys {
		if c := f.feeds[key]; c != nil && c.subscribed && !slices.ContainsFunc(unknown, func(k []byte) bool { return overlay.ID(k) == key }) {
			f.heardOf(c)
		}
	}
}

// of says whether a feed is one that was asked of.
func (i *inquest) of(c *channel) bool { return i != nil && slices.Contains(i.keys, c.key) }

// blind says whether no parent of this node keeps a feed's log: what is compared with parents, and
// what rides along, shows nothing then. So it is below a member that only forwards, and at a root that
// does not own the feed: since a partition, perhaps, in which the owners were on the other side.
func (f *FeedTree) blind(c *channel) bool {
	return !slices.ContainsFunc(f.scribe.Parents(c.key), func(p *overlay.Contact) bool {
		l := f.links[p.Peer.ID]
		if l == nil {
			return true // it was not asked yet
		}
		_, unknown := l.unknown[c.key]
		return !unknown
	})
}

// mayKnow says whether a peer may say that this node is behind in a feed: a parent, an owner, or who was
// asked as one.
func (f *FeedTree) mayKnow(c *channel, peer env.PeerID) (owner, ok bool) {
	v, _ := f.owners.View(c.key)
	if f.inquests[peer].of(c) || v.Epoch != nil && slices.Contains(v.Epoch.Owners, peer) {
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
		log := f.owners.Visible(c.key)
		if len(log) == 0 {
			return // another log came, and nobody is sure of it yet
		}
		if last := log[len(log)-1]; isOwner && f.clock.Now().Sub(last.Time) > trialTime {
			f.stats.Unheard++
			f.try(c, last.Hash, last.At.Seq)
		}
		f.passOn(c)
	})
}

// followed returns the feed of a key of which this node may be behind, nil if it does not follow it, or is
// getting what it lacks just now. A repair may look for what nobody has, and rest for minutes.
func (f *FeedTree) followed(key []byte) *channel {
	if c := f.feeds[overlay.ID(key)]; c != nil && c.subscribed && (c.repair == nil || !c.repair.waiting) && !plant.BlindToGaps {
		return c
	}
	return nil
}
