// Package news keeps a journal of what is new in the feeds, pages and searches that a node follows, so that programs
// and people can be told of it: each item once, in order, also after a crash.
//
//	j, err := news.Open(store, time.Now, sanitise)
//	n, err := j.Record(source, document)        // compares the document with what was recorded, and adds what is new
//	n, err = j.RecordHealth(source, health)     // likewise, whether the source can be read
//	events, missed, err := j.After(number, 100) // what came after an event
//	<-j.Changed()                               // wakes those who have read everything
//
// The journal compares whole documents, as readers see them, with what it knows to have been there. So it does not
// matter who found an item, whether the node was stopped in the middle of it, or how often the same document is
// recorded. The events and what the journal knows of the document become durable together.
//
// The first document of a source is its past, and no event. An item that leaves the document and comes back within a day is
// not new: after a crash, a log may lack its last entries for a while.
//
// A [Courier] brings events to targets, such as webhooks, and remembers how far each has come.
//
// The package leaves to others when a document is worth recording, who is told, and in which form (internal/daemon).
package news

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"tidings/internal/env"
	"tidings/internal/feed"
)

const (
	// maxEvents, maxBytes and MaxAge bound the events that a journal keeps. The oldest are dropped first; a program
	// that asks for them is told that some are missing.
	// The age is longer than a week, for digests that are sent once a week.
	maxEvents = 10_000
	maxBytes  = 64 << 20
	MaxAge    = 10 * 24 * time.Hour
	// maxEventBytes bounds one event. Beyond it the event names the item without its content.
	maxEventBytes = 64 << 10
	// goneTime is how long an item that has left the document is remembered.
	goneTime = 24 * time.Hour
	// maxRecent bounds the entries in the second record of a source. Each part of a document writes that record, and the
	// first one, which has all entries, only once in so many.
	maxRecent = 256
	// maxCommit bounds the bytes of events that become durable together. Those of the last document may exceed it.
	maxCommit = 1 << 20
	// maxDropped bounds the old events that are deleted with one record, so that none takes long.
	maxDropped = 200
)

// A Source is what an event comes from: a feed or page by its address, or a search by its query.
type Source struct {
	URL   string // "" for a search
	Query string // "" for a feed
	Title string // of the feed
}

func (s Source) name() string {
	if s.URL == "" {
		return "search for " + s.Query
	}
	return s.URL
}

// A Document is what readers of a source see now. Entries of which [Journal.Known] reports that they are recorded need not have
// their content.
type Document struct {
	*feed.Document
	// Complete says that no older items of the source are on their way. Only a complete document can be the first one.
	Complete bool
	// Part says that the entries are only those of a document that may have changed since it was recorded. It cannot be
	// the first one.
	Part bool
	// Fresh is the number of entries, at the front, that have just come. They are news even in the first document.
	Fresh int
	// Checkpoint names the state of the source that the document shows, see Journal.Checkpoint. Nil: it has no name.
	Checkpoint []byte
	// FoundHere says of a new entry whether this node has found it itself. Nil: it has found none.
	FoundHere func(*feed.Entry) bool
}

// A Journal keeps events. It is safe for concurrent use.
type Journal struct {
	store    env.Store
	clock    func() time.Time
	sanitise func(*feed.Meaning)

	recording sync.Mutex // held by one Record at a time

	mu      sync.Mutex    // guards the fields below
	kept    []keptEvent   // durable events, by number
	bytes   int           // of all kept events
	last    uint64        // number of the newest event that was ever durable
	changed chan struct{} // closed by the next event
}

type keptEvent struct {
	number uint64
	size   int
	moment
}

// The keys of records.
const (
	eventPrefix = "e" // then the number, 8 bytes
	seenPrefix  = "s" // then the hash of the source's name
	// recentPrefix stands before the same hash. Its record has what was recorded since the other one was written.
	recentPrefix = "r"
	// healthPrefix stands before the same hash.
	healthPrefix = "h"
	// checkpointPrefix stands before the same hash. Another version of this package that sees entries differently takes another one.
	checkpointPrefix = "u"
	lastKey          = "n"
)

// Open reads the journal in a store, which may be empty. The store must call back on any goroutine but the caller's; clock
// gives the time, and sanitise makes the content of an item safe for those who are told of it.
func Open(store env.Store, clock func() time.Time, sanitise func(*feed.Meaning)) (*Journal, error) {
	j := &Journal{store: store, clock: clock, sanitise: sanitise, changed: make(chan struct{})}
	last, err := store.Get([]byte(lastKey))
	if err == nil && len(last) == 8 {
		j.last = binary.BigEndian.Uint64(last)
	}
	if err == nil || errors.Is(err, env.ErrDamaged) {
		err = store.Range([]byte(eventPrefix), func(key, value []byte) bool {
			if e, err := j.decode(value); err == nil && len(key) == 1+8 {
				j.kept = append(j.kept, keptEvent{binary.BigEndian.Uint64(key[1:]), len(value), e.moment()})
				j.bytes += len(value)
				j.last = max(j.last, j.kept[len(j.kept)-1].number)
			}
			return true
		})
	}
	if err != nil && !errors.Is(err, env.ErrDamaged) { // a damaged event is missing, as a dropped one is
		return nil, fmt.Errorf("journal of news: %w", err)
	}
	return j, nil
}

// A Recording is what readers of a source see now, to be recorded.
type Recording struct {
	Source   Source
	Document Document
}

// Record records the document of one source; see RecordAll.
func (j *Journal) Record(s Source, d Document) (events int, err error) {
	return j.RecordAll(Recording{s, d})
}

// RecordAll compares documents of different sources with what the journal knows of them, and appends an event for each entry that
// is new or edited, in the order in which they came. They become durable together, maxCommit bytes at a time, before it returns.
// After an error the caller records all of the documents again.
func (j *Journal) RecordAll(of ...Recording) (events int, err error) {
	j.recording.Lock()
	defer j.recording.Unlock()
	p := pending{now: j.clock()}
	for i, r := range of {
		if err := j.record(&p, r.Source, r.Document); err != nil {
			return events, fmt.Errorf("journal of news, %s: %w", r.Source.name(), err)
		}
		if p.bytes < maxCommit && i < len(of)-1 {
			continue
		}
		if err := j.add(p.events, p.now, p.changes...); err != nil {
			return events, fmt.Errorf("journal of news, %d sources up to %s: %w", len(of), r.Source.name(), err)
		}
		events += len(p.events)
		p = pending{now: p.now}
	}
	return events, nil
}

// pending is what is to become durable together.
type pending struct {
	now     time.Time
	events  []encodedEvent
	bytes   int // of the events
	changes []env.Op
}

// An encodedEvent is an event that is not durable yet.
type encodedEvent struct {
	value []byte
	moment
}

// record adds what is new in a document to what is pending.
func (j *Journal) record(p *pending, s Source, d Document) error {
	known, err := j.recorded(s)
	if err != nil {
		return err
	}
	first := known.all == nil
	if first && (d.Part || !d.Complete && d.Fresh == 0) {
		return nil
	}
	next := seen{} // entries that differ from what is recorded
	for _, i := range byArrival(d.Entries) {
		e := &d.Entries[i]
		id, version := identify(e)
		before, had := next[id]
		if !had {
			before, had = known.find(id, p.now)
		}
		next[id] = sighting{version, 0}
		lacksContent := e.Meaning == nil && e.Item.Raw == nil // it was recorded, or is the past of the source
		if first && i >= d.Fresh || e.Withdrawn || had && before.version == version || lacksContent {
			continue
		}
		event := Event{Number: j.last + uint64(len(p.events)) + 1, Time: p.now, URL: s.URL, Query: s.Query, Title: s.Title, Edited: had, Key: id.String()}
		if !had && e.Meaning == nil { // an article of a search has come before
			event.DelayS = delayOf(&e.Item, p.now)
		}
		event.FoundHere = !had && d.FoundHere != nil && d.FoundHere(e)
		p.events = append(p.events, encodedEvent{j.encode(event, e, d.Base), event.moment()})
		p.bytes += len(p.events[len(p.events)-1].value)
	}
	p.changes = append(p.changes, known.update(s, next, d.Part, p.now)...)
	if d.Checkpoint != nil && !bytes.Equal(d.Checkpoint, known.checkpoint) {
		p.changes = append(p.changes, env.Op{Key: checkpointKey(s), Value: d.Checkpoint})
	}
	return nil
}

// add makes encoded events durable together with other changes, and shows them to readers. The events have the numbers
// after the last one, and the caller holds recording.
func (j *Journal) add(events []encodedEvent, now time.Time, changes ...env.Op) error {
	ops := slices.Clone(changes)
	var added []keptEvent
	for i, e := range events {
		number := j.last + uint64(i) + 1
		ops = append(ops, env.Op{Key: eventKey(number), Value: e.value, Body: true})
		added = append(added, keptEvent{number, len(e.value), e.moment})
	}
	dropped := 0
	if len(added) > 0 {
		dropped = j.surplus(added, now)
		for _, k := range j.kept[:dropped] {
			ops = append(ops, env.Op{Key: eventKey(k.number)})
		}
		ops = append(ops, env.Op{Key: []byte(lastKey), Value: binary.BigEndian.AppendUint64(nil, added[len(added)-1].number)})
	}
	if len(ops) == 0 {
		return nil
	}
	if err := j.commit(ops); err != nil {
		return err
	}
	j.publish(added, dropped)
	return nil
}

// Forget drops what the journal knows of a source that is not followed any more. Its events stay.
func (j *Journal) Forget(s Source) error {
	j.recording.Lock()
	defer j.recording.Unlock()
	if err := j.commit([]env.Op{{Key: seenKey(s)}, {Key: recentKey(s)}, {Key: healthKey(s)}, {Key: checkpointKey(s)}}); err != nil {
		return fmt.Errorf("journal of news, forget %s: %w", s.name(), err)
	}
	return nil
}

// Checkpoint returns the name of the state up to which a source was recorded. If that is its state still, also after a restart, there
// is nothing to record. It is nil if the source has to be recorded as a whole.
func (j *Journal) Checkpoint(s Source) ([]byte, error) {
	known, err := j.store.Get(seenKey(s))
	if err != nil || known == nil {
		return nil, err
	}
	return j.store.Get(checkpointKey(s))
}

// Known returns a function that reports, of a version of an item, that the next record of a feed needs only its ID and hash: the journal
// has it, or nothing of the feed, so that all it has now is its past. The function is safe for concurrent use.
func (j *Journal) Known(s Source) (func(feed.ID, feed.Hash) bool, error) {
	known, err := j.recorded(s)
	if err != nil {
		return nil, fmt.Errorf("journal of news, %s: %w", s.name(), err)
	}
	now := j.clock()
	return func(id feed.ID, hash feed.Hash) bool {
		if known.all == nil {
			return true
		}
		before, had := known.find(itemID(id[:]), now)
		return had && before.version == version(hash[:])
	}, nil
}

// commit returns when ops are durable.
func (j *Journal) commit(ops []env.Op) error {
	done := make(chan error, 1)
	j.store.Commit(ops, func(err error) { done <- err })
	return <-done
}

// surplus returns how many of the oldest events have to go when some are added.
func (j *Journal) surplus(added []keptEvent, now time.Time) (n int) {
	count, size := len(j.kept)+len(added), j.bytes
	for _, k := range added {
		size += k.size
	}
	for n < min(len(j.kept), maxDropped+len(added)) {
		k := j.kept[n]
		if count <= maxEvents && size <= maxBytes && now.Sub(k.at) <= MaxAge {
			break
		}
		count, size, n = count-1, size-k.size, n+1
	}
	return n
}

// publish shows durable events to readers.
func (j *Journal) publish(added []keptEvent, dropped int) {
	if len(added) == 0 {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, k := range j.kept[:dropped] {
		j.bytes -= k.size
	}
	j.kept = append(j.kept[dropped:], added...)
	for _, k := range added {
		j.bytes += k.size
	}
	j.last = added[len(added)-1].number
	close(j.changed)
	j.changed = make(chan struct{})
}

// Changed returns a channel that is closed by the next event.
func (j *Journal) Changed() <-chan struct{} {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.changed
}

// Last returns the number of the newest event, 0 if there was none.
func (j *Journal) Last() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.last
}

// After returns the events with greater numbers than a given one, at most limit. missed says that older ones among
// them are dropped.
func (j *Journal) After(number uint64, limit int) (events []Event, missed bool, err error) {
	j.mu.Lock()
	at, _ := slices.BinarySearchFunc(j.kept, number+1, func(k keptEvent, n uint64) int { return cmp.Compare(k.number, n) })
	numbers := slices.Clone(j.kept[at:min(len(j.kept), at+limit)])
	missed = number < j.last && (at == len(j.kept) || at == 0 && j.kept[0].number > number+1)
	j.mu.Unlock()
	for _, k := range numbers {
		value, err := j.store.Get(eventKey(k.number))
		switch {
		case errors.Is(err, env.ErrDamaged) || err == nil && value == nil: // dropped meanwhile
			missed = true
			continue
		case err != nil:
			return nil, false, fmt.Errorf("journal of news, event %d: %w", k.number, err)
		}
		e, err := j.decode(value)
		if err != nil {
			missed = true
			continue
		}
		events = append(events, e)
	}
	if len(events) == 0 && len(numbers) > 0 { // none of them can be read
		events, _, err = j.After(numbers[len(numbers)-1].number, limit)
		return events, true, err
	}
	return events, missed, nil
}

// byArrival returns the indices of entries, those that came first at the front. Of entries that came together, the last in
// the document is usually the oldest.
func byArrival(entries []feed.Entry) []int {
	order := make([]int, len(entries))
	for i := range order {
		order[i] = len(entries) - 1 - i
	}
	slices.SortStableFunc(order, func(a, b int) int { return entries[a].Arrived.Compare(entries[b].Arrived) })
	return order
}

func marshal(v any) []byte {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		panic("news: " + err.Error()) // the types can always be encoded
	}
	return bytes.TrimSpace(b.Bytes())
}

func eventKey(number uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte(eventPrefix), number)
}

func seenKey(s Source) []byte { return s.key(seenPrefix) }

func recentKey(s Source) []byte { return s.key(recentPrefix) }

func checkpointKey(s Source) []byte { return s.key(checkpointPrefix) }

func (s Source) key(prefix string) []byte {
	h := sha256.Sum256([]byte(s.name()))
	return append([]byte(prefix), h[:16]...)
}

// Shows reports whether the document of an event's source had its item when it was last recorded.
func (j *Journal) Shows(e *Event) (bool, error) {
	known, err := j.recorded(Source{URL: e.URL, Query: e.Query})
	key, wrong := hex.DecodeString(e.Key)
	if err != nil || wrong != nil || len(key) != len(itemID{}) {
		return false, err
	}
	s, ok := known.find(itemID(key), j.clock())
	return ok && s.gone == 0, nil
}
