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

// A lack is an entry that a filter knows of and has not got.
type lack struct {
	key   overlay.ID
	tries int
	ways  []env.Peer // who are asked next
	found bool       // the channel's owners are among them
}

const (
	// listenAgain is the time between two Listens to the owners of a shard.
	listenAgain = listenFor / 3
	// lackPause is waited for an entry that a digest lists: it may be on its way.
	lackPause = 2 * time.Second
	// lackAgain is waited for an answer, so much longer after each try.
	lackAgain = 2 * time.Second
	lackTries = 10
	// maxLacks bounds the entries of a shard that are asked for at once. Further ones
	// are listed by the next digest again.
	maxLacks = 1024
	// maxSeen bounds the entries of a shard that are known to have come: thirty a second for
	// an hour. Further ones may come twice, and are the Application's to tell apart.
	maxSeen = 1 << 17
	// maxMet bounds the filters with whom one keeps in touch for a shard.
	maxMet = 12
	// maxBehind is how often owners are asked what went out while a filter was away.
	maxBehind = 3
	// deafAfter is how long a filter waits for a digest before something is wrong.
	deafAfter = 3 * digestEvery
)

// keepListening sees to it that a filter hears of a shard.
func (f *Firehose) keepListening(s *shard, now time.Time) {
	if f.node.State() != overlay.Active && f.node.State() != overlay.Attached {
		return
	}
	e := s.owners.Latest()
	switch {
	case e == nil:
		s.owners.Refresh()
	case now.Sub(s.listened) >= listenAgain || s.toldAs != e.Hash:
		f.listen(s, now)
		s.owners.Refresh() // there may be another epoch
		maps.DeleteFunc(s.seen, func(_ owner.Hash, at time.Time) bool { return now.Sub(at) > keepFor+freshFor })
	case now.Sub(s.heard) > deafAfter:
		s.owners.Refresh()
	}
}

// listen tells the owners of a shard that this node is a filter.
func (f *Firehose) listen(s *shard, now time.Time) {
	others := s.toldAs != s.owners.Latest().Hash
	s.listened, s.toldAs = now, s.owners.Latest().Hash
	m := &firehosepb.Listen{Shard: uint32(s.n), Record: f.node.Self().Raw}
	since := time.Time{}
	if !s.upTo.IsZero() && now.Sub(s.upTo) > digestSpan-digestEvery {
		since = s.upTo
		if now.Sub(s.heard) < digestEvery {
			s.behind++
		}
	}
	if others && !s.doubt.IsZero() && now.Sub(s.doubt) < keepFor {
		since = s.doubt
	}
	if !since.IsZero() {
		m.SinceMs = uint64(since.Add(-digestSpan).UnixMilli()) // an owner may have got something late
	}
	for _, p := range s.owners.Owners() {
		if p.ID != f.self {
			f.send(p, env.Control, &firehosepb.Message{Body: &firehosepb.Message_Listen{Listen: m}})
		} else if s.owned {
			s.listeners[f.self] = &listener{f.node.Self(), now.Add(listenFor)}
		}
	}
}

// onMeet takes the names of others who listen, and for a new filter the time from which on it misses nothing: digests
// list what its owner has got since then, also to a next life of the filter.
func (f *Firehose) onMeet(from env.PeerID, m *firehosepb.Meet) error {
	s := f.shards[m.Shard]
	if !f.cfg.Filter || !s.owners.Owned(from) {
		return nil
	}
	now := f.clock.Now()
	if at := time.UnixMilli(int64(m.TimeMs)); s.upTo.IsZero() && s.owners.Owns(from) && m.TimeMs <= maxMillis && at.Sub(now).Abs() <= freshFor {
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
		if _, known := s.met[c.Peer.ID]; !known && len(s.met) >= maxMet {
			if replaced {
				continue
			}
			replaced = true // somebody goes, who may be long gone
			delete(s.met, sortedPeers(s.met)[f.rand.IntN(len(s.met))])
		}
		s.met[c.Peer.ID] = c.Peer
	}
	f.keepTopic(s)
	return nil
}

// onTold takes a broadcast that was sent to this node alone.
func (f *Firehose) onTold(raw []byte) {
	signed, err := f.verify.Open(wire.DomainShard, raw)
	if err != nil {
		f.stats.Garbage++
		return
	}
	m := new(firehosepb.Broadcast)
	if proto.Unmarshal(signed.Payload, m) == nil && int(m.Shard) < len(f.shards) {
		f.hear(f.shards[m.Shard], raw)
	}
}

// hear takes a broadcast, as a filter or as an owner.
func (f *Firehose) hear(s *shard, raw []byte) env.Verdict {
	signed, err := f.verify.Open(wire.DomainShard, raw)
	if err != nil {
		f.stats.Garbage++
		return env.Blame
	}
	m, err := openBroadcast(signed.Payload, s.n)
	if err != nil {
		f.stats.Garbage++
		return env.Blame
	}
	now := f.clock.Now()
	by := wire.PeerIDOf(signed.Key)
	if by == f.self {
		return env.Drop
	}
	if !s.owners.Owned(by) {
		f.stats.Strange++
		s.owners.Refresh() // there may be another epoch
		return env.Drop
	}
	if at := time.UnixMilli(int64(m.TimeMs)); at.Sub(now).Abs() > freshFor {
		return env.Drop
	}
	switch {
	case m.Digest != nil:
		s.digested = now
		if s.owned {
			f.compare(s, by, m.Digest.Sums, now)
		}
		f.onDigest(s, by, m.Digest, now)
		return env.Pass
	case m.List != nil:
		if s.owned && len(m.List.Minutes) > 0 {
			f.list(s, by, m.List.Minutes, false, now)
		}
		f.onLines(s, by, m.List.Lines, now)
		return env.Pass
	}
	d, err := openDispatch(f.verify, f.node.Network(), m.Dispatch)
	if err != nil {
		f.stats.Garbage++
		return env.Blame
	}
	if f.shardOf(d.Entry.Key) != s {
		return env.Drop
	}
	news := f.take(s, d, now)
	if s.owned {
		if c := s.kept[d.Entry.Hash]; c != nil {
			news = news || !c.out
			c.out = true
		} else {
			news = true
			f.keep(s, d, m.Dispatch, now, true)
		}
	}
	if !news {
		return env.Drop // another owner has sent it, too
	}
	return env.Pass
}

// take hands up an entry that a filter did not have; false if it did, or this is no filter.
func (f *Firehose) take(s *shard, d Dispatch, now time.Time) bool {
	if _, had := s.seen[d.Entry.Hash]; had || !f.cfg.Filter {
		return false
	}
	delete(s.lacks, d.Entry.Hash)
	if !f.app.Dispatched(d) {
		f.stats.Refused++
		return true // others have room for it
	}
	if f.stats.Heard++; len(s.seen) < maxSeen {
		s.seen[d.Entry.Hash] = now
	}
	return true
}

// onDigest takes what a digest says.
func (f *Firehose) onDigest(s *shard, by env.PeerID, m *firehosepb.Digest, now time.Time) {
	if f.cfg.Filter {
		f.covered(s, by, m, now)
	}
	f.onLines(s, by, m.Lines, now)
}

// onLines looks which of the entries that an owner names this node lacks.
func (f *Firehose) onLines(s *shard, by env.PeerID, lines []*firehosepb.Line, now time.Time) {
	for _, l := range lines {
		hash := owner.Hash(l.Entry)
		if s.lacks[hash] != nil || !f.wants(s, l, hash, now) {
			continue
		}
		if len(s.lacks) >= maxLacks {
			break
		}
		s.lacks[hash] = &lack{key: overlay.ID(l.Key), ways: f.ways(s, by)}
		f.after(lackPause, task{kind: taskLack, shard: s.n, entry: hash})
	}
}

// wants says whether this node has to have an entry that it has not.
func (f *Firehose) wants(s *shard, l *firehosepb.Line, hash owner.Hash, now time.Time) bool {
	if f.cfg.Filter {
		_, had := s.seen[hash]
		if !had && time.UnixMilli(int64(l.AtMs)).Before(s.began) {
			s.seen[hash], had = now, true // it went out before this node listened
		}
		if !had {
			return true
		}
	}
	return s.owned && s.kept[hash] == nil && !s.refused[hash]
}

// covered notes until when a filter knows of everything, now that a digest came.
func (f *Firehose) covered(s *shard, by env.PeerID, m *firehosepb.Digest, now time.Time) {
	s.heard = now
	since, until := time.UnixMilli(int64(m.SinceMs)), time.UnixMilli(int64(m.UntilMs))
	switch {
	case !s.owners.Owns(by): // it says nothing of what others have got since
	case s.upTo.IsZero():
		f.begin(s, until, now)
	case until.Before(s.upTo):
	case !since.After(s.upTo):
		s.upTo, s.behind = until, 0
	case !s.doubt.IsZero() && now.Sub(s.doubt) < keepFor: // it will be asked for again
		s.upTo, s.behind = until, 0
	case s.behind > maxBehind: // no owner remembers
		f.stats.Gaps++
		f.log.Warn("filter was disconnected for too long and lost entries", "shard", s.n, "since", s.upTo, "until", since)
		s.upTo, s.behind = until, 0
	}
}

// begin notes from when on a filter misses nothing.
func (f *Firehose) begin(s *shard, at, now time.Time) {
	s.began, s.upTo = at, at
	f.remembered = time.Time{}
	f.remember(now)
}

// ways are the owners of a shard whom one asks for an entry, who told of it the first.
func (f *Firehose) ways(s *shard, by env.PeerID) (of []env.Peer) {
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
func (f *Firehose) urgeLack(s *shard, hash owner.Hash, now time.Time) {
	l := s.lacks[hash]
	if l == nil {
		return
	}
	if l.tries++; l.tries > lackTries {
		delete(s.lacks, hash)
		f.stats.Missed++
		if s.seen[hash] = now; s.owned && len(s.refused) < maxLacks { // listed again, it is not missed twice
			s.refused[hash] = true
		}
		f.log.Warn("filter lost an entry that no node could send again", "shard", s.n, "channel", l.key.String())
		return
	}
	if len(l.ways) == 0 && !l.found {
		l.found = true
		f.owners.FindOwners(l.key, func(found owner.Found) {
			for _, c := range found.Peers() {
				l.ways = append(l.ways, c.Peer)
			}
		})
	}
	if len(l.ways) > 0 {
		next := l.ways[0]
		l.ways = l.ways[1:]
		f.send(next, env.Control, &firehosepb.Message{Body: &firehosepb.Message_Lack{Lack: &firehosepb.Lack{
			Shard: uint32(s.n), Key: l.key[:], Entry: hash[:],
		}}})
	}
	f.after(lackAgain+time.Duration(l.tries)*time.Second/2, task{kind: taskLack, shard: s.n, entry: hash})
}
