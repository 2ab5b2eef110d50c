package libp2p

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

func TestFullQueueDropsTheOldest(t *testing.T) {
	q := newQueue()
	for i := range maxQueue + 10 {
		if got, want := q.push([]byte(fmt.Sprint(i))), i/maxQueue; i < maxQueue && got != 0 || i >= maxQueue && got != want {
			t.Fatalf("push %d dropped %d", i, got)
		}
	}
	if f, ok := q.pop(); !ok || string(f) != "10" {
		t.Errorf("oldest is %q", f)
	}
}

// TestQueueIsASlice compares a queue with a slice that drops from its front.
func TestQueueIsASlice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := newQueue()
		var model [][]byte
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "do") {
			case 0:
				if got := q.clear(); got != len(model) {
					t.Fatalf("cleared %d, want %d", got, len(model))
				}
				model = nil
			case 1, 2, 3:
				f, ok := q.pop()
				if ok != (len(model) > 0) || ok && &f[0] != &model[0][0] {
					t.Fatalf("popped the wrong frame")
				}
				model = model[min(1, len(model)):]
			default:
				f := make([]byte, rapid.IntRange(1, maxQueueBytes/3).Draw(t, "size"))
				model = append(model, f)
				want := 0
				for size(model) > maxQueueBytes || len(model) > maxQueue {
					model = model[1:]
					want++
				}
				if got := q.push(f); got != want {
					t.Fatalf("dropped %d, want %d", got, want)
				}
			}
			if q.len() != len(model) {
				t.Fatalf("%d frames, want %d", q.len(), len(model))
			}
		}
	})
}

func size(frames [][]byte) (n int) {
	for _, f := range frames {
		n += len(f)
	}
	return n
}
