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

// missedArticles remembers articles that were not matched, or not kept, for lack of time or space. The logs
// of their channels keep them for a while, so they are read again when there is room. The list is not on the
// disk, because the disk may be the problem. A node that stops before all were read logs a warning.
type missedArticles struct {
	// read calls then with the window of a channel, on any goroutine.
	read func(key overlay.ID, then func(feedtree.Document))
	// delay is the time from the last missed article to the first retry, so that a burst or a stall of the
	// disk is over by then.
	delay time.Duration

	reading bool // a window has been requested; owned by the loop

	mu          sync.Mutex // guards the fields below
	byChannel   map[overlay.ID]*missedInChannel
	outstanding int       // articles in byChannel, and those being retried
	retryAt     time.Time // time of the next retry
	recovered   int       // articles matched later
	lost        int       // articles that can no longer be read

	// refused holds the entries that a filter had no room for. They come again for a minute or two.
	refused map[owner.Hash]struct{}
}

// missedInChannel holds the missed articles of a channel.
type missedInChannel struct {
	feedtree.Subscription
	ids map[feed.ID]struct{}
}

// missedStats counts missed articles since the start.
type missedStats struct {
	Missed  uint64 // articles not searched when they came, for lack of time or space
	Later   int    // missed articles that were searched later
	Open    int    // missed articles that will be asked for again
	Lost    uint64 // missed articles that are lost
	Refused int    // entries of the network not searched for lack of time or space, and not received again
}

const (
	// maxMissed bounds the remembered articles, which take about 10 MB, and the remembered entries of a
	// filter. Further articles count as lost.
	maxMissed  = 1 << 17
	retryDelay = 5 * time.Second
)

// add remembers a missed article.
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

// addAgain remembers an article that was missed once more when it was retried.
func (m *missedArticles) addAgain(s feedtree.Subscription, id feed.ID, now time.Time) {
	m.mu.Lock()
	m.recovered--
	m.mu.Unlock()
	m.add(s, id, now)
}

// noteEntry notes whether there was room for an entry that a filter received, perhaps not for the first time.
func (m *missedArticles) noteEntry(entry owner.Hash, accepted bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if accepted {
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

// refusals returns the number of entries that were refused and have not come again.
func (m *missedArticles) refusals() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.refused)
}

// putBack returns the articles of an interrupted retry to the list.
func (m *missedArticles) putBack(c *missedInChannel, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.retryAt = now.Add(m.delay)
	ids := m.ids(c.Subscription)
	before := len(ids)
	maps.Copy(ids, c.ids)
	m.outstanding -= before + len(c.ids) - len(ids) // articles that were missed twice
}

// ids returns the set of missed articles of a channel. The caller holds the mutex.
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

// takeNext removes a channel with missed articles from the list and returns it. If it is too early for a
// retry, it returns nil and the time of the retry; if there is none, it returns nil and no time.
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

// noteOutcome counts articles that were retried: they were recovered, or are lost.
func (m *missedArticles) noteOutcome(recovered, lost int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.recovered += recovered
	m.lost += lost
	m.outstanding -= recovered + lost
}

// counts returns how many missed articles were matched later, are lost, and wait for a retry.
func (m *missedArticles) counts() (recovered, lost, outstanding int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.recovered, m.lost, m.outstanding
}

// retryMissed reads the missed articles of the next channel, if there is room for them. It returns when to
// try again.
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

// retryChannel matches the missed articles of a channel that are still in its window, the oldest first, while
// there is room.
func (k *keywords) retryChannel(c *missedInChannel, doc feedtree.Document) {
	slices.SortStableFunc(doc.Entries, func(a, b feed.Entry) int { return a.Arrived.Compare(b.Arrived) })
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

// memoryInUse returns the share of the memory limit (GOMEMLIMIT) that is in use, by live objects of the heap
// and by everything outside the heap. Without a limit it is 0.
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
	used := float64(samples[0].Value.Uint64()) + float64(samples[1].Value.Uint64())
	for _, s := range samples[2:] {
		used -= float64(s.Value.Uint64()) // garbage and free parts of the heap
	}
	return used / float64(limit)
}
