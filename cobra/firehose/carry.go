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
type carried struct {
	entry *owner.Entry
	raw   []byte // the Dispatch; nil: it was dropped, and is in the channel's log
	at    time.Time
	out   bool // broadcast, by whomever
}

// A listener is a filter that has said so.
type listener struct {
	contact *overlay.Contact
	until   time.Time
}

const (
	// digestEvery is the time between two digests of a shard; each has the entries of
	// the last digestSpan, so that two of three may be lost.
	digestEvery = 30 * time.Second
	digestSpan  = 3*digestEvery + 15*time.Second
	// rankPause is how much longer each owner waits than the one before it for an entry
	// to be broadcast, and for a digest.
	rankPause = 2 * time.Second
	// listenFor is how long a Listen is good; it comes three times in this time.
	listenFor = 3 * time.Minute
	// maxListeners bounds the filters that one owner knows of; others hear the topic by
	// way of these, and are not told of what they missed while they were away.
	maxListeners = 4096
	// maxMeet is how many others a filter is told of.
	maxMeet = 6
	// maxKept and maxKeptBytes bound what an owner keeps of one shard. Beyond the bytes
	// the oldest are listed only, and asked for at their channels.
	maxKept      = 1 << 16
	maxKeptBytes = 32 << 20
	// maxLines bounds the lines of a digest; there are several, if need be.
	maxLines = 640
)

// keepOffice does what an owner of a shard does.
func (f *Firehose) keepOffice(s *shard, now time.Time) {
	v, ok := f.owners.View(s.key)
	if !ok || !v.Owns || v.Epoch == nil {
		if s.owned {
			s.owned = false
			clear(s.kept)
			clear(s.refused)
			clear(s.listeners)
			s.order, s.bytes = nil, 0
		}
		return
	}
	if !s.owned {
		s.owned, s.since, s.digested = true, now, now
	}
	if last := s.owners.Latest(); last == nil || last.Hash != v.Epoch.Hash {
		s.owners.Accept(v.Epoch)
	}
	for p, l := range s.listeners {
		if now.After(l.until) {
			delete(s.listeners, p)
		}
	}
	for len(s.order) > 0 && (now.Sub(s.order[0].at) > keepFor || len(s.order) > maxKept) {
		f.unkeep(s)
	}
	rank := time.Duration(f.rank(s))
	if !f.idles(s, now) && now.Sub(s.digested) >= digestEvery+2*rank*rankPause {
		s.digested = now
		for _, m := range s.digests(now.Add(-digestSpan), now) {
			f.stats.Digests++
			f.broadcast(s, m)
		}
	}
}

// unkeep forgets the oldest entry.
func (f *Firehose) unkeep(s *shard) {
	c := s.order[0]
	s.order = s.order[1:]
	s.bytes -= len(c.raw)
	delete(s.kept, c.entry.Hash)
}

// rank is this node's among the owners of a shard, 0 for its sequencer.
func (f *Firehose) rank(s *shard) int {
	return max(slices.IndexFunc(s.owners.Owners(), func(p env.Peer) bool { return p.ID == f.self }), 0)
}

// idles says whether nobody listens, as far as this node can know.
func (f *Firehose) idles(s *shard, now time.Time) bool {
	return s.owned && len(s.listeners) == 0 && now.Sub(s.since) > listenFor
}

// carry takes a report of a peer: as a filter that has asked for it, or as an owner of its
// shard. It returns false for one that is wrong.
func (f *Firehose) carry(s *shard, blob []byte, from env.PeerID, now time.Time) bool {
	m, d, err := openReport(f.verify, f.node.Network(), blob)
	if err != nil || f.shardOf(d.Entry.Key) != s {
		return false
	}
	if l := s.lacks[d.Entry.Hash]; l != nil && l.key == d.Entry.Key {
		delete(s.lacks, d.Entry.Hash)
		f.stats.Lacked++
		f.take(s, d, now)
		if s.owned && s.kept[d.Entry.Hash] == nil {
			f.keep(s, d, m.Dispatch, now, false)
		}
		return true
	}
	if len(m.Epoch) == 0 {
		_, had := s.seen[d.Entry.Hash]
		return had || s.kept[d.Entry.Hash] != nil // else nobody has asked for it
	}
	if !s.owned {
		return false
	}
	if s.kept[d.Entry.Hash] != nil {
		return true
	}
	e, err := f.epochs.open(f.owners, m.Epoch)
	if err != nil || e.Key != d.Entry.Key || e.Sequencer != from || !signedIn(d.Entry, e) || now.Sub(d.Entry.Time) > freshFor+time.Minute {
		f.stats.Forged++
		return false
	}
	f.stats.Carried++
	f.take(s, d, now) // an owner that is a filter hears itself
	f.keep(s, d, m.Dispatch, now, false)
	return true
}

// signedIn says whether an entry may be in a log whose last epoch is e.
func signedIn(n *owner.Entry, e *owner.Epoch) bool {
	if n.At.Branch == e.Branch && n.At.Epoch == e.Number {
		return n.Signer == e.Sequencer
	}
	return n.At.Branch != e.Branch || n.At.Epoch < e.Number // of an earlier one, which is over
}

// keep keeps an entry, and sees to it that it is broadcast, unless it came so.
func (f *Firehose) keep(s *shard, d Dispatch, raw []byte, now time.Time, out bool) {
	c := &carried{entry: d.Entry, raw: raw, at: now, out: out}
	s.kept[d.Entry.Hash] = c
	s.order = append(s.order, c)
	s.bytes += len(raw)
	for _, old := range s.order {
		if s.bytes <= maxKeptBytes {
			break
		}
		s.bytes -= len(old.raw)
		old.raw = nil
	}
	switch rank := time.Duration(f.rank(s)); {
	case out:
	case rank == 0:
		f.publish(s, c, now)
	default:
		f.after(rank*rankPause, task{kind: taskPublish, shard: s.n, entry: d.Entry.Hash})
	}
}

// urgePublish broadcasts what another owner should have.
func (f *Firehose) urgePublish(s *shard, hash owner.Hash, now time.Time) {
	if c := s.kept[hash]; c != nil && !c.out && s.owned {
		f.stats.Rescued++
		f.publish(s, c, now)
	}
}

// publish broadcasts an entry. One that is too large for that is listed: who wants it asks.
func (f *Firehose) publish(s *shard, c *carried, now time.Time) {
	c.out = true
	if f.idles(s, now) {
		return
	}
	f.stats.Broadcast++
	m := &firehosepb.Broadcast{Dispatch: c.raw}
	if len(c.raw) > env.MaxTopicFrame-512 {
		m = &firehosepb.Broadcast{List: &firehosepb.List{Lines: []*firehosepb.Line{c.line()}}}
	}
	f.broadcast(s, m)
}

func (c *carried) line() *firehosepb.Line {
	return &firehosepb.Line{Key: c.entry.Key[:], Entry: c.entry.Hash[:], AtMs: uint64(c.at.UnixMilli())}
}

// digests list what is kept since a time, as it is at now.
func (s *shard) digests(since, now time.Time) (of []*firehosepb.Broadcast) {
	if since.Before(s.since) { // before that it got nothing
		since = s.since
	}
	m := &firehosepb.Digest{SinceMs: uint64(since.UnixMilli())}
	i, _ := slices.BinarySearchFunc(s.order, since, func(c *carried, t time.Time) int { return c.at.Compare(t) })
	for _, c := range s.order[i:] {
		if len(m.Lines) == maxLines {
			m.UntilMs = uint64(c.at.UnixMilli())
			of = append(of, &firehosepb.Broadcast{Digest: m})
			m = &firehosepb.Digest{SinceMs: m.UntilMs}
		}
		m.Lines = append(m.Lines, c.line())
	}
	m.UntilMs = uint64(now.UnixMilli())
	m.Sums = s.sums(now)
	return append(of, &firehosepb.Broadcast{Digest: m})
}

// sealed signs what goes out to filters.
func (f *Firehose) sealed(s *shard, m *firehosepb.Broadcast) []byte {
	m.Shard, m.TimeMs = uint32(s.n), uint64(f.clock.Now().UnixMilli())
	return f.signer.Sign(wire.DomainShard, marshal(m)).Raw
}

func (f *Firehose) broadcast(s *shard, m *firehosepb.Broadcast) {
	f.keepTopic(s)
	f.topics.Publish(s.topic, f.sealed(s, m))
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
	s.listeners[from] = &listener{c, now.Add(listenFor)}
	meet := &firehosepb.Meet{Shard: m.Shard, TimeMs: uint64(now.UnixMilli())}
	known := sortedPeers(s.listeners)
	for range min(maxMeet, len(known)) {
		if p := known[f.rand.IntN(len(known))]; p != from {
			meet.Records = append(meet.Records, s.listeners[p].contact.Raw)
		}
	}
	f.send(c.Peer, env.Control, &firehosepb.Message{Body: &firehosepb.Message_Meet{Meet: meet}})
	if m.SinceMs > 0 {
		for _, d := range s.digests(time.UnixMilli(int64(m.SinceMs)), now) {
			f.send(c.Peer, env.Bulk, &firehosepb.Message{Body: &firehosepb.Message_Told{Told: f.sealed(s, d)}})
		}
	}
	return nil
}

// onLack answers who lacks an entry: an owner of the shard has it, or one of its channel.
func (f *Firehose) onLack(from env.PeerID, m *firehosepb.Lack) {
	s := f.shards[m.Shard]
	answer := func(dispatch []byte) {
		f.pass(s, f.peer(from), marshal(&firehosepb.Report{Dispatch: dispatch}), func(answer) {})
	}
	if c := s.kept[owner.Hash(m.Entry)]; c != nil && c.raw != nil {
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
