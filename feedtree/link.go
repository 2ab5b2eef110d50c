package feedtree

import (
	"cmp"
	"encoding/binary"
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

// noLogTime is how long a parent's statement that it keeps no log of a feed is believed.
const noLogTime = 10 * time.Minute

// logHead returns the first eight bytes of the hash of a feed's last visible entry; 0: the log is empty.
func (f *FeedTree) logHead(key overlay.ID) uint64 {
	log := f.owners.Visible(key)
	if len(log) == 0 {
		return 0
	}
	return binary.BigEndian.Uint64(log[len(log)-1].Hash[:8])
}

// headDigest hashes a feed's key and head. A digest is the exclusive or of these hashes.
func headDigest(key overlay.ID, head uint64) uint64 {
	h := binary.BigEndian.Uint64(key[:8])
	h = (h ^ head) * 0x9e3779b97f4a7c15
	return h ^ h>>29
}

// digestsAtOnce bounds the digests that a node sends in a DigestInterval. With more parents, each gets one less
// often.
const digestsAtOnce = 16

// compareHeads sends a digest to each parent whose turn it is, and checks for overdue heartbeats.
func (f *FeedTree) compareHeads(now time.Time) {
	parents := map[env.PeerID]*overlay.Contact{}
	shared := map[env.PeerID][]overlay.ID{}
	for _, c := range f.sorted() {
		if !c.subscribed {
			continue
		}
		for _, p := range f.scribe.Parents(c.key) {
			parents[p.Peer.ID] = p
			shared[p.Peer.ID] = append(shared[p.Peer.ID], c.key)
		}
		f.checkOverdue(c, now)
	}
	for id := range f.links {
		if parents[id] == nil {
			delete(f.links, id)
		}
	}
	ids := make([]env.PeerID, 0, len(parents))
	for id := range parents {
		ids = append(ids, id)
	}
	for _, id := range ids {
		if f.links[id] == nil {
			f.links[id] = &link{keepsNoLog: map[overlay.ID]time.Time{}}
		}
	}
	slices.SortFunc(ids, func(a, b env.PeerID) int {
		return cmp.Or(f.links[a].comparedAt.Compare(f.links[b].comparedAt), cmp.Compare(a, b))
	})
	for _, id := range ids[:min(len(ids), digestsAtOnce)] {
		l := f.links[id]
		for key, at := range l.keepsNoLog {
			if now.Sub(at) > noLogTime {
				delete(l.keepsNoLog, key)
			}
		}
		f.nonce++
		l.nonce = f.nonce
		d := &feedtreepb.Digest{Nonce: l.nonce}
		if !l.comparedAt.IsZero() {
			d.SinceLastS = uint32(now.Sub(l.comparedAt) / time.Second)
		}
		l.comparedAt = now
		for _, key := range shared[id] {
			if _, unknown := l.keepsNoLog[key]; !unknown {
				d.Count++
				d.Digest ^= headDigest(key, f.logHead(key))
			}
		}
		f.stats.Digests++
		f.send(parents[id].Peer, &feedtreepb.Message{Body: &feedtreepb.Message_Digest{Digest: d}})
	}
}

// onDigest compares a child's digest with this node's logs, and sends the child the recent heartbeats.
func (f *FeedTree) onDigest(from env.PeerID, m *feedtreepb.Digest) {
	var count uint32
	var digest uint64
	var beats [][]byte
	now := f.clock.Now()
	// Heartbeats since the child's last digest are sent, and some older ones, because the last answer may have been
	// lost.
	since := max(f.cfg.DigestInterval, min(time.Duration(m.SinceLastS)*time.Second, f.cfg.BeatInterval)) * 5 / 2
	for _, key := range f.scribe.GroupsOf(from) {
		if c := f.feeds[key]; c != nil && c.beat != nil && now.Sub(c.beat.receivedAt) < since {
			beats = append(beats, c.beat.raw)
		}
		if _, keeps := f.owners.View(key); keeps {
			count++
			digest ^= headDigest(key, f.logHead(key))
		}
	}
	to := f.peer(from)
	f.send(to, &feedtreepb.Message{Body: &feedtreepb.Message_DigestAck{DigestAck: &feedtreepb.DigestAck{
		Nonce: m.Nonce, Match: count == m.Count && digest == m.Digest,
	}}})
	for chunk := range slices.Chunk(beats, maxBeats/2) {
		f.send(to, &feedtreepb.Message{Body: &feedtreepb.Message_Beats{Beats: &feedtreepb.Beats{Beats: chunk}}})
	}
}

// peer returns a peer with its address, if that is known.
func (f *FeedTree) peer(id env.PeerID) env.Peer {
	if c := f.node.Contact(id); c != nil {
		return c.Peer
	}
	if p, ok := f.ownerAddrs[id]; ok {
		return p
	}
	return env.Peer{ID: id}
}

// onDigestAck sends all heads to a parent whose logs differ.
func (f *FeedTree) onDigestAck(from env.PeerID, m *feedtreepb.DigestAck) {
	l := f.links[from]
	if l == nil || l.nonce != m.Nonce {
		return
	}
	l.nonce = 0
	if m.Match {
		f.markParentHeard(from)
		return
	}
	f.stats.Differed++
	var heads []*feedtreepb.Head
	for _, c := range f.sorted() {
		if _, unknown := l.keepsNoLog[c.key]; c.subscribed && !unknown && f.isParent(c.key, from) {
			heads = append(heads, &feedtreepb.Head{Key: c.key[:], Head: f.logHead(c.key)})
		}
	}
	for chunk := range slices.Chunk(heads, maxHeads) {
		f.send(f.peer(from), &feedtreepb.Message{Body: &feedtreepb.Message_Heads{Heads: &feedtreepb.Heads{Heads: chunk}}})
	}
}

func (f *FeedTree) isParent(key overlay.ID, peer env.PeerID) bool {
	return slices.ContainsFunc(f.scribe.Parents(key), func(c *overlay.Contact) bool { return c.Peer.ID == peer })
}

// onHeads tells a peer which of its heads differ from those of this node. It answers for feeds that this node owns,
// which is public, and for feeds in whose tree the peer is its child. About any other feed it answers that it keeps
// no log: otherwise anybody could ask a node, 512 feeds at a time, which ones it reads.
func (f *FeedTree) onHeads(from env.PeerID, m *feedtreepb.Heads) {
	b := &feedtreepb.HeadsReply{}
	edges := f.scribe.GroupsOf(from)
	for _, h := range m.Heads {
		key := overlay.ID(h.Key)
		switch v, keeps := f.owners.View(key); {
		case !keeps, !v.Owns && !slices.Contains(edges, key):
			b.Unknown = append(b.Unknown, h.Key)
		case f.logHead(key) != h.Head:
			b.Different = append(b.Different, h.Key)
		}
	}
	f.send(f.peer(from), &feedtreepb.Message{Body: &feedtreepb.Message_HeadsReply{HeadsReply: b}})
}

// onHeadsReply pulls the entries that a parent or an owner has and this node lacks.
func (f *FeedTree) onHeadsReply(from env.PeerID, m *feedtreepb.HeadsReply) {
	defer f.auditAnswered(from, m.Unknown)
	if l, newlyUnknown := f.links[from], false; l != nil {
		for _, k := range m.Unknown {
			if key := overlay.ID(k); f.feeds[key] != nil && f.isParent(key, from) {
				_, known := l.keepsNoLog[key]
				newlyUnknown = newlyUnknown || !known
				l.keepsNoLog[key] = f.clock.Now()
			}
		}
		if newlyUnknown {
			f.after(0, task{kind: taskAudit}) // by the calendar, because an answer may arrive within the call
		}
		f.markParentHeard(from)
	}
	for _, k := range m.Different {
		if c := f.followedChannel(k); c != nil {
			if isOwner, ok := f.mayReportBehind(c, from); ok {
				f.pullFrom(c, from, isOwner)
			}
		}
	}
}
