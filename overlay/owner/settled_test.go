package owner_test

import (
	"testing"
	"time"

	"tidings/internal/env"
	"tidings/overlay"
	"tidings/overlay/owner"
	"tidings/overlay/owner/ownerpb"
	"tidings/sim"
)

// watched is what a member tells of its keys after a restart.
type watched struct {
	shown      map[overlay.ID]bool // keys of which readers see something else
	committed  int                 // entries that are to be published
	replicated int                 // Replicate messages
}

// restart ends a member without any warning, and starts it again at once.
func restart(m *member) *watched {
	m.Crash(false)
	seen := &watched{shown: map[overlay.ID]bool{}}
	m.told = func(ev owner.Event) {
		switch ev := ev.(type) {
		case owner.VisibleChanged:
			seen.shown[ev.Key] = true
		case owner.Committed:
			seen.committed++
		}
	}
	m.tap = func(_ env.PeerID, msg *ownerpb.Message) {
		if msg.GetReplicate() != nil {
			seen.replicated++
		}
	}
	m.start()
	return seen
}

// head returns the last entry of a log; nil if there is none.
func head(log []*owner.Entry) *owner.Entry {
	if len(log) == 0 {
		return nil
	}
	return log[len(log)-1]
}

// A node that restarts knows which entries were committed some time before. Readers see them at once and are not told of them
// again, and a sequencer does not send them to the other owners again, however many logs it leads. What was committed just
// before is told again, because the layers above may not have taken it.
func TestARestartKnowsWhatWasCommitted(t *testing.T) {
	t.Parallel()
	seeds(t, 3, func(t *testing.T, seed uint64) {
		w := newWorld(t, sim.Config{Seed: seed}, time.Minute)
		w.grow(5)
		w.Run(30 * time.Second)
		w.want(6)
		w.Run(10 * time.Second)
		w.write(20*time.Second, 5*time.Second, 100)
		w.Run(6 * time.Minute)
		owned := 0
		for _, m := range w.members {
			seen := restart(m)
			for _, url := range w.urls {
				v, ok := m.owners.View(w.key(url))
				if !ok || !v.Owns {
					continue
				}
				owned++
				if log := m.owners.Log(w.key(url)); len(log) == 0 || head(m.owners.Visible(w.key(url))) != head(log) {
					t.Errorf("member %d does not show the last of %d entries of %s", m.Index(), len(log), url)
				}
			}
			w.Run(2 * time.Minute)
			if len(seen.shown)+seen.replicated+seen.committed > 0 {
				t.Errorf("member %d: readers of %d logs are told again of what they knew, %d entries are published and %d messages sent again", m.Index(), len(seen.shown), seen.committed, seen.replicated)
			}
		}
		if owned < 12 {
			t.Errorf("the members own %d logs", owned)
		}
		for n := len(w.done); len(w.done) == n; w.Run(time.Second) { // a sequencer may just be missing
			w.append(w.urls[0], 100)
		}
		w.Run(100 * time.Second)
		key := w.key(w.urls[0])
		seen := map[*member]*watched{}
		for _, m := range w.members {
			v, _ := m.owners.View(key)
			if last := head(m.owners.Log(key)); v.Epoch.AfterHash != last.Hash { // otherwise an epoch that was just made says that it is committed
				seen[m] = nil
			}
		}
		for _, m := range w.members {
			if _, ok := seen[m]; ok {
				seen[m] = restart(m)
			}
		}
		w.Run(5 * time.Minute)
		for m, of := range seen {
			if !of.shown[key] || len(of.shown) > 1 {
				t.Errorf("member %d: readers of %d logs are told again, and not just of the entry that was committed shortly before a restart", m.Index(), len(of.shown))
			}
		}
	})
}

// However long an entry waits for a quorum, a restart does not take it for committed.
func TestARestartShowsNothingThatWasNotCommitted(t *testing.T) {
	t.Parallel()
	seeds(t, 3, func(t *testing.T, seed uint64) {
		w := newWorld(t, sim.Config{Seed: seed}, time.Hour)
		w.grow(5)
		w.Run(30 * time.Second)
		w.want(6)
		w.Run(10 * time.Second)
		w.write(20*time.Second, 5*time.Second, 100)
		w.Run(5 * time.Minute)
		for _, m := range w.members {
			w.Partition([]*sim.Host{m.Host})
			for _, url := range w.urls {
				w.append(url, 100)
			}
			w.Run(5 * time.Minute)
			restart(m)
			for _, url := range w.urls {
				for _, e := range m.owners.Visible(w.key(url)) {
					m.owners.Body(e, func(body []byte) {
						if id := number(body); w.done[id].IsZero() {
							t.Errorf("member %d shows entry %v of %s, which no quorum has", m.Index(), e.At, url)
						}
					})
				}
			}
			w.Heal()
			w.Run(5 * time.Minute)
		}
	})
}

// An entry that its sequencer could not commit any more is published by the next one, however much later that is.
func TestATakeoverPublishesAnOldEntry(t *testing.T) {
	t.Parallel()
	seeds(t, 3, func(t *testing.T, seed uint64) {
		w := newWorld(t, sim.Config{Seed: seed}, time.Minute)
		w.grow(5)
		w.Run(30 * time.Second)
		w.want(1)
		w.Run(10 * time.Second)
		w.write(20*time.Second, 5*time.Second, 100)
		key := w.key(w.urls[0])
		var sequencer *member
		for _, m := range w.members {
			if m.leads[key] {
				sequencer = m
			}
		}
		sent := false
		sequencer.tap = func(_ env.PeerID, msg *ownerpb.Message) { sent = sent || msg.GetReplicate() != nil }
		w.append(w.urls[0], 100)
		if !w.RunUntil(func() bool { return sent }, 100*time.Microsecond, time.Second) {
			t.Fatal("nothing is sent")
		}
		sequencer.Crash(false)
		w.Run(time.Second)
		last := make([]owner.Hash, len(w.members))
		for i, m := range w.members {
			if m != sequencer {
				last[i] = head(m.owners.Log(key)).Hash
				m.Crash(false)
			}
		}
		w.Run(3 * time.Minute)
		published := map[owner.Hash]int{}
		for i, m := range w.members {
			if m == sequencer {
				continue
			}
			m.told = func(ev owner.Event) {
				if c, ok := ev.(owner.Committed); ok {
					published[c.Entry.Hash]++
				}
			}
			m.start()
			if h := head(m.owners.Visible(key)); h != nil && h.Hash == last[i] {
				t.Errorf("member %d shows an entry that nobody has committed", i)
			}
		}
		w.Run(5 * time.Minute)
		for i, m := range w.members {
			if m != sequencer && published[last[i]] == 0 {
				t.Error("the entry is not published")
			}
		}
	})
}

// While the application of a follower has not read an entry, a restart reports it again, however long ago it was committed.
func TestARestartReportsWhatWasNotRead(t *testing.T) {
	t.Parallel()
	seeds(t, 3, func(t *testing.T, seed uint64) {
		w := newWorld(t, sim.Config{Seed: seed}, time.Minute)
		w.grow(5)
		w.Run(30 * time.Second)
		w.want(1)
		w.Run(10 * time.Minute)
		url := w.urls[0]
		key := w.key(url)
		w.write(20*time.Second, 5*time.Second, 100)
		behind, upToDate := w.members[1], w.members[2]
		for _, m := range []*member{behind, upToDate} {
			m.Do(func() { m.owners.Follow(key, url) })
		}
		upToDate.Do(func() { upToDate.owners.Release(key, head(upToDate.owners.Visible(key)).Hash) })
		w.Run(10 * time.Minute)
		for _, m := range []*member{behind, upToDate} {
			if v, _ := m.owners.View(key); v.Epoch.AfterHash == head(m.owners.Log(key)).Hash {
				continue // an epoch says that the entry is committed
			}
			seen := restart(m)
			w.Run(2 * time.Minute)
			if seen.shown[key] != (m == behind) {
				t.Errorf("member %d is told: %v", m.Index(), seen.shown[key])
			}
		}
	})
}
