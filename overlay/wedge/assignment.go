package wedge

import (
	"cmp"
	"time"
)

// A Term says which of two orders of a key is later: the one with the larger Epoch, or with the
// larger Seq if the epochs are equal.
type Term struct {
	Epoch uint64
	Seq   uint32
}

// Compare returns -1, 0 or 1 if t is earlier than u, equal, or later.
func (t Term) Compare(u Term) int {
	return cmp.Or(cmp.Compare(t.Epoch, u.Epoch), cmp.Compare(t.Seq, u.Seq))
}

// An Order is what a leader demands of a key's wedge.
type Order struct {
	Term Term
	// N is the number of ranks, at most four per member of the network. 0 dismisses the wedge, if
	// this node leads it.
	N int
	// Interval is the time between two turns of one rank: a second to a week, in whole
	// milliseconds.
	Interval time.Duration
	// IntervalStart is a time at which an interval, and with it the turn of rank 0, begins. Zero:
	// as in the node's earlier order for the key, or else now.
	IntervalStart time.Time
	// DigitBits, 1 or 4, makes this a wedge of polling levels with digits of that size, as in
	// Corona; N is then 1. 0: a wedge of ranks. See levels.go.
	DigitBits int
	// Payload belongs to the application: at most MaxPayload bytes, which must not be changed.
	Payload []byte
}

// MaxRanks bounds the ranks that one member serves. A member gets more than one rank if there are
// more ranks than members in its part of the network.
const MaxRanks = 4

// Ranks is the sorted list of the ranks that one member serves: usually one, at most MaxRanks.
type Ranks struct {
	count uint8
	list  [MaxRanks]uint32
}

// SingleRank returns a list of one rank.
func SingleRank(rank int) Ranks { return Ranks{count: 1, list: [MaxRanks]uint32{uint32(rank)}} }

// Len returns the number of ranks.
func (r Ranks) Len() int { return int(r.count) }

// At returns the i-th rank.
func (r Ranks) At(i int) int { return int(r.list[:r.count][i]) }

func (r *Ranks) add(rank uint32) {
	r.list[r.count] = rank
	r.count++
}

// An Assignment is a member's part in a key's wedge: its ranks, and the times of their turns. In a
// wedge of polling levels every member has rank 0 of 1, and an IntervalStart of its own.
type Assignment struct {
	Term          Term
	Ranks         Ranks
	N             int       // number of ranks of the wedge
	IntervalStart time.Time // start of an interval of the leader, by this node's clock
	Interval      time.Duration
	Payload       []byte // of the order; must not be changed
}

// Next returns the first turn after a time. IntervalStart is measured along the tree and may shift
// by some milliseconds when the tree changes, so callers pass the present time rather than the last
// turn.
func (d Assignment) Next(after time.Time) (next time.Time) {
	for i := range d.Ranks.Len() {
		turn := time.Duration(Phase(d.Ranks.At(i), d.N) * float64(d.Interval))
		since := after.Sub(d.IntervalStart) - turn
		rounds := since / d.Interval
		if since >= 0 || since%d.Interval == 0 {
			rounds++
		}
		if at := d.IntervalStart.Add(turn + rounds*d.Interval); next.IsZero() || at.Before(next) {
			next = at
		}
	}
	return next
}

// Phase returns the position of a rank's turn within the interval, from 0 up to but excluding 1.
// The phases of n ranks are 0, 1/n, 2/n ..., each once, in the order of the normalised van der
// Corput sequence: members that are lost together have adjacent ranks, and leave small gaps
// everywhere instead of one large one. Phase panics if the rank is not below n.
func Phase(rank, n int) float64 {
	if rank < 0 || rank >= n {
		panic("wedge: rank out of range")
	}
	return float64(phasePosition(rank, n)) / float64(n)
}

// phasePosition returns how many ranks below n have a smaller bit reversal than rank.
func phasePosition(rank, n int) (pos int) {
	for t := 0; rank>>t > 0; t++ {
		if rank>>t&1 == 0 {
			continue
		}
		if low := rank & (1<<t - 1); low < n {
			pos += (n-1-low)>>(t+1) + 1
		}
	}
	return pos
}
