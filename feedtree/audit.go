package feedtree

import (
	"slices"
	"time"

	"tidings/feedtree/feedtreepb"
	"tidings/internal/env"
	"tidings/internal/plant"
	"tidings/overlay"
	"tidings/overlay/owner"
)

// A pendingAudit is the unanswered question of an audit to one owner.
type pendingAudit struct {
	keys   []overlay.ID
	sentAt time.Time
}

const (
	// maxOwnerLookups bounds the lookups of owners in one run of audits. Owners are looked up for feeds whose known
	// owners have no known address or do not answer. The remaining feeds wait for the next run.
	maxOwnerLookups = 16
	// ownerCandidates is the number of nodes from a lookup that may be asked if none of them is known to be an
	// owner.
	ownerCandidates = 3
	// maxOwnerAddrs bounds the remembered addresses of owners. At the limit all are forgotten and looked up again.
	maxOwnerAddrs = 4096
)

// runAudits compares heads with owners, independently of all trees. Each feed about which nothing certain was heard
// is compared with a random one of its owners at least once in an AuditInterval. All feeds of one owner share a
// message, including those that would be due a little later: a node with 4,800 feeds in a network of a thousand
// asks two owners a second at most, and one with a hundred feeds asks one in five seconds.
//
// A feed of which no parent keeps a log is compared every DigestInterval. A feed that this node owns is compared
// after half of the silence that would make it count as cut off.
func (f *FeedTree) runAudits(now time.Time) {
	if plant.BlindToGaps {
		return
	}
	f.expireAudits(now)
	byOwner := map[env.PeerID][]*channel{} // feeds that may be compared, by owner
	var due []*channel
	for _, c := range f.sorted() {
		if !c.subscribed || c.leader != nil {
			continue
		}
		interval := f.cfg.AuditInterval
		if f.noParentKeepsLog(c) {
			interval = f.cfg.DigestInterval
		}
		v, ok := f.owners.View(c.key)
		lastCertain := c.confirmed
		if v.Owns {
			// The sequencer sends an owner every entry, but nothing while there are none. The owner asks another
			// one before that silence would count as being cut off.
			interval, lastCertain = f.cfg.feedSilence()/2, c.heardAt
		}
		age := min(now.Sub(lastCertain), now.Sub(c.auditedAt))
		if !ok || v.Epoch == nil || age < interval/2 || v.Owns && len(v.Epoch.Owners) == 1 {
			continue
		}
		for _, p := range v.Epoch.Owners {
			byOwner[p] = append(byOwner[p], c)
		}
		if age > interval-f.cfg.DigestInterval*5/4 { // the next run would be too late
			due = append(due, c)
		}
	}
	lookups := 0
	for _, c := range due {
		if c.auditedAt.Equal(now) {
			continue
		}
		v, _ := f.owners.View(c.key)
		var candidates []env.Peer
		for _, p := range v.Epoch.Owners {
			if to := f.peer(p); len(to.Addrs) > 0 && !c.ownersUnknown && p != f.signer.PeerID() {
				candidates = append(candidates, to)
			}
		}
		if len(candidates) > 0 {
			to := candidates[f.rand.IntN(len(candidates))]
			f.auditOwner(to, byOwner[to.ID], now)
		} else if lookups++; lookups <= maxOwnerLookups {
			f.auditByLookup(c, now)
		}
	}
}

// auditOwner asks an owner for the heads of feeds.
func (f *FeedTree) auditOwner(to env.Peer, channels []*channel, now time.Time) {
	i := f.pendingAudits[to.ID]
	if i == nil {
		i = &pendingAudit{}
		f.pendingAudits[to.ID] = i
	}
	i.sentAt = now
	var heads []*feedtreepb.Head
	for _, c := range channels {
		if !c.auditedAt.Equal(now) {
			c.auditedAt = now
			i.keys = append(i.keys, c.key)
			heads = append(heads, &feedtreepb.Head{Key: c.key[:], Head: f.logHead(c.key)})
		}
	}
	for chunk := range slices.Chunk(heads, maxHeads) {
		f.stats.Audits++
		f.send(to, &feedtreepb.Message{Body: &feedtreepb.Message_Heads{Heads: &feedtreepb.Heads{Heads: chunk}}})
	}
}

// auditByLookup looks up a feed's owners by its key, and asks one of them.
func (f *FeedTree) auditByLookup(c *channel, now time.Time) {
	c.auditedAt = now
	f.owners.FindOwners(c.key, func(answer owner.Found) {
		found := answer.Peers()
		// Known owners come first. Otherwise a few of the nodes found may be owners or followers.
		v, _ := f.owners.View(c.key)
		owns := func(p *overlay.Contact) bool { return v.Epoch != nil && slices.Contains(v.Epoch.Owners, p.Peer.ID) }
		if known := slices.ContainsFunc(found, owns); known {
			found = slices.DeleteFunc(slices.Clone(found), func(p *overlay.Contact) bool { return !owns(p) })
		} else {
			found = slices.DeleteFunc(slices.Clone(found), func(p *overlay.Contact) bool { return p.Peer.ID == f.signer.PeerID() })
			found = found[:min(len(found), ownerCandidates)]
		}
		if f.feeds[c.key] != c || !c.subscribed || len(found) == 0 {
			return
		}
		for _, p := range found {
			if len(f.ownerAddrs) >= maxOwnerAddrs {
				clear(f.ownerAddrs)
			}
			f.ownerAddrs[p.Peer.ID] = p.Peer
		}
		c.ownersUnknown, c.auditedAt = false, time.Time{}
		f.auditOwner(found[f.rand.IntN(len(found))].Peer, []*channel{c}, f.clock.Now())
	})
}

// expireAudits gives up on owners that do not answer. The owners of their feeds are looked up again, because there
// may be other owners now.
func (f *FeedTree) expireAudits(now time.Time) {
	for peer, i := range f.pendingAudits {
		if now.Sub(i.sentAt) < f.cfg.DigestInterval/2 {
			continue
		}
		for _, key := range i.keys {
			if c := f.feeds[key]; c != nil {
				c.ownersUnknown, c.auditedAt = true, time.Time{}
			}
		}
		delete(f.ownerAddrs, peer)
		delete(f.pendingAudits, peer)
	}
}

// auditAnswered records the answer of an owner. unknown lists the feeds whose log the owner does not keep any more.
func (f *FeedTree) auditAnswered(peer env.PeerID, unknown [][]byte) {
	i := f.pendingAudits[peer]
	delete(f.pendingAudits, peer)
	for _, k := range unknown {
		if c := f.feeds[overlay.ID(k)]; c != nil && i.covers(c) {
			c.ownersUnknown, c.auditedAt = true, time.Time{}
		}
	}
	if i == nil {
		return
	}
	for _, key := range i.keys {
		if c := f.feeds[key]; c != nil && c.subscribed && !slices.ContainsFunc(unknown, func(k []byte) bool { return overlay.ID(k) == key }) {
			f.markHeard(c)
		}
	}
}

// covers reports whether the audit asks about a feed. A nil audit covers none.
func (i *pendingAudit) covers(c *channel) bool { return i != nil && slices.Contains(i.keys, c.key) }

// noParentKeepsLog reports whether no parent of this node keeps a feed's log. Then digests and the heartbeats that
// come with them say nothing about the feed. That is the case below a member that only forwards, and at a root that
// does not own the feed, for instance because the owners were on the other side of a partition.
func (f *FeedTree) noParentKeepsLog(c *channel) bool {
	return !slices.ContainsFunc(f.scribe.Parents(c.key), func(p *overlay.Contact) bool {
		l := f.links[p.Peer.ID]
		if l == nil {
			return true // it has not been asked yet
		}
		_, unknown := l.keepsNoLog[c.key]
		return !unknown
	})
}

// mayReportBehind reports whether a peer's statement that this node is behind in a feed counts: the peer is a
// parent, an owner, or was asked as an owner.
func (f *FeedTree) mayReportBehind(c *channel, peer env.PeerID) (owner, ok bool) {
	v, _ := f.owners.View(c.key)
	if f.pendingAudits[peer].covers(c) || v.Epoch != nil && slices.Contains(v.Epoch.Owners, peer) {
		return true, true
	}
	return false, f.isParent(c.key, peer)
}

// pullFrom pulls the entries that a peer has beyond this node's log. If an owner has an entry for longer than the
// trees take, the parents are on probation for withholding it.
func (f *FeedTree) pullFrom(c *channel, peer env.PeerID, isOwner bool) {
	before := f.logHead(c.key)
	f.owners.Pull(f.peer(peer), c.key, func(bool) {
		if f.feeds[c.key] != c || !c.subscribed || f.logHead(c.key) == before {
			return
		}
		log := f.owners.Visible(c.key)
		if len(log) == 0 {
			return // another branch came, and none of its entries is visible yet
		}
		if last := log[len(log)-1]; isOwner && f.clock.Now().Sub(last.Time) > probationTime {
			f.stats.Unheard++
			f.startProbation(c, last.Hash, last.At.Seq)
		}
		f.announceRepaired(c)
	})
}

// followedChannel returns the feed of a key if this node follows it and no repair is waiting for an answer;
// otherwise nil. A repair without an open request may pause for minutes, so it does not prevent another pull.
func (f *FeedTree) followedChannel(key []byte) *channel {
	if c := f.feeds[overlay.ID(key)]; c != nil && c.subscribed && (c.repair == nil || !c.repair.awaitingReply) && !plant.BlindToGaps {
		return c
	}
	return nil
}
