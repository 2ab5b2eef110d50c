package libp2p

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"tidings/internal/env"
)

func TestFullQueueDropsTheOldest(t *testing.T) {
	for _, c := range []struct {
		urgent bool
		most   int
	}{{false, maxQueue}, {true, maxUrgent}} {
		q := newQueue()
		for i := range c.most + 10 {
			if got, want := q.push([]byte(fmt.Sprint(i)), c.urgent), i/c.most; got != want {
				t.Fatalf("push %d dropped %d", i, got)
			}
		}
		if f, ok := q.pop(); !ok || string(f) != "10" {
			t.Errorf("oldest is %q", f)
		}
	}
}

// The queue behaves as two slices that drop from their fronts, of which the urgent one is popped first.
func TestQueueBehavesAsTwoSlices(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := newQueue()
		var urgent, rest [][]byte
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "do") {
			case 0:
				if got := q.clear(); got != len(urgent)+len(rest) {
					t.Fatalf("cleared %d, want %d", got, len(urgent)+len(rest))
				}
				urgent, rest = nil, nil
			case 1, 2, 3:
				from := &rest
				if len(urgent) > 0 {
					from = &urgent
				}
				f, ok := q.pop()
				if ok != (len(*from) > 0) || ok && &f[0] != &(*from)[0][0] {
					t.Fatalf("popped the wrong frame")
				}
				*from = (*from)[min(1, len(*from)):]
			case 4, 5, 6:
				push(t, q, &urgent, true, maxUrgent, maxUrgentBytes)
			default:
				push(t, q, &rest, false, maxQueue, maxQueueBytes)
			}
			if q.len() != len(urgent)+len(rest) {
				t.Fatalf("%d frames, want %d", q.len(), len(urgent)+len(rest))
			}
		}
	})
}

func push(t *rapid.T, q *queue, model *[][]byte, urgent bool, most, mostBytes int) {
	f := make([]byte, rapid.IntRange(1, mostBytes/3).Draw(t, "size"))
	*model = append(*model, f)
	want := 0
	for size(*model) > mostBytes || len(*model) > most {
		*model = (*model)[1:]
		want++
	}
	if got := q.push(f, urgent); got != want {
		t.Fatalf("dropped %d, want %d", got, want)
	}
}

func size(frames [][]byte) (n int) {
	for _, f := range frames {
		n += len(f)
	}
	return n
}

// A node that sends thousands of answers to one peer can still tell it that it is alive: urgent frames are sent
// first, and are not dropped in favour of others.
func TestUrgentFramesAreNotDroppedForOthers(t *testing.T) {
	t.Parallel()
	a := startTestHost(t, func(c *Config) { c.Urgent = func(frame []byte) bool { return frame[0] == '!' } })
	b := startTestHost(t, nil)
	for range maxDials {
		a.dialSlots <- struct{}{} // so that no link can be opened yet
	}
	a.Send(b.Peer(), env.Control, []byte("! I live"))
	const answers = 3000
	for i := range answers {
		a.Send(b.Peer(), env.Control, fmt.Appendf(nil, "%04d", i))
	}
	a.Send(b.Peer(), env.Control, []byte("! do you live?"))
	for range maxDials {
		<-a.dialSlots
	}
	want := []string{"! I live", "! do you live?"}
	for i := answers - maxQueue; i < answers; i++ {
		want = append(want, fmt.Sprintf("%04d", i))
	}
	for i, frame := range want {
		if got := next(t, "a frame that waited", b.frames); got.frame != frame {
			t.Fatalf("frame %d is %q, not %q", i, got.frame, frame)
		}
	}
	if s := a.Stats(); s.Control.Drops.QueueFull != answers-maxQueue {
		t.Errorf("stats %+v", s)
	}
}
