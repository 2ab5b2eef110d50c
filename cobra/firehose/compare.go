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
	maxSums = 64
	// compareAfter is how old entries are that are compared: others are on their way.
	compareAfter = 2 * time.Minute
	// compareAgain is the time between two lists for one peer.
	compareAgain = 25 * time.Second
)

func minuteOf(t time.Time) uint32 { return uint32(t.Unix() / 60) }

// sums are those of what is kept.
func (s *shard) sums(now time.Time) []*firehosepb.Sum {
	by := map[uint32]*firehosepb.Sum{}
	for _, c := range s.order {
		if age := now.Sub(c.entry.Time); age < compareAfter || age > keepFor {
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
	return of[max(0, len(of)-maxSums):]
}

// differing are the minutes in which this node has something else than a digest's signer:
// all of them if the digest asks for that.
func (s *shard) differing(m *firehosepb.Digest, now time.Time) map[uint32]bool {
	of := map[uint32]bool{}
	theirs := map[uint32]*firehosepb.Sum{}
	for _, sum := range m.Sums {
		theirs[sum.Minute] = sum
		if m.Compare {
			of[sum.Minute] = true
		}
	}
	if m.Compare {
		return of
	}
	last := minuteOf(now.Add(-compareAfter))
	for _, mine := range s.sums(now) {
		their := theirs[mine.Minute]
		delete(theirs, mine.Minute)
		if mine.Minute < last && (their == nil || their.Count != mine.Count || their.Hash != mine.Hash) {
			of[mine.Minute] = true
		}
	}
	for minute := range theirs { // in which this node has nothing
		if minute < last && minute > minuteOf(now.Add(-keepFor)) {
			of[minute] = true
		}
	}
	return of
}

// compare sends another owner what this one has of the minutes in which they differ, and asks
// for the same.
func (f *Firehose) compare(s *shard, by env.PeerID, m *firehosepb.Digest, now time.Time) {
	minutes := s.differing(m, now)
	if len(minutes) == 0 || now.Sub(s.compared[by]) < compareAgain || !s.charter.owns(by) {
		return
	}
	if s.compared == nil || len(s.compared) >= maxCompared {
		s.compared = map[env.PeerID]time.Time{}
	}
	s.compared[by] = now
	list := &firehosepb.Digest{Compare: !m.Compare}
	send := func() {
		told := f.sealed(s, &firehosepb.Broadcast{Digest: list})
		f.send(f.peer(by), env.Bulk, &firehosepb.Message{Body: &firehosepb.Message_Told{Told: told}})
		list = &firehosepb.Digest{}
	}
	if list.Compare {
		for _, minute := range slices.Sorted(maps.Keys(minutes)) {
			list.Sums = append(list.Sums, &firehosepb.Sum{Minute: minute})
		}
		list.Sums = list.Sums[max(0, len(list.Sums)-maxSums):]
	}
	for _, c := range s.order {
		if minutes[minuteOf(c.entry.Time)] {
			if list.Lines = append(list.Lines, c.line()); len(list.Lines) == maxLines-maxSums {
				send()
			}
		}
	}
	if len(list.Lines) > 0 || list.Compare {
		send()
	}
}

// maxCompared bounds the peers that are remembered to have got a list.
const maxCompared = 64
