package daemon

import (
	"maps"
	"math"
	"runtime/debug"
	counters "runtime/metrics"
	"slices"
	"sync"
	"time"

	"tidings/feedtree"
	"tidings/internal/feed"
	"tidings/overlay"
	"tidings/overlay/owner"
)

// missed are articles that were not matched with keywords, or not kept, for want of time or room. The
// channels' own logs have them for a while: they are asked for again when there is room. What was missed
// is not on the disk, which may be what is amiss; a node that ends before says so.
type missed struct {
	// read hands a channel's window to then, on any goroutine.
	read func(key overlay.ID, then func(feedtree.Document))
	// after is the time from the last article that was missed until all are asked for again: a burst,
	// or a disk that does not answer, shall be over.
	after time.Duration

	asking bool // a window is on its way; the loop's

	mu    sync.Mutex // guards what follows
	of    map[overlay.ID]*missedOf
	open  int       // articles in of, and those that are asked for
	due   time.Time // when to ask
	again int       // articles that were taken later
	lost  int       // that cannot be had any more

	// refused are entries that a filter had no room for: they come again for a minute or two.
	refused map[owner.Hash]struct{}
}

// missedOf is what was missed of a channel.
type missedOf struct {
	feedtree.Subscription
	ids map[feed.ID]struct{}
}

// missedStats counts them since the start.
type missedStats struct {
	Missed  uint64 // articles not searched when they came, for lack of time or space
	Later   int    // missed articles that were searched later
	Open    int    // missed articles that will be asked for again
	Lost    uint64 // missed articles that are lost
	Refused int    // entries of the network not searched for lack of time or space, and not received again
}

const (
	// maxMissed is how many articles are remembered that were missed, in 10 MB or so. What is missed
	// beyond is lost. It is as many entries, too, that there was no room for.
	maxMissed  = 1 << 17
	againAfter = 5 * time.Second
)

// add notes an article that was missed.
func (m *missed) add(s feedtree.Subscription, id feed.ID, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.due = now.Add(m.after); m.open >= maxMissed {
		m.lost++
		return
	}
	ids := m.ids(s)
	if _, known := ids[id]; !known {
		ids[id] = struct{}{}
		m.open++
	}
}

// back notes that an article that was taken again is missed still.
func (m *missed) back(s feedtree.Subscription, id feed.ID, now time.Time) {
	m.mu.Lock()
	m.again--
	m.mu.Unlock()
	m.add(s, id, now)
}

// offered notes whether there was room for an entry that a filter got, which may have come before.
func (m *missed) offered(entry owner.Hash, taken bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if taken {
		delete(m.refused, entry)
		return
	}
	if m.refused == nil {
		m.refused = map[owner.Hash]struct{}{}
	}
	if len(m.refused) < maxMissed {
		m.refused[entry] = struct{}{}
	}
}

// refusals is how many entries there was no room for that have not come again.
func (m *missed) refusals() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.refused)
}

// later puts back what is asked for of a channel.
func (m *missed) later(c *missedOf, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.due = now.Add(m.after)
	ids := m.ids(c.Subscription)
	before := len(ids)
	maps.Copy(ids, c.ids)
	m.open -= before + len(c.ids) - len(ids) // which were missed twice
}

// ids are the articles that were missed of a channel. The caller holds the mutex.
func (m *missed) ids(s feedtree.Subscription) map[feed.ID]struct{} {
	if m.of == nil {
		m.of = map[overlay.ID]*missedOf{}
	}
	c := m.of[s.Key]
	if c == nil {
		c = &missedOf{s, map[feed.ID]struct{}{}}
		m.of[s.Key] = c
	}
	return c.ids
}

// next takes a channel of which something was missed, nil if there is none or it is too soon; due says
// when it is not.
func (m *missed) next(now time.Time) (c *missedOf, due time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.of) == 0 || now.Before(m.due) {
		if len(m.of) > 0 {
			due = m.due
		}
		return nil, due
	}
	for key, c := range m.of {
		delete(m.of, key)
		return c, due
	}
	return nil, due
}

// ended notes how asking for some articles ended: they were taken, or cannot be had.
func (m *missed) ended(again, lost int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.again += again
	m.lost += lost
	m.open -= again + lost
}

// ends returns how many articles that were missed were taken later, are lost, and are to be asked for again.
func (m *missed) ends() (again, lost, open int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.again, m.lost, m.open
}

func (m *missed) count() int {
	_, _, open := m.ends()
	return open
}

// again asks for what was missed of the next channel, if there is room for it, and returns when to look.
func (k *keywords) again(now time.Time) (next time.Time) {
	m := &k.missed
	if m.asking || m.read == nil {
		return time.Time{}
	}
	if k.reflector.Stats().Level > 0 || k.waiting.Load() > maxWaiting/4 {
		return now.Add(m.after)
	}
	c, next := m.next(now)
	if c == nil {
		return next
	}
	m.asking = true
	m.read(c.Key, func(doc feedtree.Document) {
		k.loop.Deliver(func() {
			m.asking = false
			k.takeAgain(c, doc)
		})
	})
	return time.Time{}
}

// takeAgain takes what was missed of a channel, the oldest first, as far as its window has it and there is
// room.
func (k *keywords) takeAgain(c *missedOf, doc feedtree.Document) {
	slices.SortStableFunc(doc.Entries, func(a, b feed.Entry) int { return a.Arrived.Compare(b.Arrived) })
	for i := range doc.Entries {
		item := &doc.Entries[i].Item
		if _, ok := c.ids[item.ID]; !ok || len(item.Raw) == 0 {
			continue
		}
		if k.reflector.Stats().Level > 0 {
			k.missed.later(c, k.loop.Now())
			return
		}
		delete(c.ids, item.ID)
		k.missed.ended(1, 0)
		k.take(c.Subscription, item, func() { k.missed.back(c.Subscription, item.ID, k.loop.Now()) })
	}
	if lost := len(c.ids); lost > 0 {
		k.missed.ended(0, lost)
		k.log.Warn("articles were lost before they were searched, for lack of time or space", "url", c.URL, "articles", lost)
	}
}

// memoryInUse is how much of the memory that the process may have (GOMEMLIMIT) is in use, by what is
// reachable and what is not of the heap; 0 if it may have any.
func memoryInUse() float64 {
	limit := debug.SetMemoryLimit(-1)
	if limit == math.MaxInt64 {
		return 0
	}
	samples := []counters.Sample{
		{Name: "/memory/classes/total:bytes"}, {Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/free:bytes"},
		{Name: "/memory/classes/heap/released:bytes"}, {Name: "/memory/classes/heap/unused:bytes"},
	}
	counters.Read(samples)
	in := float64(samples[0].Value.Uint64()) + float64(samples[1].Value.Uint64())
	for _, s := range samples[2:] {
		in -= float64(s.Value.Uint64()) // what was not collected yet, and what is free
	}
	return in / float64(limit)
}
