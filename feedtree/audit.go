package feedtree

import (
	"slices"
	"time"

	"tidings/feedtree/feedtreepb"
	"tidings/internal/env"
	"tidings/overlay"
	"tidings/overlay/owner"
)

// An auditor compares the heads of logs with those of parents (link.go), and with those of owners, independently of
// all trees.
type auditor struct {
	*common
	cutOffs    *cutOffs
	repairer   *repairer
	deliveries *deliveries
	links      map[env.PeerID]*link         // by parent
	nonce      uint64                       // of the last digest
	pending    map[env.PeerID]*pendingAudit // by owner
	soon       plans                        // an audit, because a parent keeps no log
}

func newAuditor(m *common, cutOffs *cutOffs, repairer *repairer, deliveries *deliveries) *auditor {
	a := &auditor{common: m, cutOffs: cutOffs, repairer: repairer, deliveries: deliveries, links: map[env.PeerID]*link{}, pending: map[env.PeerID]*pendingAudit{}}
	a.soon = m.newPlans(func(overlay.ID) { a.audit(m.feeds.sorted(), m.clock.Now()) })
	return a
}

// auditing is what an auditor keeps of a feed.
type auditing struct {
	auditedAt     env.Moment // last comparison with an owner
	ownersUnknown bool       // the known owners did not answer the last audit, or no longer keep the log
}

// A pendingAudit is the unanswered question of an audit to one owner.
type pendingAudit struct {
	keys   []overlay.ID
	sentAt time.Time
}

const (
	// auditInterval bounds the time for which a node hears nothing certain about a feed before it compares its head
	// with one of the feed's owners, independently of all trees. It leaves time for a second audit within ten minutes
	// if the first owner does not answer.
	auditInterval = 8 * time.Minute
	// maxOwnerLookups bounds the lookups of owners in one run of audits. Owners are looked up for feeds whose known
	// owners have no known address or do not answer. The remaining feeds wait for the next run.
	maxOwnerLookups = 16
	// ownerCandidates is the number of nodes from a lookup that may be asked if none of them is known to be an
	// owner.
	ownerCandidates = 3
	// maxOwnerAddrs bounds the remembered addresses of owners. At the limit all are forgotten and looked up again.
	maxOwnerAddrs = 4096
)

// audit compares heads with owners, independently of all trees. Each feed about which nothing certain was heard
// is compared with a random one of its owners at least once in an auditInterval. All feeds of one owner share a
// message, including those that would be due a little later: a node with 4,800 feeds in a network of a thousand
// asks two owners a second at most, and one with a hundred feeds asks one in five seconds.
//
// A feed of which no parent keeps a log is compared every DigestInterval. A feed that this node owns is compared
// after half of the silence that would make it count as cut off.
func (a *auditor) audit(all []*channel, now time.Time) {
	a.expire(now)
	byOwner := map[env.PeerID][]*channel{} // feeds that may be compared, by owner
	var due []*channel
	for _, c := range all {
		if !c.subscribed || c.leader != nil {
			continue
		}
		interval := auditInterval
		if a.noParentKeepsLog(c) {
			interval = a.cfg.DigestInterval
		}
		v, ok := a.owners.View(c.key)
		lastCertain := c.confirmed.Time()
		if v.Owns {
			// The sequencer sends an owner every entry, but nothing while there are none. The owner asks another
			// one before that silence would count as being cut off.
			interval, lastCertain = a.cfg.feedSilence()/2, c.heardAt
		}
		age := min(now.Sub(lastCertain), now.Sub(c.auditedAt.Time()))
		if !ok || v.Epoch == nil || age < interval/2 || v.Owns && len(v.Epoch.Owners) == 1 {
			continue
		}
		for _, p := range v.Epoch.Owners {
			byOwner[p] = append(byOwner[p], c)
		}
		if age > interval-a.cfg.DigestInterval*5/4 { // the next run would be too late
			due = append(due, c)
		}
	}
	lookups := 0
	for _, c := range due {
		if c.auditedAt == env.MomentOf(now) {
			continue
		}
		v, _ := a.owners.View(c.key)
		var candidates []env.Peer
		for _, p := range v.Epoch.Owners {
			if to := a.peer(p); len(to.Addrs) > 0 && !c.ownersUnknown && p != a.signer.PeerID() {
				candidates = append(candidates, to)
			}
		}
		if len(candidates) > 0 {
			to := candidates[a.rand.IntN(len(candidates))]
			a.auditOwner(to, byOwner[to.ID], now)
		} else if lookups++; lookups <= maxOwnerLookups {
			a.auditByLookup(c, now)
		}
	}
}

// auditOwner asks an owner for the heads of feeds.
func (a *auditor) auditOwner(to env.Peer, channels []*channel, now time.Time) {
	i := a.pending[to.ID]
	if i == nil {
		i = &pendingAudit{}
		a.pending[to.ID] = i
	}
	i.sentAt = now
	var heads []*feedtreepb.Head
	for _, c := range channels {
		if c.auditedAt != env.MomentOf(now) {
			c.auditedAt = env.MomentOf(now)
			i.keys = append(i.keys, c.key)
			heads = append(heads, &feedtreepb.Head{Key: c.key[:], Head: a.logHead(c.key)})
		}
	}
	a.stats.Audits += a.sendHeads(to, heads)
}

// sendHeads asks a peer to compare heads, and returns the number of messages.
func (a *auditor) sendHeads(to env.Peer, heads []*feedtreepb.Head) (n uint64) {
	for chunk := range slices.Chunk(heads, maxHeads) {
		a.send(to, &feedtreepb.Message{Body: &feedtreepb.Message_Heads{Heads: &feedtreepb.Heads{Heads: chunk}}})
		n++
	}
	return n
}

// auditByLookup looks up a feed's owners by its key, and asks one of them.
func (a *auditor) auditByLookup(c *channel, now time.Time) {
	c.auditedAt = env.MomentOf(now)
	a.owners.FindOwners(c.key, func(answer owner.Found) {
		// Known owners come first. Otherwise a few of the nodes found may be owners or followers.
		v, _ := a.owners.View(c.key)
		found := a.others(answer)
		known := slices.DeleteFunc(slices.Clone(found), func(p env.Peer) bool { return v.Epoch == nil || !slices.Contains(v.Epoch.Owners, p.ID) })
		if len(known) == 0 {
			known = found[:min(len(found), ownerCandidates)]
		}
		if a.feeds[c.key] != c || !c.subscribed || len(known) == 0 {
			return
		}
		for _, p := range known {
			if len(a.ownerAddrs) >= maxOwnerAddrs {
				clear(a.ownerAddrs)
			}
			a.ownerAddrs[p.ID] = p
		}
		c.ownersUnknown, c.auditedAt = false, env.Never
		a.auditOwner(known[a.rand.IntN(len(known))], []*channel{c}, a.clock.Now())
	})
}

// expire gives up on owners that do not answer. The owners of their feeds are looked up again, because there
// may be other owners now.
func (a *auditor) expire(now time.Time) {
	for peer, i := range a.pending {
		if now.Sub(i.sentAt) < a.cfg.DigestInterval/2 {
			continue
		}
		for _, key := range i.keys {
			if c := a.feeds[key]; c != nil {
				c.ownersUnknown, c.auditedAt = true, env.Never
			}
		}
		delete(a.ownerAddrs, peer)
		delete(a.pending, peer)
	}
}

// answered records the answer of an owner. unknown lists the feeds whose log the owner does not keep any more.
func (a *auditor) answered(peer env.PeerID, unknown [][]byte) {
	i := a.pending[peer]
	delete(a.pending, peer)
	for _, k := range unknown {
		if c := a.feeds[overlay.ID(k)]; c != nil && i.covers(c) {
			c.ownersUnknown, c.auditedAt = true, env.Never
		}
	}
	if i == nil {
		return
	}
	for _, key := range i.keys {
		if c := a.feeds[key]; c != nil && c.subscribed && !slices.ContainsFunc(unknown, func(k []byte) bool { return overlay.ID(k) == key }) {
			a.cutOffs.markHeard(c)
		}
	}
}

// covers reports whether the audit asks about a feed. A nil audit covers none.
func (i *pendingAudit) covers(c *channel) bool { return i != nil && slices.Contains(i.keys, c.key) }

// mayReportBehind reports whether a peer's statement that this node is behind in a feed counts: the peer is a
// parent, an owner, or was asked as an owner.
func (a *auditor) mayReportBehind(c *channel, peer env.PeerID) (owner, ok bool) {
	v, _ := a.owners.View(c.key)
	if a.pending[peer].covers(c) || v.Epoch != nil && slices.Contains(v.Epoch.Owners, peer) {
		return true, true
	}
	return false, a.isParent(c.key, peer)
}

// pullFrom pulls the entries that a peer has beyond this node's log. If an owner has an entry for longer than the
// trees take, the parents are on probation for withholding it.
func (a *auditor) pullFrom(c *channel, peer env.PeerID, isOwner bool) {
	before := a.logHead(c.key)
	a.owners.Pull(a.peer(peer), c.key, func(bool) {
		if a.feeds[c.key] != c || !c.subscribed || a.logHead(c.key) == before {
			return
		}
		log := a.owners.Visible(c.key)
		if len(log) == 0 {
			return // another branch came, and none of its entries is visible yet
		}
		if last := log[len(log)-1]; isOwner && a.clock.Now().Sub(last.Time) > probationTime {
			a.stats.AuditsBehind++
			a.deliveries.startProbation(c, last.Hash, last.At.Seq)
		}
		a.repairer.announce(c)
	})
}

// followedChannel returns the feed of a key if this node follows it and no repair is waiting for an answer;
// otherwise nil. A repair without an open request may pause for minutes, so it does not prevent another pull.
func (a *auditor) followedChannel(key []byte) *channel {
	if c := a.feeds[overlay.ID(key)]; c != nil && c.subscribed && (c.repair == nil || !c.repair.awaitingReply) {
		return c
	}
	return nil
}

// onHeads tells a peer which of its heads differ from those of this node. It answers for feeds that this node owns,
// which is public, and for feeds in whose tree the peer is its child. About any other feed it answers that it keeps
// no log: otherwise anybody could ask a node, 512 feeds at a time, which ones it reads.
func (a *auditor) onHeads(from env.PeerID, m *feedtreepb.Heads) {
	b := &feedtreepb.HeadsReply{}
	edges := a.scribe.GroupsOf(from)
	for _, h := range m.Heads {
		key := overlay.ID(h.Key)
		switch v, keeps := a.owners.View(key); {
		case !keeps, !v.Owns && !slices.Contains(edges, key):
			b.Unknown = append(b.Unknown, h.Key)
		case a.logHead(key) != h.Head:
			b.Different = append(b.Different, h.Key)
		}
	}
	a.send(a.peer(from), &feedtreepb.Message{Body: &feedtreepb.Message_HeadsReply{HeadsReply: b}})
}

// onHeadsReply pulls the entries that a parent or an owner has and this node lacks.
func (a *auditor) onHeadsReply(from env.PeerID, m *feedtreepb.HeadsReply) {
	defer a.answered(from, m.Unknown)
	if l, newlyUnknown := a.links[from], false; l != nil {
		for _, k := range m.Unknown {
			if key := overlay.ID(k); a.feeds[key] != nil && a.isParent(key, from) {
				newlyUnknown = newlyUnknown || l.keeps(key)
				l.keepsNoLog[key] = a.clock.Now()
			}
		}
		if newlyUnknown {
			a.soon.add(a.after(0), overlay.ID{}) // by the calendar, because an answer may arrive within the call
		}
		a.markParentHeard(from)
	}
	for _, k := range m.Different {
		if c := a.followedChannel(k); c != nil {
			if isOwner, ok := a.mayReportBehind(c, from); ok {
				a.pullFrom(c, from, isOwner)
			}
		}
	}
}
