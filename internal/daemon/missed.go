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
type missedArticles struct {
	// read hands a channel's window to then, on any goroutine.
	read func(key overlay.ID, then func(feedtree.Document))
	// after is the time from the last article that was missed until all are asked for again: a burst,
	// or a disk that does not answer, shall be over.
	delay time.Duration

	reading bool // a window is on its way; the loop's

	mu          sync.Mutex // guards what follows
	byChannel   map[overlay.ID]*missedInChannel
	outstanding int       // articles in of, and those that are asked for
	retryAt     time.Time // when to ask
	recovered   int       // articles that were taken later
	lost        int       // that cannot be had any more

	// refused are entries that a filter had no room for: they come again for a minute or two.
	refused map[owner.Hash]struct{}
}

// missedOf is what was missed of a channel.
type missedInChannel struct {
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
	retryDelay = 5 * time.Second
)

// add notes an article that was missed.
func (m *missedArticles) add(s feedtree.Subscription, id feed.ID, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.retryAt = now.Add(m.delay); m.outstanding >= maxMissed {
		m.lost++
		return
	}
	ids := m.ids(s)
	if _, known := ids[id]; !known {
		ids[id] = struct{}{}
		m.outstanding++
	}
}

// back notes that an article that was taken again is missed still.
func (m *missedArticles) addAgain(s feedtree.Subscription, id feed.ID, now time.Time) {
	m.mu.Lock()
	m.recovered--
	m.mu.Unlock()
	m.add(s, id, now)
}

// offered notes whether there was room for an entry that a filter got, which may have come before.
func (m *missedArticles) noteEntry(entry owner.Hash, taken bool) {
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
func (m *missedArticles) refusals() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.refused)
}

// later puts back what is asked for of a channel.
func (m *missedArticles) putBack(c *missedInChannel, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.retryAt = now.Add(m.delay)
	ids := m.ids(c.Subscription)
	before := len(ids)
	maps.Copy(ids, c.ids)
	m.outstanding -= before + len(c.ids) - len(ids) // which were missed twice
}

// ids are the articles that were missed of a channel. The caller holds the mutex.
func (m *missedArticles) ids(s feedtree.Subscription) map[feed.ID]struct{} {
	if m.byChannel == nil {
		m.byChannel = map[overlay.ID]*missedInChannel{}
	}
	c := m.byChannel[s.Key]
	if c == nil {
		c = &missedInChannel{s, map[feed.ID]struct{}{}}
		m.byChannel[s.Key] = c
	}
	return c.ids
}

// next takes a channel of which something was missed, nil if there is none or it is too soon; due says
// when it is not.
func (m *missedArticles) takeNext(now time.Time) (c *missedInChannel, retryAt time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.byChannel) == 0 || now.Before(m.retryAt) {
		if len(m.byChannel) > 0 {
			retryAt = m.retryAt
		}
		return nil, retryAt
	}
	for key, c := range m.byChannel {
		delete(m.byChannel, key)
		return c, retryAt
	}
	return nil, retryAt
}

// ended notes how asking for some articles ended: they were taken, or cannot be had.
func (m *missedArticles) noteOutcome(recovered, lost int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.recovered += recovered
	m.lost += lost
	m.outstanding -= recovered + lost
}

// ends returns how many articles that were missed were taken later, are lost, and are to be asked for again.
func (m *missedArticles) counts() (recovered, lost, outstanding int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.recovered, m.lost, m.outstanding
}

func (m *missedArticles) outstandingCount() int {
	_, _, outstanding := m.counts()
	return outstanding
}

// again asks for what was missed of the next channel, if there is room for it, and returns when to look.
func (k *keywords) retryMissed(now time.Time) (next time.Time) {
	m := &k.missed
	if m.reading || m.read == nil {
		return time.Time{}
	}
	if k.reflector.Stats().Level > 0 || k.waitingBytes.Load() > maxWaitingBytes/4 {
		return now.Add(m.delay)
	}
	c, next := m.takeNext(now)
	if c == nil {
		return next
	}
	m.reading = true
	m.read(c.Key, func(doc feedtree.Document) {
		k.loop.Deliver(func() {
			m.reading = false
			k.retryChannel(c, doc)
		})
	})
	return time.Time{}
}

// takeAgain takes what was missed of a channel, the oldest first, as far as its window has it and there is
// room.
func (k *keywords) retryChannel(c *missedInChannel, doc feedtree.Document) {
	slices.SortStableFunc(doc.Entries, func(a, b feed.Entry) int { return a.At.Compare(b.At) })
	for i := range doc.Entries {
		item := &doc.Entries[i].Item
		if _, ok := c.ids[item.ID]; !ok || len(item.Raw) == 0 {
			continue
		}
		if k.reflector.Stats().Level > 0 {
			k.missed.putBack(c, k.loop.Now())
			return
		}
		delete(c.ids, item.ID)
		k.missed.noteOutcome(1, 0)
		k.match(c.Subscription, item, func() { k.missed.addAgain(c.Subscription, item.ID, k.loop.Now()) })
	}
	if lost := len(c.ids); lost > 0 {
		k.missed.noteOutcome(0, lost)
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
