package feedtree

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"
	"time"

	"tidings/feedtree/feedtreepb"
	"tidings/internal/env"
	"tidings/overlay"
)

// A link is the state of the digests that this node exchanges with a parent.
type link struct {
	nonce      uint64    // of the digest without an answer; 0: none
	comparedAt time.Time // when the last digest was sent
	// keepsNoLog holds the feeds of which the parent keeps no log, and when the parent said so. Such a parent only
	// forwards messages.
	keepsNoLog map[overlay.ID]time.Time
}

// keeps reports whether a parent keeps the log of a feed. A parent that was not asked yet may keep it.
func (l *link) keeps(key overlay.ID) bool {
	if l == nil {
		return true
	}
	_, keepsNone := l.keepsNoLog[key]
	return !keepsNone
}

// noLogTime is how long a parent's statement that it keeps no log of a feed is believed.
const noLogTime = 10 * time.Minute

// headDigest hashes a feed's key and head. A digest is the exclusive or of these hashes.
func headDigest(key overlay.ID, head uint64) uint64 {
	h := binary.BigEndian.Uint64(key[:8])
	h = (h ^ head) * 0x9e3779b97f4a7c15
	return h ^ h>>29
}

// noParentKeepsLog reports whether no parent of this node keeps a feed's log. Then digests and the heartbeats that
// come with them say nothing about the feed. That is the case below a member that only forwards, and at a root that
// does not own the feed, for instance because the owners were on the other side of a partition.
func (a *auditor) noParentKeepsLog(c *channel) bool {
	return !slices.ContainsFunc(a.scribe.Parents(c.key), func(p *overlay.Contact) bool { return a.links[p.Peer.ID].keeps(c.key) })
}

// sharedWith returns the followed feeds of which a parent keeps the log.
func (a *auditor) sharedWith(parent env.PeerID) (of []*channel) {
	for _, c := range a.feeds.sorted() {
		if c.subscribed && a.links[parent].keeps(c.key) && a.isParent(c.key, parent) {
			of = append(of, c)
		}
	}
	return of
}

// markParentHeard records that a parent has answered for all feeds whose logs it keeps.
func (a *auditor) markParentHeard(from env.PeerID) {
	for _, c := range a.sharedWith(from) {
		a.cutOffs.markHeard(c)
	}
}

// digestsAtOnce bounds the digests that a node sends in a DigestInterval. With more parents, each gets one less
// often.
const digestsAtOnce = 16

// compare sends a digest to each parent whose turn it is, and checks for overdue heartbeats.
func (a *auditor) compare(all []*channel, now time.Time) {
	parents := map[env.PeerID]*overlay.Contact{}
	shared := map[env.PeerID][]overlay.ID{}
	for _, c := range all {
		if !c.subscribed {
			continue
		}
		for _, p := range a.scribe.Parents(c.key) {
			parents[p.Peer.ID] = p
			shared[p.Peer.ID] = append(shared[p.Peer.ID], c.key)
		}
	}
	maps.DeleteFunc(a.links, func(id env.PeerID, _ *link) bool { return parents[id] == nil })
	for id := range parents {
		if a.links[id] == nil {
			a.links[id] = &link{keepsNoLog: map[overlay.ID]time.Time{}}
		}
	}
	ids := slices.Collect(maps.Keys(parents))
	slices.SortFunc(ids, func(x, y env.PeerID) int {
		return cmp.Or(a.links[x].comparedAt.Compare(a.links[y].comparedAt), cmp.Compare(x, y))
	})
	for _, id := range ids[:min(len(ids), digestsAtOnce)] {
		l := a.links[id]
		maps.DeleteFunc(l.keepsNoLog, func(_ overlay.ID, at time.Time) bool { return now.Sub(at) > noLogTime })
		a.nonce++
		l.nonce = a.nonce
		d := &feedtreepb.Digest{Nonce: l.nonce}
		if !l.comparedAt.IsZero() {
			d.SinceLastS = uint32(now.Sub(l.comparedAt) / time.Second)
		}
		l.comparedAt = now
		for _, key := range shared[id] {
			if l.keeps(key) {
				d.Count++
				d.Digest ^= headDigest(key, a.logHead(key))
			}
		}
		a.stats.Digests++
		a.send(parents[id].Peer, &feedtreepb.Message{Body: &feedtreepb.Message_Digest{Digest: d}})
	}
}

// onDigest compares a child's digest with this node's logs, and sends the child the recent heartbeats.
func (a *auditor) onDigest(from env.PeerID, m *feedtreepb.Digest) {
	var count uint32
	var digest uint64
	var beats, statements [][]byte
	now := a.clock.Now()
	// Heartbeats since the child's last digest are sent, and some older ones, because the last answer may have been
	// lost.
	since := max(a.cfg.DigestInterval, min(time.Duration(m.SinceLastS)*time.Second, a.cfg.BeatInterval)) * 5 / 2
	for _, key := range a.scribe.GroupsOf(from) {
		if c := a.feeds[key]; c != nil && c.beat != nil && now.Sub(c.beat.receivedAt.Time()) < since {
			beats = append(beats, c.beat.raw(c.key))
		}
		if c := a.feeds[key]; c != nil && c.publisherState().statement != nil && now.Sub(c.publisher.statedAt) < since {
			statements = append(statements, c.publisher.statement.Raw)
		}
		if _, keeps := a.owners.View(key); keeps {
			count++
			digest ^= headDigest(key, a.logHead(key))
		}
	}
	to := a.peer(from)
	a.send(to, &feedtreepb.Message{Body: &feedtreepb.Message_DigestAck{DigestAck: &feedtreepb.DigestAck{
		Nonce: m.Nonce, Match: count == m.Count && digest == m.Digest,
	}}})
	for chunk := range slices.Chunk(beats, maxBeats/2) {
		a.send(to, &feedtreepb.Message{Body: &feedtreepb.Message_Beats{Beats: &feedtreepb.Beats{Beats: chunk}}})
	}
	for chunk := range slices.Chunk(statements, maxStatements) {
		a.send(to, &feedtreepb.Message{Body: &feedtreepb.Message_Beats{Beats: &feedtreepb.Beats{Statements: chunk}}})
	}
}

// onDigestAck sends all heads to a parent whose logs differ.
func (a *auditor) onDigestAck(from env.PeerID, m *feedtreepb.DigestAck) {
	l := a.links[from]
	if l == nil || l.nonce != m.Nonce {
		return
	}
	l.nonce = 0
	if m.Match {
		a.markParentHeard(from)
		return
	}
	a.stats.Differed++
	var heads []*feedtreepb.Head
	for _, c := range a.sharedWith(from) {
		heads = append(heads, &feedtreepb.Head{Key: c.key[:], Head: a.logHead(c.key)})
	}
	a.sendHeads(a.peer(from), heads)
}
