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

// A link is what two nodes compare whose trees have edges between them.
type link struct {
	nonce    uint64    // of the digest that is out; 0: none
	compared time.Time // when the last one was sent
	// unknown are feeds of which the parent keeps no log, by when it said so: it
	// only forwards them.
	unknown map[overlay.ID]time.Time
}

// unknownFor is how long a parent is held to keep no log of a feed.
const unknownFor = 10 * time.Minute

// head is what is compared of a feed.
func (f *FeedTree) head(key overlay.ID) uint64 {
	log := f.owners.Visible(key)
	if len(log) == 0 {
		return 0
	}
	return binary.BigEndian.Uint64(log[len(log)-1].Hash[:8])
}

// mixed folds a feed and its head into a digest.
func mixed(key overlay.ID, head uint64) uint64 {
	h := binary.BigEndian.Uint64(key[:8])
	h = (h ^ head) * 0x9e3779b97f4a7c15
	return h ^ h>>29
}

// digestsAtOnce bounds the digests that a node sends in a DigestInterval: with more parents than that
// each gets one less often.
const digestsAtOnce = 16

// compare sends a digest to each parent that is due, and looks for feeds that have been
// silent for too long.
func (f *FeedTree) compare(now time.Time) {
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
		f.lookOverdue(c, now)
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
			f.links[id] = &link{unknown: map[overlay.ID]time.Time{}}
		}
	}
	slices.SortFunc(ids, func(a, b env.PeerID) int {
		return cmp.Or(f.links[a].compared.Compare(f.links[b].compared), cmp.Compare(a, b))
	})
	for _, id := range ids[:min(len(ids), digestsAtOnce)] {
		l := f.links[id]
		for key, at := range l.unknown {
			if now.Sub(at) > unknownFor {
				delete(l.unknown, key)
			}
		}
		f.nonce++
		l.nonce = f.nonce
		d := &feedtreepb.Digest{Nonce: l.nonce}
		if !l.compared.IsZero() {
			d.PauseS = uint32(now.Sub(l.compared) / time.Second)
		}
		l.compared = now
		for _, key := range shared[id] {
			if _, unknown := l.unknown[key]; !unknown {
				d.Count++
				d.Digest ^= mixed(key, f.head(key))
			}
		}
		f.stats.Digests++
		f.send(parents[id].Peer, &feedtreepb.Message{Body: &feedtreepb.Message_Digest{Digest: d}})
	}
}

// onDigest compares what a child has with what is here, and sends the heartbeats
// that came lately.
func (f *FeedTree) onDigest(from env.PeerID, m *feedtreepb.Digest) {
	var count uint32
	var digest uint64
	var beats [][]byte
	now := f.clock.Now()
	// What came since the last digest, and some more: that one may have been lost.
	since := max(f.cfg.DigestInterval, min(time.Duration(m.PauseS)*time.Second, f.cfg.BeatInterval)) * 5 / 2
	for _, key := range f.scribe.GroupsOf(from) {
		if c := f.feeds[key]; c != nil && c.beat != nil && now.Sub(c.beat.heard) < since {
			beats = append(beats, c.beat.raw)
		}
		if _, keeps := f.owners.View(key); keeps {
			count++
			digest ^= mixed(key, f.head(key))
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

// peer is a peer with its address, if that is known.
func (f *FeedTree) peer(id env.PeerID) env.Peer {
	if c := f.node.Contact(id); c != nil {
		return c.Peer
	}
	if p, ok := f.reached[id]; ok {
		return p
	}
	return env.Peer{ID: id}
}

// onDigestAck spells out what did not match.
func (f *FeedTree) onDigestAck(from env.PeerID, m *feedtreepb.DigestAck) {
	l := f.links[from]
	if l == nil || l.nonce != m.Nonce {
		return
	}
	l.nonce = 0
	if m.Match {
		f.heardFrom(from)
		return
	}
	f.stats.Differed++
	var heads []*feedtreepb.Head
	for _, c := range f.sorted() {
		if _, unknown := l.unknown[c.key]; c.subscribed && !unknown && f.isParent(c.key, from) {
			heads = append(heads, &feedtreepb.Head{Key: c.key[:], Head: f.head(c.key)})
		}
	}
	for chunk := range slices.Chunk(heads, maxHeads) {
		f.send(f.peer(from), &feedtreepb.Message{Body: &feedtreepb.Message_Heads{Heads: &feedtreepb.Heads{Heads: chunk}}})
	}
}

func (f *FeedTree) isParent(key overlay.ID, peer env.PeerID) bool {
	return slices.ContainsFunc(f.scribe.Parents(key), func(c *overlay.Contact) bool { return c.Peer.ID == peer })
}

// onHeads says which heads are others here. It answers for feeds that this node owns, which anybody
// may know, and for those of which the sender is a child in the tree. Of any other feed it says that it
// keeps no log: otherwise anybody could ask a node, 512 feeds at a time, which ones it reads.
func (f *FeedTree) onHeads(from env.PeerID, m *feedtreepb.Heads) {
	b := &feedtreepb.Behind{}
	edges := f.scribe.GroupsOf(from)
	for _, h := range m.Heads {
		key := overlay.ID(h.Key)
		switch v, keeps := f.owners.View(key); {
		case !keeps, !v.Owns && !slices.Contains(edges, key):
			b.Unknown = append(b.Unknown, h.Key)
		case f.head(key) != h.Head:
			b.Keys = append(b.Keys, h.Key)
		}
	}
	f.send(f.peer(from), &feedtreepb.Message{Body: &feedtreepb.Message_Behind{Behind: b}})
}

// onBehind gets what a parent, or an owner, has beyond what is here.
func (f *FeedTree) onBehind(from env.PeerID, m *feedtreepb.Behind) {
	defer f.answeredBy(from, m.Unknown)
	if l, blind := f.links[from], false; l != nil {
		for _, k := range m.Unknown {
			if key := overlay.ID(k); f.feeds[key] != nil && f.isParent(key, from) {
				_, known := l.unknown[key]
				blind = blind || !known
				l.unknown[key] = f.clock.Now()
			}
		}
		if blind {
			f.after(0, task{kind: taskAudit}) // not from here: answers can come at once
		}
		f.heardFrom(from)
	}
	for _, k := range m.Keys {
		if c := f.followed(k); c != nil {
			if isOwner, ok := f.mayKnow(c, from); ok {
				f.catchUp(c, from, isOwner)
			}
		}
	}
}
