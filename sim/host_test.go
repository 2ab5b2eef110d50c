package sim

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"tidings/internal/env"
)

// Events that are scheduled for one life do not reach the next.
func TestNothingReachesANodeAfterItsCrash(t *testing.T) {
	t.Parallel()
	w, all := scriptedWorld(Config{}, 2)
	h := w.Hosts()[0]
	old := all[0]
	late := 0
	h.Do(func() {
		old.Fetcher.Fetch(1, env.Request{})
		old.Worker.Do(func() {}, func() { late++ })
		old.Store.Commit(nil, func(error) { late++ })
		old.run = func(now time.Time) time.Time { return now.Add(time.Minute) }
	})
	w.Hosts()[1].Do(func() { all[1].say(h, "to the dead") })
	h.Found(w.Hosts()[1])
	h.Crash(false)
	runs := len(old.ran)

	next := new(scriptedNode).boot(h)
	w.Run(time.Hour)
	if late != 0 || len(old.ran) != runs || old.answers != nil || old.peers != nil || old.addrs != nil {
		t.Errorf("the dead node was called: %+v, %d callbacks", old, late)
	}
	if next.heard != nil || next.answers != nil || next.peers != nil {
		t.Errorf("the next node got events of the dead one: %+v", next)
	}
	if got := w.Hosts()[1].Stats().Undelivered; got != 1 {
		t.Errorf("%d frames undelivered, want 1", got)
	}
	if next.Rand.Uint64() == old.Rand.Uint64() {
		t.Error("both lives have the same random stream")
	}
}

// A script may keep a node longer than its life.
func TestADeadNodeHasNoEffect(t *testing.T) {
	t.Parallel()
	w, all := scriptedWorld(Config{}, 2)
	h, p := w.Hosts()[0], all[0]
	h.Crash(false)
	if h.Up() || h.Do(func() { t.Error("called") }) {
		t.Error("a crashed host is up")
	}
	p.say(w.Hosts()[1], "from the grave")
	p.Fetcher.Fetch(1, env.Request{})
	p.Worker.Do(func() { t.Error("computed") }, func() {})
	p.Store.Commit([]env.Op{{Key: []byte("k"), Value: []byte("v")}}, func(error) { t.Error("committed") })
	h.Restart()
	w.Run(time.Hour)
	if all[1].heard != nil {
		t.Errorf("heard %q", all[1].heard)
	}
	if v, _ := p.Store.Get([]byte("k")); v != nil {
		t.Errorf("found %q on the disk", v)
	}
}

func TestCrashHints(t *testing.T) {
	t.Parallel()
	for _, hint := range []bool{false, true} {
		t.Run(fmt.Sprint(hint), func(t *testing.T) {
			w, all := scriptedWorld(Config{}, 4)
			hosts := w.Hosts()
			hosts[0].Do(func() { all[0].say(hosts[1], "hello") })
			hosts[2].Do(func() { all[2].say(hosts[0], "hello") })
			w.Run(time.Second)
			hosts[0].Crash(hint)
			w.Run(time.Second)
			for i, want := range []bool{false, hint, hint, false} {
				if got := slices.Contains(all[i].downs, hosts[0].ID()); got != want {
					t.Errorf("host %d got PeerDown: %v, want %v", i, got, want)
				}
			}
		})
	}
}

func TestIdleLinkGivesNoHint(t *testing.T) {
	t.Parallel()
	w, all := scriptedWorld(Config{}, 2)
	w.Hosts()[0].Do(func() { all[0].say(w.Hosts()[1], "hello") })
	w.Run(linkIdle + time.Minute)
	w.Hosts()[0].Crash(true)
	w.Run(time.Second)
	if all[1].downs != nil {
		t.Error("a host got PeerDown for a link that was closed as idle")
	}
}

func TestBootTwiceAndCrashTwicePanic(t *testing.T) {
	t.Parallel()
	w, _ := scriptedWorld(Config{}, 1)
	h := w.Hosts()[0]
	panics(t, h.Restart)
	h.Crash(false)
	panics(t, func() { h.Crash(false) })
}

// Batches are atomic and in order, and all acknowledged ones are kept.
func TestCrashKeepsAPrefixOfTheBatches(t *testing.T) {
	t.Parallel()
	const batches = 20
	counts := map[int]bool{}
	for seed := range uint64(40) {
		w, all := scriptedWorld(Config{Seed: seed}, 1)
		h, p := w.Hosts()[0], all[0]
		acknowledged := 0
		h.Do(func() {
			for i := range batches {
				p.Store.Commit([]env.Op{
					{Key: fmt.Appendf(nil, "a%02d", i), Value: []byte("x")},
					{Key: fmt.Appendf(nil, "b%02d", i), Value: []byte("y")},
				}, func(err error) {
					if err != nil || acknowledged != i {
						t.Errorf("batch %d done after %d: %v", i, acknowledged, err)
					}
					acknowledged++
				})
				if v, _ := p.Store.Get(fmt.Appendf(nil, "a%02d", i)); v != nil {
					t.Error("a record can be read before it is durable")
				}
			}
		})
		w.Run(5 * time.Millisecond)
		h.Crash(false)
		h.Restart()
		var a, b []string
		collect := func(to *[]string) func(k, v []byte) bool {
			return func(k, _ []byte) bool { *to = append(*to, string(k[1:])); return true }
		}
		err := errors.Join(p.Store.Range([]byte("a"), collect(&a)), p.Store.Range([]byte("b"), collect(&b)))
		if err != nil || !slices.Equal(a, b) || !slices.IsSorted(a) {
			t.Errorf("seed %d: %v: torn or out of order: %v and %v", seed, err, a, b)
		}
		if len(a) < acknowledged || len(a) > 0 && a[len(a)-1] != fmt.Sprintf("%02d", len(a)-1) {
			t.Errorf("seed %d: %d batches acknowledged, kept %v", seed, acknowledged, a)
		}
		counts[len(a)] = true
	}
	if len(counts) < 5 {
		t.Errorf("crashes kept only these numbers of batches: %v", counts)
	}
}

func TestStoreDeletesAndStopsWhenTold(t *testing.T) {
	t.Parallel()
	w, all := scriptedWorld(Config{}, 1)
	p := all[0]
	done := 0
	w.Hosts()[0].Do(func() {
		p.Store.Commit([]env.Op{{Key: []byte("a"), Value: []byte("1")}, {Key: []byte("b"), Value: []byte{}}}, func(error) { done++ })
		p.Store.Commit([]env.Op{{Key: []byte("a")}, {Key: []byte("c"), Value: []byte("3")}}, func(error) { done++ })
	})
	w.Run(time.Minute)
	var keys []string
	err := p.Store.Range(nil, func(k, _ []byte) bool { keys = append(keys, string(k)); return true })
	if err != nil || done != 2 || !slices.Equal(keys, []string{"b", "c"}) {
		t.Errorf("%d batches done, keys %v, %v", done, keys, err)
	}
	keys = nil
	err = p.Store.Range(nil, func(k, _ []byte) bool { keys = append(keys, string(k)); return false })
	if err != nil || len(keys) != 1 {
		t.Errorf("keys %v, %v", keys, err)
	}
	if v, err := p.Store.Get([]byte("b")); err != nil || v == nil || len(v) != 0 {
		t.Errorf("an empty value came back as %v, %v", v, err)
	}
}

func TestFetchAndWorkTakeTime(t *testing.T) {
	t.Parallel()
	var asked, answered time.Time
	w, all := scriptedWorld(Config{Origin: func(at time.Time, r env.Request) env.Answer {
		asked = at
		return env.Answer{Status: 200, Body: []byte(r.URL)}
	}}, 1)
	p := all[0]
	start := w.Now()
	var computed, done time.Time
	w.Hosts()[0].Do(func() {
		p.Fetcher.Fetch(9, env.Request{URL: "https://a.example/feed"})
		p.Worker.Do(func() { computed = w.Now() }, func() { done = w.Now() })
	})
	w.RunUntil(func() bool { return len(p.answers) > 0 }, time.Millisecond, time.Minute)
	answered = w.Now()
	if took := answered.Sub(start); !slices.Equal(p.answers, []env.Handle{9}) || took < fetchShortest || took > fetchLongest {
		t.Errorf("answers %v after %v", p.answers, took)
	}
	if !asked.After(start) || !asked.Before(answered) {
		t.Errorf("the origin was asked at %v, not between %v and %v", asked, start, answered)
	}
	if took := done.Sub(start); !computed.Equal(start) || took < computeShortest || took > computeLongest {
		t.Errorf("computed at %v, done after %v", computed, took)
	}
}
