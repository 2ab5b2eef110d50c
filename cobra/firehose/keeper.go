package firehose

import (
	"maps"
	"slices"
	"time"

	"tidings/cobra/firehose/firehosepb"
	"tidings/internal/env"
	"tidings/overlay"
	"tidings/overlay/owner"
)

// keeper is a node's part as an owner of one shard. It keeps the entries of the last hour, broadcasts them and their
// digests, and knows which filters listen.
type keeper struct {
	*place
	topic *topic

	owned      bool
	ownedSince time.Time // when this node became an owner
	entries    map[owner.Hash]*keptEntry
	byArrival  []*keptEntry // the same, oldest first
	entryBytes int          // bytes of all dispatches in entries, at most maxEntryBytes
	listeners  map[env.PeerID]*listener
	digestAt   time.Time                // when an owner last broadcast a digest
	listSentAt map[env.PeerID]time.Time // when an owner was last sent a list of entries that it seems to lack
}

// A keptEntry is an entry that an owner of its shard keeps.
type keptEntry struct {
	entry      *owner.Entry
	dispatch   []byte // nil: dropped for lack of space; the channel's log has the entry
	receivedAt time.Time
	published  bool // some owner has broadcast the entry
}

// A listener is a filter that listens to a shard.
type listener struct {
	contact  *overlay.Contact
	leaseEnd time.Time
}

const (
	// digestInterval is the time between two digests of a shard. Each contains the entries of the last digestSpan, so that
	// two of three may be lost.
	digestInterval = 30 * time.Second
	digestSpan     = 3*digestInterval + 15*time.Second
	// rankDelay is how much longer each owner waits than the preceding one before it broadcasts an entry or a digest
	// itself.
	rankDelay = 2 * time.Second
	// listenLease is how long a Listen is valid. A filter sends three in this time.
	listenLease = 3 * time.Minute
	// maxListeners bounds the filters that an owner knows. Further filters hear the topic through these, but get no digests
	// of the time when they were disconnected.
	maxListeners = 4096
	// maxIntroductions bounds the filters to which an owner introduces a filter at a time.
	maxIntroductions = 6
	// maxEntries and maxEntryBytes bound what an owner keeps of one shard. Beyond the bytes the oldest entries are only
	// listed, and filters ask the channels' owners for them.
	maxEntries    = 1 << 16
	maxEntryBytes = 32 << 20
	// maxListed bounds the entries of one digest or list. More entries take several of them.
	maxListed = 640
)

func newKeeper(p *place, t *topic) *keeper {
	return &keeper{place: p, topic: t, entries: map[owner.Hash]*keptEntry{}, listeners: map[env.PeerID]*listener{}}
}

// run follows whether this node owns the shard, and forgets old entries and filters. It returns the digests to broadcast.
func (k *keeper) run(now time.Time) []*firehosepb.Broadcast {
	v, ok := k.owners.View(k.key)
	if !ok || !v.Owns || v.Epoch == nil {
		if k.owned {
			k.owned = false
			clear(k.entries)
			clear(k.listeners)
			k.byArrival, k.entryBytes = nil, 0
		}
		return nil
	}
	if !k.owned {
		k.owned, k.ownedSince, k.digestAt = true, now, now
	}
	if last := k.tracker.Latest(); last == nil || last.Hash != v.Epoch.Hash {
		k.tracker.Accept(v.Epoch)
	}
	maps.DeleteFunc(k.listeners, func(_ env.PeerID, l *listener) bool { return now.After(l.leaseEnd) })
	for len(k.byArrival) > 0 && (now.Sub(k.byArrival[0].receivedAt) > keepTime || len(k.byArrival) > maxEntries) {
		oldest := k.byArrival[0]
		k.byArrival = k.byArrival[1:]
		k.entryBytes -= len(oldest.dispatch)
		delete(k.entries, oldest.entry.Hash)
	}
	if k.idle(now) || now.Sub(k.digestAt) < digestInterval+2*k.turn() {
		return nil
	}
	k.digestAt = now
	return k.digests(now.Add(-digestSpan), now)
}

// turn returns how long this node leaves a broadcast to the owners that precede it: 0 for the shard's sequencer.
func (k *keeper) turn() time.Duration {
	rank := slices.IndexFunc(k.tracker.Owners(), func(p env.Peer) bool { return p.ID == k.self })
	return time.Duration(max(rank, 0)) * rankDelay
}

// idle reports whether no filter listens to the shard. A node that became an owner a moment ago cannot know.
func (k *keeper) idle(now time.Time) bool {
	return k.owned && len(k.listeners) == 0 && now.Sub(k.ownedSince) > listenLease
}

// add keeps an entry. Unless another owner has broadcast it already, this node does so when it is its turn.
func (k *keeper) add(d Dispatch, raw []byte, now time.Time, published bool) {
	e := &keptEntry{entry: d.Entry, dispatch: raw, receivedAt: now, published: published}
	k.entries[d.Entry.Hash] = e
	k.byArrival = append(k.byArrival, e)
	k.entryBytes += len(raw)
	for _, old := range k.byArrival {
		if k.entryBytes <= maxEntryBytes {
			break
		}
		k.entryBytes -= len(old.dispatch)
		old.dispatch = nil
	}
	switch turn := k.turn(); {
	case published:
	case turn == 0:
		k.publish(e, now)
	default:
		k.schedule(turn, task{kind: taskPublishTimeout, shard: k.number, entry: d.Entry.Hash})
	}
}

// onPublished notes that another owner has broadcast an entry. It returns whether this is news.
func (k *keeper) onPublished(d Dispatch, raw []byte, now time.Time) bool {
	e := k.entries[d.Entry.Hash]
	if e == nil {
		k.add(d, raw, now, true)
		return true
	}
	news := !e.published
	e.published = true
	return news
}

// publishTimeout broadcasts an entry that the preceding owners should have broadcast.
func (k *keeper) publishTimeout(hash owner.Hash, now time.Time) {
	if e := k.entries[hash]; e != nil && !e.published && k.owned {
		k.stats.Rescued++
		k.publish(e, now)
	}
}

// publish broadcasts an entry. An entry that is too large for the topic, or whose bytes were dropped, is only listed, and
// filters ask for it.
func (k *keeper) publish(e *keptEntry, now time.Time) {
	e.published = true
	if k.idle(now) {
		return
	}
	k.stats.Broadcast++
	m := &firehosepb.Broadcast{Dispatch: e.dispatch}
	if e.dispatch == nil || len(e.dispatch) > env.MaxTopicFrame-512 {
		m = &firehosepb.Broadcast{List: &firehosepb.List{Entries: []*firehosepb.EntryRef{e.ref()}}}
	}
	k.topic.broadcast(m)
}

func (e *keptEntry) ref() *firehosepb.EntryRef {
	return &firehosepb.EntryRef{Key: e.entry.Key[:], Entry: e.entry.Hash[:], AtMs: uint64(e.receivedAt.UnixMilli())}
}

// digests returns digests that list the entries that were received since a time. A digest says nothing of the time before
// this node became an owner.
func (k *keeper) digests(since, now time.Time) (digests []*firehosepb.Broadcast) {
	if since.Before(k.ownedSince) {
		since = k.ownedSince
	}
	m := &firehosepb.Digest{SinceMs: uint64(since.UnixMilli())}
	i, _ := slices.BinarySearchFunc(k.byArrival, since, func(e *keptEntry, t time.Time) int { return e.receivedAt.Compare(t) })
	for _, e := range k.byArrival[i:] {
		if len(m.Entries) == maxListed {
			m.UntilMs = uint64(e.receivedAt.UnixMilli())
			digests = append(digests, &firehosepb.Broadcast{Digest: m})
			m = &firehosepb.Digest{SinceMs: m.UntilMs}
		}
		m.Entries = append(m.Entries, e.ref())
	}
	m.UntilMs = uint64(now.UnixMilli())
	m.Sums = k.sums(now)
	return append(digests, &firehosepb.Broadcast{Digest: m})
}

// listen notes that a filter listens to the shard.
func (k *keeper) listen(c *overlay.Contact, now time.Time) {
	k.listeners[c.Peer.ID] = &listener{c, now.Add(listenLease)}
}

// onListen notes a filter, introduces it to others, and sends it the digests that it asks for.
func (k *keeper) onListen(from env.PeerID, m *firehosepb.Listen) error {
	if !k.owned {
		return nil
	}
	c, err := k.node.OpenRecord(m.Record)
	if err != nil || c.Peer.ID != from {
		k.stats.Garbage++
		return err
	}
	now := k.clock.Now()
	if k.listeners[from] == nil && len(k.listeners) >= maxListeners {
		return nil
	}
	k.listen(c, now)
	ack := &firehosepb.ListenAck{Shard: m.Shard, TimeMs: uint64(now.UnixMilli())}
	known := sortedPeers(k.listeners)
	for range min(maxIntroductions, len(known)) {
		if p := known[k.rand.IntN(len(known))]; p != from {
			ack.Records = append(ack.Records, k.listeners[p].contact.Raw)
		}
	}
	k.send(c.Peer, env.Control, &firehosepb.Message{Body: &firehosepb.Message_ListenAck{ListenAck: ack}})
	if m.SinceMs > 0 {
		for _, d := range k.digests(time.UnixMilli(int64(m.SinceMs)), now) {
			k.send(c.Peer, env.Bulk, &firehosepb.Message{Body: &firehosepb.Message_Direct{Direct: k.sign(d)}})
		}
	}
	return nil
}
