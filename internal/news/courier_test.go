package news

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A taker is a target that does what a test says, and notes what it is offered.
type taker struct {
	mu     sync.Mutex
	answer func(now time.Time) error
	got    []string // titles of each call, joined by "+"
	at     []time.Time
}

func (k *taker) send(_ context.Context, events []Event) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	var titles []string
	for _, e := range events {
		_, title, _ := strings.Cut(string(e.Item()), `"title":"Pier `)
		title, _, _ = strings.Cut(title, `"`)
		titles = append(titles, title)
	}
	k.got, k.at = append(k.got, strings.Join(titles, "+")), append(k.at, time.Now())
	if k.answer != nil {
		return k.answer(time.Now())
	}
	return nil
}

func (k *taker) seen() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return strings.Join(k.got, " ")
}

// A route is a courier with one target that runs in a bubble of virtual time.
type route struct {
	*desk
	*Courier
	taker *taker
	stop  func()
}

func openRoute(t *testing.T) *route {
	r := &route{desk: openDesk(t), taker: &taker{}}
	r.clock = time.Now
	r.record("0")
	return r
}

// run delivers to the target until stop.
func (r *route) run(change ...func(*Target)) {
	r.t.Helper()
	target := Target{ID: "webhook-1", Wants: func(*Event) bool { return true }, Send: r.taker.send, Batch: 1}
	for _, c := range change {
		c(&target)
	}
	r.Courier = NewCourier(r.Journal, slog.New(slog.DiscardHandler))
	if err := r.Add(target); err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(r.t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.Run(ctx)
	}()
	r.stop = func() { cancel(); <-ended }
}

// settle waits a time until nothing happens.
func settle(wait time.Duration) {
	time.Sleep(wait) // virtual
	synctest.Wait()
}

func (r *route) expect(want string) {
	r.t.Helper()
	if got := r.taker.seen(); got != want {
		r.t.Fatalf("the target got %q, want %q", got, want)
	}
}

func TestATargetGetsEachEventInOrderAndOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := openRoute(t)
		r.run()
		r.record("2", "1", "0")
		settle(time.Second)
		r.expect("1 2")
		r.stop()
		r.record("3", "2", "1", "0") // while nobody delivers
		r.reopen()
		r.clock = time.Now
		r.run()
		settle(time.Second)
		r.expect("1 2 3")
		if s, _ := r.State("webhook-1"); s.Sent != 3 || s.Error != "" || !s.Since.IsZero() {
			t.Errorf("the state is %+v", s)
		}
		r.stop()
		_ = r.disk.Close()
	})
}

// A receiver that is down for a day loses nothing, and is not asked all the time.
func TestATargetThatIsDownForADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := openRoute(t)
		up := time.Now().Add(24 * time.Hour)
		r.taker.answer = func(now time.Time) error {
			if now.Before(up) {
				return errors.New("status 500")
			}
			return nil
		}
		r.run()
		r.record("2", "1", "0")
		settle(time.Hour)
		if s, _ := r.State("webhook-1"); s.Error != "status 500" || s.Since.IsZero() || !s.Next.After(time.Now()) {
			t.Errorf("the state is %+v", s)
		}
		settle(26 * time.Hour)
		tries := strings.Fields(r.taker.seen())
		if n := len(tries); n > 50 || tries[n-2] != "1" || tries[n-1] != "2" {
			t.Errorf("%d attempts in a day, the last ones %v", n, tries[max(0, n-3):])
		}
		if s, _ := r.State("webhook-1"); s.Sent != 2 || s.Error != "" || !s.Since.IsZero() {
			t.Errorf("the state is %+v", s)
		}
		r.stop()
		_ = r.disk.Close()
	})
}

// An event that a target refuses does not hold up the next one, and can be looked at.
func TestDeadLetters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := openRoute(t)
		r.taker.answer = func(time.Time) error {
			if len(r.taker.got) == 1 {
				return &Refusal{errors.New("status 400")}
			}
			return nil
		}
		r.run()
		r.record("2", "1", "0")
		settle(time.Second)
		r.expect("1 2")
		if s, _ := r.State("webhook-1"); !s.Since.IsZero() || !s.Next.IsZero() {
			t.Errorf("a target that answers is failing: %+v", s)
		}
		letters, err := r.DeadLetters("webhook-1")
		if err != nil || len(letters) != 1 || letters[0].Error != "status 400" || !strings.Contains(string(letters[0].Event), "Pier 1") {
			t.Errorf("the dead letters are %+v, %v", letters, err)
		}
		if err := r.Remove("webhook-1"); err != nil {
			t.Fatal(err)
		}
		if letters, err := r.DeadLetters("webhook-1"); len(letters) > 0 || err != nil {
			t.Errorf("after the end of the target: %+v, %v", letters, err)
		}
		r.stop()
		_ = r.disk.Close()
	})
}

// A target that fails for days does not get the same event for ever, and only so many dead letters are kept.
func TestATargetThatNeverComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := openRoute(t)
		r.taker.answer = func(time.Time) error { return errors.New("no such host") }
		r.run(func(t *Target) { t.Batch = MaxDeadLetters + 5 })
		items := []string{"0"}
		for i := range MaxDeadLetters + 5 {
			items = append([]string{fmt.Sprint(i + 1)}, items...)
		}
		r.record(items...)
		settle(maxTries + 2*lastRetry)
		letters, err := r.DeadLetters("webhook-1")
		if err != nil || len(letters) < MaxDeadLetters || len(letters) > MaxDeadLetters+5 {
			t.Fatalf("%d dead letters, %v", len(letters), err)
		}
		r.record(append([]string{"new"}, items...)...)
		settle(maxTries + 2*lastRetry)
		letters, err = r.DeadLetters("webhook-1")
		if s, _ := r.State("webhook-1"); err != nil || len(letters) != MaxDeadLetters || s.Dead != MaxDeadLetters || !strings.Contains(string(letters[MaxDeadLetters-1].Event), "Pier new") {
			t.Errorf("%d dead letters, %+v, %v", len(letters), s, err)
		}
		r.stop()
		_ = r.disk.Close()
	})
}

// A target gets its events together, at its own pace, and not in quiet hours.
func TestPaceOfATarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := openRoute(t)
		begin := time.Now()
		morning := begin.Add(8 * time.Hour)
		r.run(func(t *Target) {
			t.Batch, t.Pause = 2, time.Minute
			t.HeldUntil = func(_, oldest time.Time) time.Time {
				if !oldest.Equal(begin) {
					r.t.Errorf("the oldest event is of %v", oldest)
				}
				return morning
			}
		})
		r.record("3", "2", "1", "0")
		settle(8*time.Hour - time.Second)
		r.expect("")
		settle(2 * time.Second)
		r.expect("1+2")
		settle(time.Minute)
		r.expect("1+2 3")
		if first, second := r.taker.at[0], r.taker.at[1]; first.Before(morning) || second.Sub(first) < time.Minute {
			t.Errorf("the target was called at %v and %v", first.Sub(begin), second.Sub(begin))
		}
		r.stop()
		_ = r.disk.Close()
	})
}

// A target that is held does not fail, however long it is held, and gets its events as soon as it is woken.
func TestHeldTargetIsWoken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := openRoute(t)
		var away atomic.Bool
		r.taker.answer = func(time.Time) error {
			if away.Store(true); len(r.taker.got) <= 2 { // it goes in the middle of the attempt
				return errors.New("gone")
			}
			return nil
		}
		r.run(func(t *Target) {
			t.HeldUntil = func(now, _ time.Time) time.Time {
				if away.Load() {
					return now.Add(time.Hour)
				}
				return now
			}
			t.HeldIsAway = true
		})
		r.record("1", "0")
		settle(maxTries + time.Hour)
		r.expect("1")
		if s, _ := r.State("webhook-1"); !s.Since.IsZero() || s.Dead != 0 {
			t.Errorf("the state of a target that is held is %+v", s)
		}
		away.Store(false)
		r.Wake("webhook-1")
		settle(firstRetry * 2) // the second attempt fails, too, and is no dead letter: the days away do not count
		r.expect("1 1")
		away.Store(false)
		r.Wake("webhook-1")
		synctest.Wait()
		r.expect("1 1 1")
		r.Wake("unknown")
		r.stop()
		_ = r.disk.Close()
	})
}

// A target that fails, and is held each night, has failed since the beginning: in the end its events are dead letters.
func TestATargetThatIsHeldFailsMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := openRoute(t)
		r.taker.answer = func(time.Time) error { return errors.New("broken") }
		r.run(func(t *Target) {
			t.HeldUntil = func(now, _ time.Time) time.Time {
				if hour := now.UTC().Hour(); hour >= 7 && hour < 22 {
					return now
				}
				return now.Add(time.Hour)
			}
		})
		r.record("1", "0")
		settle(2 * 24 * time.Hour)
		if s, _ := r.State("webhook-1"); time.Since(s.Since) < 24*time.Hour || s.Dead != 0 {
			t.Errorf("after two days the state is %+v", s)
		}
		settle(2 * 24 * time.Hour)
		if s, _ := r.State("webhook-1"); s.Dead != 1 {
			t.Errorf("after four days the state is %+v", s)
		}
		r.stop()
		_ = r.disk.Close()
	})
}

// Events that were sent together come again together, also if more have come meanwhile, and after a restart.
func TestWhatWasSentTogetherComesAgainTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := openRoute(t)
		many := func(t *Target) { t.Batch = 10 }
		var sizes []int
		r.taker.answer = func(time.Time) error { return errors.New("the answer was lost") }
		watch := func(t *Target) {
			many(t)
			send := t.Send
			t.Send = func(ctx context.Context, events []Event) error {
				sizes = append(sizes, len(events))
				return send(ctx, events)
			}
		}
		r.run(watch)
		r.record("2", "1", "0")
		synctest.Wait()
		r.record("3", "2", "1", "0")
		settle(3 * firstRetry)
		r.stop()
		r.reopen()
		r.clock = time.Now
		r.taker.answer = nil
		r.run(watch)
		settle(time.Minute)
		for i, n := range sizes {
			if last := i == len(sizes)-1; n != 2 && !last || last && n != 1 {
				t.Errorf("events were sent by %v, want 2 until they are taken, and then 1", sizes)
				break
			}
		}
		r.stop()
		_ = r.disk.Close()
	})
}

// A server that names a time is left alone until then.
func TestRetryAfterIsObeyed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := openRoute(t)
		r.taker.answer = func(time.Time) error {
			if len(r.taker.got) == 1 {
				return &RetryAfter{errors.New("status 429"), 10 * time.Minute}
			}
			return nil
		}
		r.run()
		r.record("1", "0")
		settle(10*time.Minute - time.Second)
		r.expect("1")
		settle(2 * time.Second)
		r.expect("1 1")
		r.stop()
		_ = r.disk.Close()
	})
}

// Events that a target does not want cost no write, and a long absence of wanted ones does not look like a loss.
func TestUnwantedEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := openRoute(t)
		r.run(func(t *Target) { t.Wants = func(e *Event) bool { return strings.Contains(string(e.Item()), "Pier x") } })
		before := r.disk.Stats().Commits
		r.record("1", "0")
		settle(time.Second)
		if commits := r.disk.Stats().Commits - before; commits != 1 {
			t.Errorf("%d commits for an event that nobody wants, want 1", commits)
		}
		for i := range 3 * maxUnstored / 100 {
			var items []string
			for j := range 100 {
				items = append(items, fmt.Sprint(2+100*i+j))
			}
			r.record(items...)
			settle(time.Second)
		}
		r.now = r.now.Add(MaxAge)
		r.record("x1")
		settle(time.Second)
		r.expect("x1")
		if s, _ := r.State("webhook-1"); s.Missed {
			t.Errorf("the state is %+v", s)
		}
		r.stop()
		_ = r.disk.Close()
	})
}

// An event that a target takes while the courier stops is not sent again. A target that hangs does not keep the courier from
// stopping.
func TestTheCourierStopsAfterTheSendThatHasBegun(t *testing.T) {
	for _, c := range []struct {
		takes time.Duration
		again bool
	}{{sendGrace - time.Millisecond, false}, {time.Hour, true}} {
		synctest.Test(t, func(t *testing.T) {
			r := openRoute(t)
			slow := func(target *Target) {
				target.Send = func(ctx context.Context, events []Event) error {
					_ = r.taker.send(ctx, events)
					select {
					case <-time.After(c.takes):
						return nil
					case <-ctx.Done():
						return ctx.Err()
					}
				}
			}
			r.run(slow)
			r.record("1")
			synctest.Wait()
			begun := time.Now()
			r.stop()
			if took := time.Since(begun); took != min(c.takes, sendGrace) {
				t.Errorf("the courier stopped after %s", took)
			}
			r.run()
			synctest.Wait()
			want := "1"
			if c.again {
				want = "1 1"
			}
			if got := r.taker.seen(); got != want {
				t.Errorf("the target got %q, expected %q", got, want)
			}
			r.stop()
		})
	}
}
