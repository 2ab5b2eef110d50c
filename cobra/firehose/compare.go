package firehose

import (
	"encoding/binary"
	"maps"
	"slices"
	"time"

	"tidings/cobra/firehose/firehosepb"
	"tidings/internal/env"
)

// The owners of a shard compare their entries. After a partition each side has entries that the other lacks, and a new
// owner knows nothing of the hour before. The comparison uses sums over the minutes in which entries were made, because
// these minutes are the same at all owners.

const (
	// maxMinutes bounds the minutes that are compared: those of an hour.
	maxMinutes = 64
	// minCompareAge is the age from which on entries are compared. Younger ones may still be on their way.
	minCompareAge = 2 * time.Minute
	// listInterval is the minimum time between two lists for one peer, and maxListPeers bounds the peers for which it is
	// kept. At the bound all are forgotten.
	listInterval = 25 * time.Second
	maxListPeers = 64
)

func minuteOf(t time.Time) uint32 { return uint32(t.Unix() / 60) }

// sums returns the sums of the kept entries, in the order of minutes.
func (k *keeper) sums(now time.Time) []*firehosepb.Sum {
	byMinute := map[uint32]*firehosepb.Sum{}
	for _, e := range k.byArrival {
		if age := now.Sub(e.entry.Time); age < minCompareAge || age > keepTime {
			continue
		}
		minute := minuteOf(e.entry.Time)
		if byMinute[minute] == nil {
			byMinute[minute] = &firehosepb.Sum{Minute: minute}
		}
		byMinute[minute].Count++
		byMinute[minute].Hash ^= binary.BigEndian.Uint64(e.entry.Hash[:8])
	}
	sums := make([]*firehosepb.Sum, 0, len(byMinute))
	for _, minute := range slices.Sorted(maps.Keys(byMinute)) {
		sums = append(sums, byMinute[minute])
	}
	return sums[max(0, len(sums)-maxMinutes):]
}

// differing returns the minutes of which another owner has other entries, by its sums. It leaves out the last minutes, and
// those that the other owner may have forgotten.
func (k *keeper) differing(theirs []*firehosepb.Sum, now time.Time) (minutes []uint32) {
	first, last := minuteOf(now.Add(-keepTime)), minuteOf(now.Add(-minCompareAge))
	sums := map[uint32]*firehosepb.Sum{}
	for _, t := range theirs {
		sums[t.Minute] = t
	}
	for _, mine := range k.sums(now) {
		t := sums[mine.Minute]
		if t == nil || t.Count != mine.Count || t.Hash != mine.Hash {
			minutes = append(minutes, mine.Minute)
		}
		delete(sums, mine.Minute)
	}
	minutes = slices.AppendSeq(minutes, maps.Keys(sums)) // minutes of which this node has no entries
	slices.Sort(minutes)
	return slices.DeleteFunc(minutes, func(m uint32) bool { return m <= first || m >= last })
}

// onDigest notes that another owner has broadcast a digest. If entries differ, this node sends the owner its list of these
// minutes, and asks for the owner's list.
func (k *keeper) onDigest(by env.PeerID, theirs []*firehosepb.Sum, now time.Time) {
	k.digestAt = now
	if !k.owned {
		return
	}
	if minutes := k.differing(theirs, now); len(minutes) > 0 {
		k.sendList(by, minutes[max(0, len(minutes)-maxMinutes):], true, now)
	}
}

// sendList sends another owner the list of this node's entries of some minutes, and asks for its list if ask is set. It
// does nothing if the owner was sent a list a moment ago.
func (k *keeper) sendList(to env.PeerID, minutes []uint32, ask bool, now time.Time) {
	if now.Sub(k.listSentAt[to]) < listInterval {
		return
	}
	if k.listSentAt == nil || len(k.listSentAt) >= maxListPeers {
		k.listSentAt = map[env.PeerID]time.Time{}
	}
	k.listSentAt[to] = now
	m := &firehosepb.List{}
	if ask {
		m.Minutes = minutes
	}
	send := func() {
		direct := k.sign(&firehosepb.Broadcast{List: m})
		k.send(k.peer(to), env.Bulk, &firehosepb.Message{Body: &firehosepb.Message_Direct{Direct: direct}})
		m = &firehosepb.List{}
	}
	for _, e := range k.byArrival {
		if slices.Contains(minutes, minuteOf(e.entry.Time)) {
			if m.Entries = append(m.Entries, e.ref()); len(m.Entries) == maxListed {
				send()
			}
		}
	}
	if len(m.Entries) > 0 || len(m.Minutes) > 0 {
		send()
	}
}
