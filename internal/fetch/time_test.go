package fetch

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tidings/internal/env"
)

// after, now and since use virtual time, in seconds.
func after(seconds int) <-chan time.Time { return time.After(time.Duration(seconds) * time.Second) }
func now() time.Time                     { return time.Now() }
func since(t time.Time) float64          { return time.Since(t).Round(time.Millisecond).Seconds() }

// wait returns a handler that sleeps until then, or until the client has gone.
func wait(seconds int, then http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-after(seconds):
			then(w, r)
		}
	}
}

// drip sends a body in parts, one a second.
func drip(part int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for {
			if _, err := io.WriteString(w, strings.Repeat("a", part)); err != nil {
				return
			}
			if http.NewResponseController(w).Flush() != nil {
				return
			}
			select {
			case <-r.Context().Done():
				return
			case <-after(1):
			}
		}
	}
}

func TestSlowOriginsTimeOut(t *testing.T) {
	ok := func(http.ResponseWriter, *http.Request) {}
	for _, c := range []struct {
		name    string
		origin  http.HandlerFunc
		class   string
		say     string
		seconds float64
	}{
		{"soon enough", wait(9, ok), "", "", 9},
		{"no answer", wait(3600, ok), env.ErrTimeout, "answer within 10s", 10},
		{"a byte a second", drip(1), env.ErrTimeout, "less than 1 KiB", 5.005},
		{"too slow in the long run", drip(600), env.ErrTimeout, "less than 1 KiB", 12.617},
		{"fast enough, but for ever", drip(1100), env.ErrTimeout, "more than 20s", 20},
		{"silent after the headers", func(w http.ResponseWriter, r *http.Request) {
			http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}, env.ErrTimeout, "less than 1 KiB", 5},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := web{"a.example:80": c.origin}.open(t, Config{})
			defer b.close()
			start := now()
			a := b.get(env.Request{URL: "http://a.example/"})
			if a.Err != c.class || !strings.Contains(a.Message, c.say) {
				t.Errorf("%s: %q %q", c.name, a.Err, a.Message)
			}
			if got := since(start); got < c.seconds-0.1 || got > c.seconds+0.1 {
				t.Errorf("%s: after %v s, want %v", c.name, got, c.seconds)
			}
		})
	}
}

func TestSilentHandshakesEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := web{}.open(t, Config{})
		defer b.close()
		var there net.Conn
		b.any.DialContext = func(context.Context, string, string) (net.Conn, error) {
			here, silent := net.Pipe()
			there = silent
			go io.Copy(io.Discard, silent)
			return here, nil
		}
		start := now()
		a := b.get(env.Request{URL: "https://a.example/"})
		if a.Err != env.ErrTimeout || !strings.Contains(a.Message, "TLS handshake within 5s") || since(start) != 5 {
			t.Errorf("%+v after %v s", a, since(start))
		}
		there.Close()
	})
}

func TestRequestsOfAHostAreSpaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := now()
		var begun []float64
		b := web{
			"a.example:80": func(http.ResponseWriter, *http.Request) { begun = append(begun, since(start)) },
			"b.example:80": func(http.ResponseWriter, *http.Request) {},
		}.open(t, Config{})
		defer b.close()
		for i := range 5 {
			b.Fetch(env.Handle(i), env.Request{URL: fmt.Sprintf("http://a.example/%d", i)})
		}
		b.Fetch(5, env.Request{URL: "http://b.example/"})
		var order []env.Handle
		for range 6 {
			order = append(order, (<-b.answers).handle)
		}
		if !slices.Equal(begun, []float64{0, 1, 2, 3, 4}) {
			t.Errorf("begun at %v s", begun)
		}
		slices.Sort(order[:2])
		if !slices.Equal(order, []env.Handle{0, 5, 1, 2, 3, 4}) {
			t.Errorf("answered in the order %v", order)
		}
		// The host is remembered until its second is over, and no longer.
		b.Fetch(6, env.Request{URL: "http://a.example/6"})
		<-b.answers
		<-after(3)
		synctest.Wait()
		if n := len(b.queue.hosts); n != 0 {
			t.Errorf("%d hosts are still remembered", n)
		}
		b.Fetch(7, env.Request{URL: "http://a.example/7"})
		<-b.answers
		if !slices.Equal(begun, []float64{0, 1, 2, 3, 4, 5, 8}) {
			t.Errorf("begun at %v s", begun)
		}
	})
}

func TestSlowHostDelaysNoOtherHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, most atomic.Int32
		b := web{
			"slow.example:80": func(w http.ResponseWriter, r *http.Request) {
				most.Store(max(most.Load(), running.Add(1)))
				wait(8, func(http.ResponseWriter, *http.Request) {})(w, r)
				running.Add(-1)
			},
			"a.example:80": func(http.ResponseWriter, *http.Request) {},
		}.open(t, Config{})
		defer b.close()
		start := now()
		for i := range 10 {
			b.Fetch(1, env.Request{URL: fmt.Sprintf("http://slow.example/%d", i)})
		}
		b.Fetch(2, env.Request{URL: "http://a.example/"})
		if a := <-b.answers; a.handle != 2 || since(start) != 0 {
			t.Errorf("%+v after %v s", a, since(start))
		}
		for range 10 {
			<-b.answers
		}
		if most.Load() != 2 || since(start) < 40 {
			t.Errorf("%d requests of one host at once, all ten within %v s", most.Load(), since(start))
		}
	})
}

func TestQueuesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		never := wait(3600, nil)
		b := web{"a.example:80": never, "b.example:80": never, "c.example:80": never}.
			open(t, Config{Workers: 2, HostWaiting: 3, Waiting: 5})
		defer b.close()
		fetch := func(host string, n int) {
			for range n {
				b.Fetch(1, env.Request{URL: "http://" + host + "/"})
				synctest.Wait()
			}
		}
		busy := func(want int, say string) {
			t.Helper()
			for range want {
				if a := <-b.answers; a.Err != env.ErrBusy || !strings.Contains(a.Message, say) {
					t.Errorf("%+v, want %q", a, say)
				}
			}
			if n := len(b.answers); n != 0 {
				t.Errorf("%d answers too many", n)
			}
		}
		fetch("a.example", 4) // one runs, three wait
		busy(0, "")
		fetch("a.example", 2)
		busy(2, "waiting for this host")
		fetch("b.example", 3) // one runs, two wait
		busy(0, "")
		fetch("c.example", 2)
		busy(2, "requests of this node are waiting")
		if s := b.Stats(); s != (Stats{Asked: 2, Refused: 4, Waiting: 5, Running: 2}) {
			t.Errorf("%+v", s)
		}
	})
}

func TestNothingIsAnsweredAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := web{"a.example:80": wait(3600, nil)}.open(t, Config{})
		for range 5 {
			b.Fetch(1, env.Request{URL: "http://a.example/"})
		}
		<-after(3)
		b.close()
		b.Fetch(1, env.Request{URL: "http://a.example/"})
		if n, s := len(b.answers), b.Stats(); n != 0 || s.Running != 0 || s.Waiting != 0 {
			t.Errorf("%d answers, %+v", n, s)
		}
	})
}

func TestNothingIsAskedBeforeTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := make(chan env.Answer, 1)
		c := New(Config{}, func(_ env.Handle, a env.Answer) { answers <- a })
		c.any.DialContext = func(context.Context, string, string) (net.Conn, error) { return nil, io.EOF }
		c.Fetch(1, env.Request{URL: "http://a.example/"})
		<-after(60)
		if s := c.Stats(); s.Asked != 0 || s.Waiting != 1 {
			t.Errorf("%+v", s)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go c.Run(ctx)
		if a := <-answers; a.Err != env.ErrDial {
			t.Errorf("%+v", a)
		}
		cancel()
	})
}

// A host that wants no more requests gets none, also if it says so beside a document. What waits for it is
// answered at once, and nobody else waits.
func TestHostsThatAllowNoMoreAreHeldBack(t *testing.T) {
	for _, c := range []struct {
		name   string
		header map[string]string
		status int
		hold   time.Duration
	}{
		{"a quota", map[string]string{"x-ratelimit-remaining": "0.0", "x-ratelimit-reset": "60"}, 200, time.Minute},
		{"a quota, not modified", map[string]string{"RateLimit-Remaining": "0", "RateLimit-Reset": "30"}, 304, 30 * time.Second},
		{"nothing", nil, 429, defaultHold},
		{"Retry-After", map[string]string{"Retry-After": "90"}, 503, 90 * time.Second},
		{"a week", map[string]string{"Retry-After": "604800"}, 429, maxHold},
	} {
		synctest.Test(t, func(t *testing.T) {
			asked := 0
			b := web{
				"a.example:80": func(w http.ResponseWriter, r *http.Request) {
					asked++
					for name, value := range c.header {
						w.Header().Set(name, value)
					}
					w.WriteHeader(c.status)
				},
				"b.example:80": func(http.ResponseWriter, *http.Request) {},
			}.open(t, Config{})
			defer b.close()
			for i := range 20 {
				b.Fetch(env.Handle(i), env.Request{URL: fmt.Sprintf("http://a.example/%d", i), ETag: `"1"`})
			}
			for i := range 20 {
				a := <-b.answers
				if first := i == 0; (a.Err == env.ErrBusy) == first || !first && (a.RetryAfter <= c.hold-time.Second || a.RetryAfter > c.hold) {
					t.Errorf("%s: answer %d: %+v", c.name, i, a.Answer)
				}
			}
			if a := b.get(env.Request{URL: "http://b.example/"}); a.Status != 200 {
				t.Errorf("%s: another host: %+v", c.name, a)
			}
			time.Sleep(c.hold - time.Second)
			if a := b.get(env.Request{URL: "http://a.example/"}); a.Err != env.ErrBusy || !strings.Contains(a.Message, "a.example allows no more requests before") {
				t.Errorf("%s: too early: %+v", c.name, a)
			}
			time.Sleep(time.Second)
			if a := b.get(env.Request{URL: "http://a.example/", ETag: `"1"`}); a.Status != c.status || asked != 2 {
				t.Errorf("%s: after the pause: %+v, asked %d times", c.name, a, asked)
			}
		})
	}
}

// A quota that is not exhausted, or a Retry-After beside a document, holds nobody back.
func TestHostsThatAllowMoreAreNotHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := web{"a.example:80": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-RateLimit-Remaining", "1")
			w.Header().Set("X-RateLimit-Reset", "60")
			w.Header().Set("Retry-After", "60")
		}}.open(t, Config{})
		defer b.close()
		for range 3 {
			if a := b.get(env.Request{URL: "http://a.example/"}); a.Status != 200 || a.RetryAfter != 0 {
				t.Errorf("%+v", a)
			}
		}
	})
}

// The latency of an answer is that of the last request: neither redirects nor the rest of the document count, nor the
// time until the host may be asked again.
func TestLatencyIsTheWaitForTheFirstByte(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := web{
			"a.example:80": wait(3, func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, "http://b.example/", http.StatusFound)
			}),
			"b.example:80": wait(2, func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, "<rss>")
				_ = http.NewResponseController(w).Flush()
				<-after(1)
			}),
		}.open(t, Config{})
		defer b.close()
		for range 2 {
			if a := b.get(env.Request{URL: "http://a.example/"}); a.Latency != 2*time.Second || string(a.Body) != "<rss>" {
				t.Errorf("latency %v of %q, want 2 s", a.Latency, a.Body)
			}
		}
	})
}
