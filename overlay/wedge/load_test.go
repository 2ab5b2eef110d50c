package wedge_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"tidings/overlay/wedge"
	"tidings/sim"
)

// steady makes a stable world in which every member has a number of assignments.
func steady(t testing.TB, members, assignments int, orders *wedge.OrderCache) (w *world, total, bytes int) {
	w = newWorld(t, sim.Config{Seed: 8}, wedge.Config{OrderCache: orders})
	w.grow(members)
	for _, m := range w.members {
		m.serves = nil // the application's memory is not counted
	}
	before := heap()
	n := max(members/20, 1)
	for i := 0; total < members*assignments; i++ {
		payload := []byte(fmt.Sprintf("words of %d", i))
		w.enlist(w.members[i%members], w.key(i), wedge.Order{Term: wedge.Term{Seq: 1}, N: n + i%n, Payload: payload})
		total += n + i%n
	}
	w.Run(2 * time.Minute)
	return w, total, heap() - before
}

func heap() int {
	runtime.GC()
	runtime.GC()
	var st runtime.MemStats
	runtime.ReadMemStats(&st)
	return int(st.HeapAlloc)
}

// While nothing changes, only digests and their replies are sent.
func TestQuietCostsDigests(t *testing.T) {
	t.Parallel()
	w, total, _ := steady(t, 64, 300, nil)
	before := w.stats()
	if before.Keys != total {
		t.Errorf("%d of %d assignments are served", before.Keys, total)
	}
	w.Run(2 * time.Hour)
	after := w.stats()
	perHour := float64(after.Control-before.Control) / 2 / 64
	t.Logf("%d assignments and %d links a member: %.0f messages an hour; %d entries, %d lists, %d resent",
		after.Keys/64, after.Links/64, perHour, after.Entries-before.Entries, after.Lists-before.Lists, after.Resent-before.Resent)
	if after.Entries != before.Entries || after.Lists != before.Lists {
		t.Errorf("%d entries and %d lists were sent", after.Entries-before.Entries, after.Lists-before.Lists)
	}
	// One digest and its reply in each direction, at most 8 times an hour.
	if most := float64(after.Links) / 64 * 2 * 8; perHour > most {
		t.Errorf("%.0f messages a member and hour, at most %.0f are due", perHour, most)
	}
}

// BenchmarkAssignments measures 5,000 assignments at each of 256 members: memory, the first walk,
// and an hour without changes.
func BenchmarkAssignments(b *testing.B) {
	const members, assignments = 256, 5000
	for _, shared := range []bool{true, false} {
		b.Run(fmt.Sprintf("shared=%v", shared), func(b *testing.B) {
			for b.Loop() {
				var orders *wedge.OrderCache
				if shared {
					orders = wedge.NewOrderCache(1 << 17)
				}
				start := time.Now()
				w, total, bytes := steady(b, members, assignments, orders)
				made := time.Since(start)
				before := w.stats()
				start = time.Now()
				w.Run(time.Hour)
				after := w.stats()
				b.ReportMetric(float64(bytes)/float64(total), "B/assignment")
				b.ReportMetric(float64(before.Keys)/members, "assignments")
				b.ReportMetric(made.Seconds(), "s-to-enlist")
				b.ReportMetric(time.Since(start).Seconds(), "s-an-hour")
				b.ReportMetric(float64(after.Control-before.Control)/members, "msg/h")
				b.ReportMetric(float64(after.Links)/members, "links")
			}
		})
	}
}
