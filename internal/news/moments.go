package news

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/internal/feed"
)

// maxDelay bounds the delays that events tell of. An item with an older date was mostly written long before it appeared.
const maxDelay = 24 * time.Hour

// A moment is what the journal has of each event in memory.
type moment struct {
	at     time.Time
	source uint64         // start of the hash of the source's name
	kind   momentKind     // what the event tells of
	delay  *time.Duration // of a new item; nil: not known
	here   bool           // this node has found the item itself
}

// A NewItem says when a new item of a feed was seen.
type NewItem struct {
	At    time.Time
	Delay *time.Duration // how long after its date that was; nil: not known
	Here  bool           // this node has found the item itself
}

type momentKind uint8

const (
	anotherMoment momentKind = iota // of a search, or an edited item
	newItem                         // of a feed
	healthMoment
)

// moment returns when an event was, and what it tells of.
func (e *Event) moment() (m moment) {
	m = moment{at: e.Time, source: Source{URL: e.URL, Query: e.Query}.hash()}
	switch {
	case e.Health != nil:
		m.kind = healthMoment
	case e.URL != "" && !e.Edited:
		m.kind, m.here = newItem, e.FoundHere
		if e.DelayS != nil {
			m.delay = new(time.Duration(*e.DelayS * float64(time.Second)))
		}
	}
	return m
}

func (s Source) hash() uint64 { return binary.BigEndian.Uint64(s.key("")) }

// delayOf returns how long after its date a new item is seen, in seconds; nil if that is not known.
func delayOf(it *feed.Item, now time.Time) *float64 {
	date, updated := it.Dates()
	if date.IsZero() {
		date = updated
	}
	delay := max(0, now.Sub(date)) // the publisher's clock may be ahead
	if date.IsZero() || delay > maxDelay {
		return nil
	}
	return new(delay.Round(time.Millisecond).Seconds())
}

// NewItems returns how many new items of feeds the kept events since a time tell of.
func (j *Journal) NewItems(since time.Time) (n int) {
	j.EachNewItem("", since, func(NewItem) { n++ })
	return n
}

// EachNewItem calls each with every new item of a feed since a time, the latest first. url "" stands for all feeds. each must
// not call the journal, which is locked meanwhile.
func (j *Journal) EachNewItem(url string, since time.Time, each func(NewItem)) {
	source := Source{URL: url}.hash()
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, k := range slices.Backward(j.kept) {
		if k.at.Before(since) {
			break
		}
		if k.kind == newItem && (url == "" || k.source == source) {
			each(NewItem{k.at, k.delay, k.here})
		}
	}
}

// HealthOf returns the kept events about the health of a feed, the latest first and at most limit.
func (j *Journal) HealthOf(url string, limit int) (events []Event, err error) {
	source := Source{URL: url}.hash()
	j.mu.Lock()
	var numbers []uint64
	for _, k := range slices.Backward(j.kept) {
		if k.kind == healthMoment && k.source == source && len(numbers) < limit {
			numbers = append(numbers, k.number)
		}
	}
	j.mu.Unlock()
	for _, number := range numbers {
		value, err := j.store.Get(eventKey(number))
		if err != nil && !errors.Is(err, env.ErrDamaged) {
			return nil, fmt.Errorf("journal of news, event %d: %w", number, err)
		}
		var e Event
		if err == nil && value != nil && json.Unmarshal(value, &e) == nil && e.Health != nil && e.URL == url {
			events = append(events, e)
		}
	}
	return events, nil
}
