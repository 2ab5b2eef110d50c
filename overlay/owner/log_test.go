package owner

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// chained makes a log whose entries hold the given items and bytes, with a fixed time between them.
func chained(entries int, apart time.Duration, of func() (items, size int)) (log chain) {
	at := time.Unix(1_000_000_000, 0)
	for i := range entries {
		e := &Entry{At: Position{1, 1, uint64(i + 1)}, Prev: log.headHash(), Time: at, Hash: Hash{byte(i), byte(i >> 8), byte(i >> 16), 1}}
		e.Items, e.Size = of()
		at = at.Add(apart)
		log = append(log, e)
	}
	return log
}

// The next entry of a log takes the same number of steps however long the log is: the entries between the first and
// the last one, which are nil in this test, are not read.
func TestTheNextEntryOfALongLogTakesOneStep(t *testing.T) {
	log := chained(5_000, time.Millisecond, func() (int, int) { return 1, 500 })
	next := log.head()
	s := &keyLog{}
	s.set(log[:len(log)-1])
	for i := 1; i < len(s.chain)-1; i++ {
		s.chain[i] = nil
	}
	if s.has(next) || !s.has(s.head()) {
		t.Error("the next entry is taken for one of the log, or the last one for none")
	}
	if n := s.firstKept(next.Time, next.Items, next.Size); n != 0 {
		t.Errorf("%d entries leave the log", n)
	}
}

// The kept entries are those that a walk through the whole log finds, from the last entry back to the first one that is
// too old or too much.
func TestTheKeptPartOfALog(t *testing.T) {
	walk := func(log chain, now time.Time, items, size int) int {
		for i, e := range slices.Backward(log) {
			if items >= KeepItems && now.Sub(e.Time) > keepAge || items >= maxKeptItems || size >= maxKeptBytes {
				return i + 1
			}
			items += e.Items
			size += e.Size
		}
		return 0
	}
	rng := rand.New(rand.NewPCG(1, 2))
	limits := map[string]int{}
	for range 300 {
		apart := time.Duration(rng.Int64N(int64(4 * time.Hour)))
		items, size := 1+rng.IntN(60), 1+rng.IntN(200_000)
		s := &keyLog{}
		s.set(chained(rng.IntN(600), apart, func() (int, int) { return rng.IntN(items), rng.IntN(size) }))
		now, more, bytes := s.headTime().Add(apart), rng.IntN(300), rng.IntN(MaxBody)
		got, want := s.firstKept(now, more, bytes), walk(s.chain, now, more, bytes)
		if got != want {
			t.Fatalf("log of %d entries, %v apart: %d leave, not %d", len(s.chain), apart, got, want)
		}
		switch {
		case got == 0:
			limits["nothing"]++
		case more+s.items > maxKeptItems:
			limits["items"]++
		case bytes+s.size > maxKeptBytes:
			limits["bytes"]++
		default:
			limits["age"]++
		}
	}
	t.Log(limits)
	if len(limits) < 4 {
		t.Errorf("logs were cut for %v only", limits)
	}
}
