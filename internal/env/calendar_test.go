package env

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestCalendarKeepsOrder compares a calendar with a stably sorted slice.
func TestCalendarKeepsOrder(t *testing.T) {
	type want struct {
		at  time.Time
		key int
	}
	rapid.Check(t, func(t *rapid.T) {
		start := time.Unix(1_700_000_000, 0)
		var c Calendar[int]
		var model []want
		now := start
		for i := range rapid.IntRange(1, 200).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "add") {
				at := now.Add(time.Duration(rapid.IntRange(-2, 20).Draw(t, "in")) * time.Second)
				c.Add(at, i)
				model = append(model, want{at, i})
				slices.SortStableFunc(model, func(a, b want) int { return a.at.Compare(b.at) })
				continue
			}
			now = now.Add(time.Duration(rapid.IntRange(0, 5).Draw(t, "pass")) * time.Second)
			for len(model) > 0 && !model[0].at.After(now) {
				key, at, ok := c.Pop(now)
				if !ok || key != model[0].key || !at.Equal(model[0].at) {
					t.Fatalf("popped %d at %v (%v), want %d at %v", key, at, ok, model[0].key, model[0].at)
				}
				model = model[1:]
			}
			if key, at, ok := c.Pop(now); ok {
				t.Fatalf("popped %d at %v before its time", key, at)
			}
		}
		if c.Len() != len(model) {
			t.Fatalf("%d entries left, want %d", c.Len(), len(model))
		}
		if len(model) > 0 && !c.Next().Equal(model[0].at) {
			t.Fatalf("next %v, want %v", c.Next(), model[0].at)
		}
	})
}

// TestLargeCalendarKeepsOrder adds enough entries for a ring: near and distant ones, many at the
// same instant. At times most of them are popped.
func TestLargeCalendarKeepsOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		unit := []time.Duration{1, time.Millisecond, time.Hour}[rapid.IntRange(0, 2).Draw(t, "unit")]
		now := time.Unix(1_700_000_000, 0)
		var c Calendar[int]
		var model heap[int]
		for phase := range rapid.IntRange(1, 6).Draw(t, "phases") {
			for i := range rapid.IntRange(0, 2000).Draw(t, "adds") {
				in := time.Duration(r.IntN(1000))
				switch r.IntN(20) {
				case 0:
					in *= 1000 // distant
				case 1:
					in = -in // overdue
				case 2:
					in = 500 // many at the same instant
				}
				at, key := now.Add(in*unit), phase*10_000+i
				c.Add(at, key)
				model.push(entry[int]{at.UnixNano(), c.seq, key})
				if r.IntN(4) == 0 {
					now = now.Add(time.Duration(r.IntN(20)) * unit)
					drain(t, &c, &model, now)
				}
			}
			now = now.Add(time.Duration(r.IntN(1500)) * unit)
			drain(t, &c, &model, now)
		}
		if drain(t, &c, &model, now.Add(1_000_000*unit)); c.Len() != 0 {
			t.Fatalf("%d entries left", c.Len())
		}
	})
}

// drain pops all due entries from a calendar and from its model.
func drain(t *rapid.T, c *Calendar[int], model *heap[int], now time.Time) {
	for len(*model) > 0 && (*model)[0].at <= now.UnixNano() {
		want := model.pop()
		if next := c.Next(); next.UnixNano() != want.at {
			t.Fatalf("next %v, want %v", next, time.Unix(0, want.at))
		}
		if key, at, ok := c.Pop(now); !ok || key != want.key || at.UnixNano() != want.at {
			t.Fatalf("popped %d at %v (%v), want %d at %v", key, at, ok, want.key, time.Unix(0, want.at))
		}
	}
	if key, at, ok := c.Pop(now); ok {
		t.Fatalf("popped %d at %v before its time", key, at)
	}
	if c.Len() != len(*model) {
		t.Fatalf("%d entries left, want %d", c.Len(), len(*model))
	}
}

// The sequence number that orders entries of the same instant wraps round after four billion
// entries.
func TestCalendarKeepsOrderWhenSequenceNumbersWrap(t *testing.T) {
	c := Calendar[int]{seq: math.MaxUint32 - 5}
	now := time.Unix(1_700_000_000, 0)
	for i := range 10 {
		c.Add(now, i)
	}
	for want := range 10 {
		if got, _, ok := c.Pop(now); !ok || got != want {
			t.Errorf("popped %d (%v), want %d", got, ok, want)
		}
	}
}

// A node that joins thousands of groups at once has many entries then, and few afterwards.
func TestCalendarFreesMemory(t *testing.T) {
	const many, few = 4000, 600
	var c Calendar[int]
	now := time.Unix(1_700_000_000, 0)
	for i := range many {
		c.Add(now.Add(time.Duration(i)*time.Second), i)
	}
	for c.Len() > few {
		c.Pop(c.Next())
	}
	for range 3 * few { // each is put back
		key, at, _ := c.Pop(c.Next())
		c.Add(at.Add(few*time.Second), key)
	}
	if room := cap(c.ring.blocks) * blockSize; room > 4*few {
		t.Errorf("room for %d on sheets, with %d entries", room, c.Len())
	}
}

func TestSoonerTakesZeroForNever(t *testing.T) {
	a, b, never := time.Unix(1, 0), time.Unix(2, 0), time.Time{}
	for _, c := range []struct{ x, y, want time.Time }{
		{a, b, a}, {b, a, a}, {a, never, a}, {never, a, a}, {never, never, never},
	} {
		if got := Sooner(c.x, c.y); !got.Equal(c.want) {
			t.Errorf("Sooner(%v, %v) = %v, want %v", c.x, c.y, got, c.want)
		}
	}
}

// BenchmarkCalendar has the size of a layer's calendar in the full simulation: 5,000 polls of one
// node, each put back when it is popped.
func BenchmarkCalendar(b *testing.B) {
	var c Calendar[int32]
	now := time.Unix(1_700_000_000, 0)
	for i := range int32(5000) {
		c.Add(now.Add(time.Duration(i)*360*time.Millisecond), i)
	}
	for b.Loop() {
		now = c.Next()
		key, at, _ := c.Pop(now)
		c.Add(at.Add(30*time.Minute), key)
	}
}
