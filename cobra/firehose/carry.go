package firehose

import (
	"slices"
	"time"

	"tidings/cobra/firehose/firehosepb"
	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/owner"
)

// carried is an entry that an owner of its shard has.
type storedEntry struct {
	entry      *owner.Entry
	raw        []byte // the Dispatch; nil: it was dropped, and is in the channel's log
	receivedAt time.Time
	published  bool // broadcast, by whomever
}

// A listener is a filter that has said so.
type listener struct {
	contact  *overlay.Contact
	leaseEnd time.Time
}

const (
	// digestEvery is the time between two digests of a shard; each has the entries of
	// the last digestSpan, so that two of three may be lost.
	digestInterval = 30 * time.Second
	digestSpan     = 3*digestInterval + 15*time.Second
	// rankPause is how much longer each owner waits than the one before it for an entry
	// to be broadcast, and for a digest.
	rankDelay = 2 * time.Second
	// listenFor is how long a Listen is good; it comes three times in this time.
	listenLease = 3 * time.Minute
	// maxListeners bounds the filters that one owner knows of; others hear the topic by
	// way of these, and are not told of what they missed while they were away.
	maxListeners = 4096
	// maxMeet is how many others a filter is told of.
	maxIntroductions = 6
	// maxKept and maxKeptBytes bound what an owner keeps of one shard. Beyond the bytes
	// the oldest are listed only, and asked for at their channels.
	maxEntries    = 1 << 16
	maxEntryBytes = 32 << 20
	// maxLines bounds the lines of a digest; there are several, if need be.
	maxListed = 640
)

// keepOffice does what an owner of a shard does.
func (f *Firehose) runOwner(s *shard, now time.Time) {
	v, ok := f.owners.View(s.key)
	if !ok || !v.Owns || v.Epoch == nil {
		if s.owned {
			s.owned = false
			clear(s.entries)
			clear(s.unobtainable)
			clear(s.listeners)
			s.byArrival, s.entryBytes = nil, 0
		}
		return
	}
	if !s.owned {
		s.owned, s.ownedSince, s.digestAt = true, now, now
	}
	if last := s.owners.Latest(); last == nil || last.Hash != v.Epoch.Hash {
		s.owners.Accept(v.Epoch)
	}
	for p, l := range s.listeners {
		if now.After(l.leaseEnd) {
			delete(s.listeners, p)
		}
	}
	for len(s.byArrival) > 0 && (now.Sub(s.byArrival[0].receivedAt) > keepTime || len(s.byArrival) > maxEntries) {
		f.forgetOldest(s)
	}
	rank := time.Duration(f.rank(s))
	if !f.idle(s, now) && now.Sub(s.digestAt) >= digestInterval+2*rank*rankDelay {
		s.digestAt = now
		for _, m := range s.digests(now.Add(-digestSpan), now) {
			f.stats.Digests++
			f.broadcast(s, m)
		}
	}
}

// unkeep forgets the oldest entry.
func (f *Firehose) forgetOldest(s *shard) {
	c := s.byArrival[0]
	s.byArrival = s.byArrival[1:]
	s.entryBytes -= len(c.raw)
	delete(s.entries, c.entry.Hash)
}

// rank is this node's among the owners of a shard, 0 for its sequencer.
func (f *Firehose) rank(s *shard) int {
	return max(slices.IndexFunc(s.owners.Owners(), func(p env.Peer) bool { return p.ID == f.self }), 0)
}

// idles says whether nobody listens, as far as this node can know.
func (f *Firehose) idle(s *shard, now time.Time) bool {
	return s.owned && len(s.listeners) == 0 && now.Sub(s.ownedSince) > listenLease
}

// carry takes a report of a peer: as a filter that has asked for it, or as an owner of its
// shard. It returns false for one that is wrong.
func (f *Firehose) receiveReport(s *shard, blob []byte, from env.PeerID, now time.Time) bool {
	m, d, err := openReport(f.verify, f.node.Network(), blob)
	if err != nil || f.shardOf(d.Entry.Key) != s {
		return false
	}
	if l := s.missing[d.Entry.Hash]; l != nil && l.key == d.Entry.Key {
		delete(s.missing, d.Entry.Hash)
		f.stats.Lacked++
		f.dispatch(s, d, now)
		if s.owned && s.entries[d.Entry.Hash] == nil {
			f.storeEntry(s, d, m.Dispatch, now, false)
		}
		return true
	}
	if len(m.Epoch) == 0 {
		_, had := s.received[d.Entry.Hash]
		return had || s.entries[d.Entry.Hash] != nil // else nobody has asked for it
	}
	if !s.owned {
		return false
	}
	if s.entries[d.Entry.Hash] != nil {
		return true
	}
	e, err := f.epochs.open(f.owners, m.Epoch)
	if err != nil || e.Key != d.Entry.Key || e.Sequencer != from || !plausibleIn(d.Entry, e) || now.Sub(d.Entry.Time) > maxEntryAge+time.Minute {
		f.stats.Forged++
		return false
	}
	f.stats.Carried++
	f.dispatch(s, d, now) // an owner that is a filter hears itself
	f.storeEntry(s, d, m.Dispatch, now, false)
	return true
}

// signedIn says whether an entry may be in a log whose last epoch is e.
func plausibleIn(n *owner.Entry, e *owner.Epoch) bool {
	if n.At.Branch == e.Branch && n.At.Epoch == e.Number {
		return n.Signer == e.Sequencer
	}
	return n.At.Branch != e.Branch || n.At.Epoch < e.Number // of an earlier one, which is over
}

// keep keeps an entry, and sees to it that it is broadcast, unless it came so.
func (f *Firehose) storeEntry(s *shard, d Dispatch, raw []byte, now time.Time, out bool) {
	c := &storedEntry{entry: d.Entry, raw: raw, receivedAt: now, published: out}
	s.entries[d.Entry.Hash] = c
	s.byArrival = append(s.byArrival, c)
	s.entryBytes += len(raw)
	for _, old := range s.byArrival {
		if s.entryBytes <= maxEntryBytes {
			break
		}
		s.entryBytes -= len(old.raw)
		old.raw = nil
	}
	switch rank := time.Duration(f.rank(s)); {
	case out:
	case rank == 0:
		f.publish(s, c, now)
	default:
		f.schedule(rank*rankDelay, task{kind: taskPublishTimeout, shard: s.number, entry: d.Entry.Hash})
	}
}

// urgePublish broadcasts what another owner should have.
func (f *Firehose) publishTimeout(s *shard, hash owner.Hash, now time.Time) {
	if c := s.entries[hash]; c != nil && !c.published && s.owned {
		f.stats.Rescued++
		f.publish(s, c, now)
	}
}

// publish broadcasts an entry. One that is too large for that is listed: who wants it asks.
func (f *Firehose) publish(s *shard, c *storedEntry, now time.Time) {
	c.published = true
	if f.idle(s, now) {
		return
	}
	f.stats.Broadcast++
	m := &firehosepb.Broadcast{Dispatch: c.raw}
	if len(c.raw) > env.MaxTopicFrame-512 {
		m = &firehosepb.Broadcast{List: &firehosepb.List{Entries: []*firehosepb.EntryRef{c.reference()}}}
	}
	f.broadcast(s, m)
}

func (c *storedEntry) reference() *firehosepb.EntryRef {
	return &firehosepb.EntryRef{Key: c.entry.Key[:], Entry: c.entry.Hash[:], AtMs: uint64(c.receivedAt.UnixMilli())}
}

// digests list what is kept since a time, as it is at now.
func (s *shard) digests(since, now time.Time) (of []*firehosepb.Broadcast) {
	if since.Before(s.ownedSince) { // before that it ack nothing
		since = s.ownedSince
	}
	m := &firehosepb.Digest{SinceMs: uint64(since.UnixMilli())}
	i, _ := slices.BinarySearchFunc(s.byArrival, since, func(c *storedEntry, t time.Time) int { return c.receivedAt.Compare(t) })
	for _, c := range s.byArrival[i:] {
		if len(m.Entries) == maxListed {
			m.UntilMs = uint64(c.receivedAt.UnixMilli())
			of = append(of, &firehosepb.Broadcast{Digest: m})
			m = &firehosepb.Digest{SinceMs: m.UntilMs}
		}
		m.Entries = append(m.Entries, c.reference())
	}
	m.UntilMs = uint64(now.UnixMilli())
	m.Sums = s.sums(now)
	return append(of, &firehosepb.Broadcast{Digest: m})
}

// sealed signs what goes out to filters.
func (f *Firehose) sign(s *shard, m *firehosepb.Broadcast) []byte {
	m.Shard, m.TimeMs = uint32(s.number), uint64(f.clock.Now().UnixMilli())
	return f.signer.Sign(wire.DomainShard, marshal(m)).Raw
}

func (f *Firehose) broadcast(s *shard, m *firehosepb.Broadcast) {
	f.updateTopic(s)
	f.topics.Publish(s.topicName, f.sign(s, m))
	if m.Digest != nil && f.cfg.Filter {
		f.onDigest(s, f.self, m.Digest, f.clock.Now())
	}
}

// onListen notes a filter, and tells it what it asks for.
func (f *Firehose) onListen(from env.PeerID, m *firehosepb.Listen) error {
	s := f.shards[m.Shard]
	if !s.owned {
		return nil
	}
	c, err := f.node.OpenRecord(m.Record)
	if err != nil || c.Peer.ID != from {
		f.stats.Garbage++
		return err
	}
	now := f.clock.Now()
	if s.listeners[from] == nil && len(s.listeners) >= maxListeners {
		return nil
	}
	s.listeners[from] = &listener{c, now.Add(listenLease)}
	meet := &firehosepb.ListenAck{Shard: m.Shard, TimeMs: uint64(now.UnixMilli())}
	known := sortedPeers(s.listeners)
	for range min(maxIntroductions, len(known)) {
		if p := known[f.rand.IntN(len(known))]; p != from {
			meet.Records = append(meet.Records, s.listeners[p].contact.Raw)
		}
	}
	f.send(c.Peer, env.Control, &firehosepb.Message{Body: &firehosepb.Message_ListenAck{ListenAck: meet}})
	if m.SinceMs > 0 {
		for _, d := range s.digests(time.UnixMilli(int64(m.SinceMs)), now) {
			f.send(c.Peer, env.Bulk, &firehosepb.Message{Body: &firehosepb.Message_Direct{Direct: f.sign(s, d)}})
		}
	}
	return nil
}

// onLack answers who lacks an entry: an owner of the shard has it, or one of its channel.
func (f *Firehose) onRequest(from env.PeerID, m *firehosepb.Request) {
	s := f.shards[m.Shard]
	answer := func(dispatch []byte) {
		f.transfer(s, f.peer(from), marshal(&firehosepb.Report{Dispatch: dispatch}), func(answer) {})
	}
	if c := s.entries[owner.Hash(m.Entry)]; c != nil && c.raw != nil {
		answer(c.raw)
		return
	}
	v, ok := f.owners.View(overlay.ID(m.Key))
	if !ok {
		return
	}
	for _, e := range f.owners.Log(overlay.ID(m.Key)) {
		if e.Hash == owner.Hash(m.Entry) {
			f.owners.Body(e, func(body []byte) {
				if body != nil {
					answer((&Dispatch{URL: v.URL, Entry: e, Body: body}).bytes())
				}
			})
			return
		}
	}
}
