package loop

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"tidings/internal/env"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// recorder is a node that records when it was run and asks to run at the next of its planned times.
type recorder struct {
	runs  []time.Time
	plans []time.Time
}

func (d *recorder) Run(now time.Time) (next time.Time) {
	d.runs = append(d.runs, now)
	for len(d.plans) > 0 && !d.plans[0].After(now) {
		d.plans = d.plans[1:]
	}
	if len(d.plans) > 0 {
		next = d.plans[0]
	}
	return next
}

func (*recorder) Receive(env.PeerID, []byte) error { return nil }
func (*recorder) Found(env.Peer)                   {}
func (*recorder) Reachable([]string)               {}
func (*recorder) PeerDown(env.PeerID)              {}

// startLoop runs a loop in a synctest bubble until stop is called.
func startLoop(t *testing.T, l *Loop, node env.Node) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() {
		if err := l.Run(ctx, node); !errors.Is(err, context.Canceled) {
			t.Errorf("Run: %v", err)
		}
	})
	return func() { cancel(); done.Wait() }
}

func TestRunsNodeAtStartAndWhenItAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Config{})
		start := l.Now()
		d := &recorder{plans: []time.Time{start.Add(time.Second), start.Add(time.Hour)}}
		stop := startLoop(t, l, d)
		time.Sleep(2 * time.Hour) // virtual
		stop()
		want := []time.Time{start, start.Add(time.Second), start.Add(time.Hour)}
		if !slices.Equal(d.runs, want) {
			t.Errorf("run at %v, want %v", d.runs, want)
		}
	})
}

func TestRunsNodeOnceAfterABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Config{})
		calls := 0
		for range batch {
			l.Post(env.Control, func() { calls++ })
		}
		d := &recorder{}
		stop := startLoop(t, l, d)
		synctest.Wait()
		stop()
		if calls != batch || len(d.runs) != 2 {
			t.Errorf("%d calls, %d runs; want %d and one before, one after", calls, len(d.runs), batch)
		}
	})
}

func TestAnswersThenUrgentThenControlThenBulk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Config{})
		var got []string
		say := func(s string) func() { return func() { got = append(got, s) } }
		l.Post(env.Bulk, say("b1"))
		l.Post(env.Control, say("c1"))
		l.Post(env.Bulk, say("b2"))
		l.PostUrgent(say("u1"))
		l.Deliver(say("a1"))
		l.Post(env.Control, say("c2"))
		stop := startLoop(t, l, &recorder{})
		synctest.Wait()
		stop()
		if want := []string{"a1", "u1", "c1", "c2", "b1", "b2"}; !slices.Equal(got, want) {
			t.Errorf("ran %v, want %v", got, want)
		}
	})
}

func TestFullInboxDropsAndCounts(t *testing.T) {
	l := New(Config{Urgent: 1, Control: 3, Bulk: 2})
	for i := range 5 {
		if got, want := l.PostUrgent(func() {}), i < 1; got != want {
			t.Errorf("urgent post %d: %v", i, got)
		}
		if got, want := l.Post(env.Control, func() {}), i < 3; got != want {
			t.Errorf("control post %d: %v", i, got)
		}
		if got, want := l.Post(env.Bulk, func() {}), i < 2; got != want {
			t.Errorf("bulk post %d: %v", i, got)
		}
		l.Deliver(func() {})
	}
	s := l.Stats()
	if s.DroppedControl != 2 || s.DroppedBulk != 3 || s.DroppedUrgent != 4 || s.WaitingUrgent != 1 || s.WaitingControl != 3 || s.WaitingBulk != 2 || s.WaitingAnswers != 5 {
		t.Errorf("stats %+v", s)
	}
}

func TestCallRunsOnTheLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Config{})
		d := &recorder{}
		stop := startLoop(t, l, d)
		runs := 0
		if err := l.Call(t.Context(), func() { runs = len(d.runs) }); err != nil || runs != 1 {
			t.Errorf("Call: %v, saw %d runs", err, runs)
		}
		stop()
		if err := l.Call(t.Context(), func() { t.Error("ran after the end") }); !errors.Is(err, ErrStopped) {
			t.Errorf("Call after the end: %v", err)
		}
		if l.Post(env.Control, func() {}) {
			t.Error("posted after the end")
		}
	})
}

func TestCallGivesUpWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Config{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.Call(ctx, func() { t.Error("ran for a caller who had left") }); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Call: %v", err)
		}
		stop := startLoop(t, l, &recorder{})
		synctest.Wait()
		stop()
	})
}

func TestCallWaitsForARunningFunction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Config{})
		stop := startLoop(t, l, &recorder{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		done := false
		err := l.Call(ctx, func() {
			time.Sleep(time.Minute) // virtual
			done = true
		})
		if err != nil || !done {
			t.Errorf("Call: %v, done %v", err, done)
		}
		stop()
	})
}

func TestWorkerAnswersOnTheLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Config{Control: 1, Bulk: 1, Workers: 3})
		sum := 0 // accessed on the loop only
		for i := range 1000 {
			var square int
			l.Do(func() { square = i * i }, func() { sum += square })
		}
		stop := startLoop(t, l, &recorder{})
		synctest.Wait()
		stop()
		if sum != 332833500 {
			t.Errorf("sum of squares %d", sum)
		}
	})
}

func TestEndWaitsForComputationAndDropsTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Config{Workers: 1})
		computed := false
		l.Do(func() {
			time.Sleep(time.Hour) // virtual
			computed = true
		}, func() { t.Error("done after the end") })
		l.Do(func() { t.Error("begun after the end") }, func() {})
		stop := startLoop(t, l, &recorder{})
		synctest.Wait()
		stop()
		if !computed {
			t.Error("Run did not wait for a computation under way")
		}
		l.Do(func() { t.Error("begun after the end") }, func() {})
	})
}

func TestClockSurvivesUnixNano(t *testing.T) {
	l := New(Config{})
	now := l.Now()
	if back := time.Unix(0, now.UnixNano()); back != now {
		t.Errorf("%#v came back as %#v", now, back)
	}
	if later := l.Now(); later.Before(now) {
		t.Errorf("clock went back from %v to %v", now, later)
	}
}

func TestConcurrentPostsAllRun(t *testing.T) {
	l := New(Config{Control: 1 << 20})
	ctx, cancel := context.WithCancel(t.Context())
	var run, posts sync.WaitGroup
	run.Go(func() { _ = l.Run(ctx, &recorder{}) })
	count := 0
	for range 8 {
		posts.Go(func() {
			for range 1000 {
				l.Post(env.Control, func() { count++ })
			}
		})
	}
	posts.Wait()
	for seen := 0; seen < 8000; {
		if err := l.Call(ctx, func() { seen = count }); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	run.Wait()
}

func BenchmarkPost(b *testing.B) {
	l := New(Config{Control: 1 << 20})
	ctx, cancel := context.WithCancel(b.Context())
	var run sync.WaitGroup
	run.Go(func() { _ = l.Run(ctx, &recorder{}) })
	f := func() {}
	for b.Loop() {
		l.Post(env.Control, f)
	}
	cancel()
	run.Wait()
}
