package firehose

import (
	"encoding/binary"
	"maps"
	"slices"
	"time"

	"tidings/cobra/firehose/firehosepb"
	"tidings/internal/env"
)

// Owners of one shard compare what they have: after a partition each part has carried what
// the other has not, and who has become an owner knows nothing of the hour before. They do so
// by sums over the minutes in which entries were made, which say the same everywhere.

const (
	// maxSums bounds the minutes that are compared: those of an hour.
	maxMinutes = 64
	// compareAfter is how old entries are that are compared: others are on their way.
	minCompareAge = 2 * time.Minute
	// listAgain is the time between two lists for one peer; maxListed bounds the peers that
	// are remembered to have ack one.
	listInterval = 25 * time.Second
	maxListPeers = 64
)

func minuteOf(t time.Time) uint32 { return uint32(t.Unix() / 60) }

// sums are those of what is kept.
func (s *shard) sums(now time.Time) []*firehosepb.Sum {
	by := map[uint32]*firehosepb.Sum{}
	for _, c := range s.byArrival {
		if age := now.Sub(c.entry.Time); age < minCompareAge || age > keepTime {
			continue
		}
		minute := minuteOf(c.entry.Time)
		if by[minute] == nil {
			by[minute] = &firehosepb.Sum{Minute: minute}
		}
		by[minute].Count++
		by[minute].Hash ^= binary.BigEndian.Uint64(c.entry.Hash[:8])
	}
	of := make([]*firehosepb.Sum, 0, len(by))
	for _, minute := range slices.Sorted(maps.Keys(by)) {
		of = append(of, by[minute])
	}
	return of[max(0, len(of)-maxMinutes):]
}

// differing are the minutes in which this node has something else than another owner, by its
// sums. The last ones are left out, and those that the other may have forgotten.
func (s *shard) differing(theirs []*firehosepb.Sum, now time.Time) (of []uint32) {
	first, last := minuteOf(now.Add(-keepTime)), minuteOf(now.Add(-minCompareAge))
	sums := map[uint32]*firehosepb.Sum{}
	for _, t := range theirs {
		sums[t.Minute] = t
	}
	for _, mine := range s.sums(now) {
		t := sums[mine.Minute]
		if t == nil || t.Count != mine.Count || t.Hash != mine.Hash {
			of = append(of, mine.Minute)
		}
		delete(sums, mine.Minute)
	}
	of = slices.AppendSeq(of, maps.Keys(sums)) // in which this node has nothing
	slices.Sort(of)
	return slices.DeleteFunc(of, func(m uint32) bool { return m <= first || m >= last })
}

// compare sends another owner what this one has of the minutes in which they differ, and asks
// for the same.
func (f *Firehose) compare(s *shard, by env.PeerID, theirs []*firehosepb.Sum, now time.Time) {
	if minutes := s.differing(theirs, now); len(minutes) > 0 {
		f.sendList(s, by, minutes[max(0, len(minutes)-maxMinutes):], true, now)
	}
}

// list sends another owner what this one has of some minutes, now and then. asks: it wants
// the same from there.
func (f *Firehose) sendList(s *shard, to env.PeerID, minutes []uint32, asks bool, now time.Time) {
	if now.Sub(s.listSentAt[to]) < listInterval {
		return
	}
	if s.listSentAt == nil || len(s.listSentAt) >= maxListPeers {
		s.listSentAt = map[env.PeerID]time.Time{}
	}
	s.listSentAt[to] = now
	m := &firehosepb.List{}
	if asks {
		m.Minutes = minutes
	}
	send := func() {
		told := f.sign(s, &firehosepb.Broadcast{List: m})
		f.send(f.peer(to), env.Bulk, &firehosepb.Message{Body: &firehosepb.Message_Direct{Direct: told}})
		m = &firehosepb.List{}
	}
	for _, c := range s.byArrival {
		if slices.Contains(minutes, minuteOf(c.entry.Time)) {
			if m.Entries = append(m.Entries, c.reference()); len(m.Entries) == maxListed {
				send()
			}
		}
	}
	if len(m.Entries) > 0 || len(m.Minutes) > 0 {
		send()
	}
}
