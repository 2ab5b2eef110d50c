package main

import (
	"context"
	"errors"
	"os"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

func TestSupervisorFromEnvironment(t *testing.T) {
	own := strconv.Itoa(os.Getpid())
	for _, c := range []struct {
		env  map[string]string
		want supervisor
	}{
		{nil, supervisor{}},
		{map[string]string{"NOTIFY_SOCKET": "/run/s"}, supervisor{"/run/s", 0}},
		{map[string]string{"NOTIFY_SOCKET": "/run/s", "WATCHDOG_USEC": "60000000"}, supervisor{"/run/s", time.Minute}},
		{map[string]string{"NOTIFY_SOCKET": "/run/s", "WATCHDOG_USEC": "60000000", "WATCHDOG_PID": own}, supervisor{"/run/s", time.Minute}},
		{map[string]string{"NOTIFY_SOCKET": "/run/s", "WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "1"}, supervisor{"/run/s", 0}},
		{map[string]string{"NOTIFY_SOCKET": "/run/s", "WATCHDOG_USEC": "-1"}, supervisor{"/run/s", 0}},
		{map[string]string{"NOTIFY_SOCKET": "/run/s", "WATCHDOG_USEC": "9223372036854775807"}, supervisor{"/run/s", 0}},
		{map[string]string{"WATCHDOG_USEC": "60000000"}, supervisor{}},
	} {
		if got := supervisorOf(func(name string) string { return c.env[name] }); got != c.want {
			t.Errorf("%v: %+v, want %+v", c.env, got, c.want)
		}
	}
}

// In the test's time, a node hangs from second 100 to second 200, and is asked to stop after 300 seconds.
func TestWatchdogMessagesNeedALoopThatAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		alive := func(ctx context.Context) error {
			if at := time.Since(begun); at > 100*time.Second && at < 200*time.Second {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}
		type told struct {
			message string
			at      time.Duration
		}
		var all []told
		ended := make(chan struct{})
		stopping := make(chan struct{})
		go func() {
			defer close(ended)
			notifyLoop(ctx, stopping, time.Minute, alive, func(m string) { all = append(all, told{m, time.Since(begun)}) })
		}()
		time.AfterFunc(300*time.Second+time.Millisecond, func() { close(stopping) })
		time.AfterFunc(330*time.Second+time.Millisecond, stop)
		<-ended
		var pings []time.Duration
		var rest []told
		for _, m := range all {
			if m.message == "WATCHDOG=1" {
				pings = append(pings, m.at)
			} else {
				rest = append(rest, m)
			}
		}
		if want := []told{{"READY=1", 0}, {"STOPPING=1", 300*time.Second + time.Millisecond}}; !slices.Equal(rest, want) {
			t.Errorf("told %v, want %v", rest, want)
		}
		var longest time.Duration
		for i := 1; i < len(pings); i++ {
			if pings[i] > 100*time.Second && pings[i] < 200*time.Second {
				t.Errorf("a ping after %v, while the node hung", pings[i])
			}
			longest = max(longest, pings[i]-pings[i-1])
		}
		if longest < time.Minute {
			t.Errorf("the longest silence was %v, which no watchdog of a minute notices", longest)
		}
		if last := pings[len(pings)-1]; last < 315*time.Second {
			t.Errorf("the last ping came after %v: the node took its leave until 330 s", last)
		}
	})
}

func TestNodeThatNeverAnswersIsNeverReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		running, end := context.WithTimeout(t.Context(), time.Hour)
		defer end()
		stopping := make(chan struct{})
		time.AfterFunc(time.Minute, func() { close(stopping) })
		var all []string
		notifyLoop(running, stopping, 0, func(context.Context) error { return errors.New("no answer") }, func(m string) { all = append(all, m) })
		if !slices.Equal(all, []string{"STOPPING=1"}) {
			t.Errorf("told %v", all)
		}
	})
}
