package env

import (
	"math"
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

// The count that orders entries of one instant wraps round after four billion.
func TestCalendarKeepsOrderAsItsCountWraps(t *testing.T) {
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

// A layer's calendar at the size of the full simulation: 5,000 polls of one
// node, each put back as it comes.
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
