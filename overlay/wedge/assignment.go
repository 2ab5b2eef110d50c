package wedge

import (
	"cmp"
	"time"
)

// A Term orders the orders of one key: the larger Epoch wins, then the larger Seq.
type Term struct {
	Epoch uint64
	Seq   uint32
}

// Compare returns -1, 0 or 1 as t is earlier than u, the same, or later.
func (t Term) Compare(u Term) int {
	return cmp.Or(cmp.Compare(t.Epoch, u.Epoch), cmp.Compare(t.Seq, u.Seq))
}

// An Order is what a leader wants of a key's wedge.
type Order struct {
	Term Term
	// N is how many ranks there shall be: 0 dismisses the wedge, if this node leads it; at most
	// four times as many as the network has members.
	N int
	// Interval is the time between two turns of one rank: from a second to a week, in whole
	// milliseconds.
	Interval time.Duration
	// Ref is when the reference phase, that of rank 0, began. Zero: as this node knows it from
	// an earlier order for the key, or now.
	IntervalStart time.Time
	// Reach, if it is not 0, orders a wedge of polling levels in place of ranks, as Corona has
	// them: by digits of so many bits, 1 or 4. N is 1. See reach.go.
	DigitBits int
	// Words are the application's: at most MaxWords bytes, which must not be changed.
	Payload []byte
}

// MaxRanks is how many ranks one member serves at most, when there are fewer members than
// ranks where it stands.
const MaxRanks = 4

// Ranks are the ranks that one member serves, in their order: mostly one, at most MaxRanks.
type Ranks struct {
	count uint8
	list  [MaxRanks]uint32
}

// RankOf returns the ranks of a member that serves one.
func SingleRank(rank int) Ranks { return Ranks{count: 1, list: [MaxRanks]uint32{uint32(rank)}} }

// Len is how many there are.
func (r Ranks) Len() int { return int(r.count) }

// At returns the i-th rank.
func (r Ranks) At(i int) int { return int(r.list[:r.count][i]) }

func (r *Ranks) add(rank uint32) {
	r.list[r.count] = rank
	r.count++
}

// A Duty is a member's part in a key's wedge: what it has to do, and when. In a wedge of
// polling levels each member has the one rank of one, and a Ref of its own.
type Assignment struct {
	Term          Term
	Ranks         Ranks
	N             int       // n: how many ranks there are in all
	IntervalStart time.Time // when the leader's reference phase began, by this node's clock
	Interval      time.Duration
	Payload       []byte // must not be changed
}

// Next returns the first time after another at which the duty is due. Ref is measured
// along the tree, and may move by some milliseconds when the tree does: ask for the next
// time after now, not after the last that was due.
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

// Phase is when in an interval the rank has its turn, from 0 up to 1: the normalised
// van der Corput sequence. The phases of n ranks are 0, 1/n, 2/n ..., each once, and the
// ranks stand in such an order that those that are lost together, which stand beside each
// other, leave small gaps everywhere instead of one large one. It panics if there is no
// such rank.
func Phase(rank, n int) float64 {
	if rank < 0 || rank >= n {
		panic("wedge: phase of no rank")
	}
	return float64(phasePosition(rank, n)) / float64(n)
}

// position is how many ranks below n have a smaller bit reversal than rank has.
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
