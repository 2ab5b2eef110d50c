package firehose

import (
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"tidings/cobra/firehose/firehosepb"
	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/owner"
)

// A lack is an entry that a filter knows of and has not ack.
type missingEntry struct {
	key            overlay.ID
	tries          int
	sources        []env.Peer // who are asked next
	askedForOwners bool       // the channel's owners are among them
}

const (
	// listenAgain is the time between two Listens to the owners of a shard.
	listenInterval = listenLease / 3
	// lackPause is waited for an entry that a digest lists: it may be on its way.
	requestDelay = 2 * time.Second
	// lackAgain is waited for an answer, so much longer after each try.
	requestRetry = 2 * time.Second
	maxRequests  = 10
	// maxLacks bounds the entries of a shard that are asked for at once. Further ones
	// are listed by the next digest again.
	maxMissing = 1024
	// maxSeen bounds the entries of a shard that are known to have come: thirty a second for
	// an hour. Further ones may come twice, and are the Application's to tell apart.
	maxReceived = 1 << 17
	// maxMet bounds the filters with whom one keeps in touch for a shard.
	maxIntroduced = 12
	// maxBehind is how often owners are asked what went out while a filter was away.
	maxCatchUps = 3
	// deafAfter is how long a filter waits for a digest before something is wrong.
	silenceLimit = 3 * digestInterval
)

// keepListening sees to it that a filter hears of a shard.
func (f *Firehose) runFilter(s *shard, now time.Time) {
	if f.node.State() != overlay.Active && f.node.State() != overlay.Attached {
		return
	}
	e := s.owners.Latest()
	switch {
	case e == nil:
		s.owners.Refresh()
	case now.Sub(s.listenSentAt) >= listenInterval || s.listenEpoch != e.Hash:
		f.sendListen(s, now)
		s.owners.Refresh() // there may be another epoch
		maps.DeleteFunc(s.received, func(_ owner.Hash, at time.Time) bool { return now.Sub(at) > keepTime+maxEntryAge })
	case now.Sub(s.digestReceivedAt) > silenceLimit:
		s.owners.Refresh()
	}
}

// listen tells the owners of a shard that this node is a filter.
func (f *Firehose) sendListen(s *shard, now time.Time) {
	others := s.listenEpoch != s.owners.Latest().Hash
	s.listenSentAt, s.listenEpoch = now, s.owners.Latest().Hash
	m := &firehosepb.Listen{Shard: uint32(s.number), Record: f.node.Self().Raw}
	since := time.Time{}
	if !s.completeUntil.IsZero() && now.Sub(s.completeUntil) > digestSpan-digestInterval {
		since = s.completeUntil
		if now.Sub(s.digestReceivedAt) < digestInterval {
			s.catchUps++
		}
	}
	if others && !s.unsureSince.IsZero() && now.Sub(s.unsureSince) < keepTime {
		since = s.unsureSince
	}
	if !since.IsZero() {
		m.SinceMs = uint64(since.Add(-digestSpan).UnixMilli()) // an owner may have ack something late
	}
	for _, p := range s.owners.Owners() {
		if p.ID != f.self {
			f.send(p, env.Control, &firehosepb.Message{Body: &firehosepb.Message_Listen{Listen: m}})
		} else if s.owned {
			s.listeners[f.self] = &listener{f.node.Self(), now.Add(listenLease)}
		}
	}
}

// onMeet takes the names of others who listen, and for a new filter the time from which on it misses nothing: digests
// list what its owner has ack since then, also to a next life of the filter.
func (f *Firehose) onListenAck(from env.PeerID, m *firehosepb.ListenAck) error {
	s := f.shards[m.Shard]
	if !f.cfg.Filter || !s.owners.Owned(from) {
		return nil
	}
	now := f.clock.Now()
	if at := time.UnixMilli(int64(m.TimeMs)); s.completeUntil.IsZero() && s.owners.Owns(from) && m.TimeMs <= maxMillis && at.Sub(now).Abs() <= maxEntryAge {
		f.begin(s, at, now)
	}
	replaced := false
	for _, raw := range m.Records {
		c, err := f.node.OpenRecord(raw)
		if err != nil {
			return err
		}
		if c.Peer.ID == f.self {
			continue
		}
		if _, known := s.introduced[c.Peer.ID]; !known && len(s.introduced) >= maxIntroduced {
			if replaced {
				continue
			}
			replaced = true // somebody goes, who may be long gone
			delete(s.introduced, sortedPeers(s.introduced)[f.rand.IntN(len(s.introduced))])
		}
		s.introduced[c.Peer.ID] = c.Peer
	}
	f.updateTopic(s)
	return nil
}

// onTold takes a broadcast that was sent to this node alone.
func (f *Firehose) onDirect(raw []byte) {
	signed, err := f.verify.Open(wire.DomainShard, raw)
	if err != nil {
		f.stats.Garbage++
		return
	}
	m := new(firehosepb.Broadcast)
	if proto.Unmarshal(signed.Payload, m) == nil && int(m.Shard) < len(f.shards) {
		f.onBroadcast(f.shards[m.Shard], raw)
	}
}

// hear takes a broadcast, as a filter or as an owner.
func (f *Firehose) onBroadcast(s *shard, raw []byte) env.Verdict {
	signed, err := f.verify.Open(wire.DomainShard, raw)
	if err != nil {
		f.stats.Garbage++
		return env.Reject
	}
	m, err := openBroadcast(signed.Payload, s.number)
	if err != nil {
		f.stats.Garbage++
		return env.Reject
	}
	now := f.clock.Now()
	by := wire.PeerIDOf(signed.Key)
	if by == f.self {
		return env.Ignore
	}
	if !s.owners.Owned(by) {
		f.stats.Strange++
		s.owners.Refresh() // there may be another epoch
		return env.Ignore
	}
	if at := time.UnixMilli(int64(m.TimeMs)); at.Sub(now).Abs() > maxEntryAge {
		return env.Ignore
	}
	switch {
	case m.Digest != nil:
		s.digestAt = now
		if s.owned {
			f.compare(s, by, m.Digest.Sums, now)
		}
		f.onDigest(s, by, m.Digest, now)
		return env.Accept
	case m.List != nil:
		if s.owned && len(m.List.Minutes) > 0 {
			f.sendList(s, by, m.List.Minutes, false, now)
		}
		f.onList(s, by, m.List.Entries, now)
		return env.Accept
	}
	d, err := openDispatch(f.verify, f.node.Network(), m.Dispatch)
	if err != nil {
		f.stats.Garbage++
		return env.Reject
	}
	if f.shardOf(d.Entry.Key) != s {
		return env.Ignore
	}
	news := f.dispatch(s, d, now)
	if s.owned {
		if c := s.entries[d.Entry.Hash]; c != nil {
			news = news || !c.published
			c.published = true
		} else {
			news = true
			f.storeEntry(s, d, m.Dispatch, now, true)
		}
	}
	if !news {
		return env.Ignore // another owner has sent it, too
	}
	return env.Accept
}

// take hands up an entry that a filter did not have; false if it did, or this is no filter.
func (f *Firehose) dispatch(s *shard, d Dispatch, now time.Time) bool {
	if _, had := s.received[d.Entry.Hash]; had || !f.cfg.Filter {
		return false
	}
	delete(s.missing, d.Entry.Hash)
	if !f.app.Dispatched(d) {
		f.stats.Refused++
		return true // others have room for it
	}
	if f.stats.Heard++; len(s.received) < maxReceived {
		s.received[d.Entry.Hash] = now
	}
	return true
}

// onDigest takes what a digest says.
func (f *Firehose) onDigest(s *shard, by env.PeerID, m *firehosepb.Digest, now time.Time) {
	if f.cfg.Filter {
		f.advance(s, by, m, now)
	}
	f.onList(s, by, m.Entries, now)
}

// onLines looks which of the entries that an owner names this node lacks.
func (f *Firehose) onList(s *shard, by env.PeerID, lines []*firehosepb.EntryRef, now time.Time) {
	for _, l := range lines {
		hash := owner.Hash(l.Entry)
		if s.missing[hash] != nil || !f.isMissing(s, l, hash, now) {
			continue
		}
		if len(s.missing) >= maxMissing {
			break
		}
		s.missing[hash] = &missingEntry{key: overlay.ID(l.Key), sources: f.sourcesOf(s, by)}
		f.schedule(requestDelay, task{kind: taskRequest, shard: s.number, entry: hash})
	}
}

// wants says whether this node has to have an entry that it has not.
func (f *Firehose) isMissing(s *shard, l *firehosepb.EntryRef, hash owner.Hash, now time.Time) bool {
	if f.cfg.Filter {
		_, had := s.received[hash]
		if !had && time.UnixMilli(int64(l.AtMs)).Before(s.beganAt) {
			s.received[hash], had = now, true // it went out before this node listened
		}
		if !had {
			return true
		}
	}
	return s.owned && s.entries[hash] == nil && !s.unobtainable[hash]
}

// covered notes until when a filter knows of everything, now that a digest came.
func (f *Firehose) advance(s *shard, by env.PeerID, m *firehosepb.Digest, now time.Time) {
	s.digestReceivedAt = now
	since, until := time.UnixMilli(int64(m.SinceMs)), time.UnixMilli(int64(m.UntilMs))
	switch {
	case !s.owners.Owns(by): // it says nothing of what others have ack since
	case s.completeUntil.IsZero():
		f.begin(s, until, now)
	case until.Before(s.completeUntil):
	case !since.After(s.completeUntil):
		s.completeUntil, s.catchUps = until, 0
	case !s.unsureSince.IsZero() && now.Sub(s.unsureSince) < keepTime: // it will be asked for again
		s.completeUntil, s.catchUps = until, 0
	case s.catchUps > maxCatchUps: // no owner remembers
		f.stats.Gaps++
		f.log.Warn("filter was disconnected for too long and lost entries", "shard", s.number, "since", s.completeUntil, "until", since)
		s.completeUntil, s.catchUps = until, 0
	}
}

// begin notes from when on a filter misses nothing.
func (f *Firehose) begin(s *shard, at, now time.Time) {
	s.beganAt, s.completeUntil = at, at
	f.progressSavedAt = time.Time{}
	f.saveProgress(now)
}

// ways are the owners of a shard whom one asks for an entry, who told of it the first.
func (f *Firehose) sourcesOf(s *shard, by env.PeerID) (of []env.Peer) {
	for _, p := range s.owners.Owners() {
		if p.ID == by {
			of = slices.Insert(of, 0, p)
		} else if p.ID != f.self {
			of = append(of, p)
		}
	}
	return of
}

// urgeLack asks the next one for an entry that is still missing.
func (f *Firehose) requestMissing(s *shard, hash owner.Hash, now time.Time) {
	l := s.missing[hash]
	if l == nil {
		return
	}
	if l.tries++; l.tries > maxRequests {
		delete(s.missing, hash)
		f.stats.Missed++
		if s.received[hash] = now; s.owned && len(s.unobtainable) < maxMissing { // listed again, it is not missed twice
			s.unobtainable[hash] = true
		}
		f.log.Warn("filter lost an entry that no node could send again", "shard", s.number, "channel", l.key.String())
		return
	}
	if len(l.sources) == 0 && !l.askedForOwners {
		l.askedForOwners = true
		f.owners.FindOwners(l.key, func(found owner.Found) {
			for _, c := range found.Peers() {
				l.sources = append(l.sources, c.Peer)
			}
		})
	}
	if len(l.sources) > 0 {
		next := l.sources[0]
		l.sources = l.sources[1:]
		f.send(next, env.Control, &firehosepb.Message{Body: &firehosepb.Message_Request{Request: &firehosepb.Request{
			Shard: uint32(s.number), Key: l.key[:], Entry: hash[:],
		}}})
	}
	f.schedule(requestRetry+time.Duration(l.tries)*time.Second/2, task{kind: taskRequest, shard: s.number, entry: hash})
}
