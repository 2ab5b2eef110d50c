package news

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"tidings/internal/env"
)

// Health says how a node can read a source at present.
type Health struct {
	Failing string    // why it cannot be read; "": it can
	Since   time.Time // since when, if that is known
	Gone    bool      // its web server says that it is gone for good
	Moved   string    // its new address, as its web server says; "": none
	Key     string    // fingerprint of its publisher's key; "": none
	Doubt   string    // fingerprint of another key that is named for it and not believed; "": none
	// KeyText says how the key was changed, or what speaks for the other one.
	KeyText string
	Do      string // what a person can do; may be empty
}

// Kinds of changes of health.
const (
	HealthFailing   = "failing"   // for FailingTime
	HealthRecovered = "recovered" // after that, or after it was gone
	HealthGone      = "gone"
	HealthMoved     = "moved"
	HealthKey       = "key" // the publisher's key was changed, or may have been
)

// FailingTime is how long a source has to fail before that is an event: long enough for the outage of a night.
const FailingTime = 24 * time.Hour

// A HealthChange is what an event says about the health of its source.
type HealthChange struct {
	Kind  string    `json:"kind"`
	Text  string    `json:"text"` // for people
	Do    string    `json:"do,omitempty"`
	Since time.Time `json:"since,omitzero"` // when a source began to fail
}

// A healthRecord is what the journal knows of the health of a source. A source with the zero record has none in the store, as most
// have: it can be read, has not moved, and has no publisher.
type healthRecord struct {
	FailingSince time.Time `json:"failing_since,omitzero"`
	Told         string    `json:"told,omitempty"` // HealthFailing or HealthGone, if an event has said so last
	Moved        string    `json:"moved,omitempty"`
	Key          string    `json:"key,omitempty"`
	Doubt        string    `json:"doubt,omitempty"`
}

// RecordHealth compares the health of a source with what the journal knows of it, and appends an event for each change that
// a person should hear of. It returns when the events are durable.
func (j *Journal) RecordHealth(s Source, h Health) (events int, err error) {
	j.recording.Lock()
	defer j.recording.Unlock()
	b, err := j.store.Get(healthKey(s))
	if err != nil && !errors.Is(err, env.ErrDamaged) {
		return 0, fmt.Errorf("journal of news, health of %s: %w", s.name(), err)
	}
	var known healthRecord
	damaged := err != nil || b != nil && json.Unmarshal(b, &known) != nil
	if damaged { // it is made anew
		known = healthRecord{}
	}
	now := j.clock()
	next, changes := h.since(known, now)
	if next == known && !damaged {
		return 0, nil
	}
	var added []encodedEvent
	for i := range changes {
		event := Event{Number: j.last + uint64(i) + 1, Time: now, URL: s.URL, Title: s.Title, Health: &changes[i]}
		added = append(added, encodedEvent{marshal(event), event.moment()})
	}
	op := env.Op{Key: healthKey(s)}
	if next != (healthRecord{}) {
		op.Value = marshal(next)
	}
	if err := j.add(added, now, op); err != nil {
		return 0, fmt.Errorf("journal of news, health of %s: %w", s.name(), err)
	}
	return len(added), nil
}

// since returns what is to be known of a health from now on, and what has changed since it was known.
func (h Health) since(known healthRecord, now time.Time) (next healthRecord, changes []HealthChange) {
	next = known
	tell := func(kind, text string, since time.Time) {
		changes = append(changes, HealthChange{Kind: kind, Text: text, Do: h.Do, Since: since})
	}
	if h.Failing == "" {
		next.FailingSince, next.Told = time.Time{}, ""
		if known.Told != "" {
			changes = append(changes, HealthChange{Kind: HealthRecovered, Text: "it can be read again", Since: known.FailingSince})
		}
	} else {
		if next.FailingSince.IsZero() {
			next.FailingSince = now
		}
		if !h.Since.IsZero() && h.Since.Before(next.FailingSince) {
			next.FailingSince = h.Since.UTC()
		}
		switch {
		case h.Gone && known.Told != HealthGone:
			next.Told = HealthGone
			tell(HealthGone, h.Failing, next.FailingSince)
		case known.Told == "" && now.Sub(next.FailingSince) >= FailingTime:
			next.Told = HealthFailing
			tell(HealthFailing, h.Failing, next.FailingSince)
		}
	}
	if next.Moved = h.Moved; h.Moved != "" && h.Moved != known.Moved {
		tell(HealthMoved, "its web server says that it is now at "+h.Moved, time.Time{})
	}
	if h.Key != "" { // a key that is not known for a moment is not a change
		next.Key = h.Key
	}
	next.Doubt = h.Doubt
	if known.Key != "" && next.Key != known.Key || h.Doubt != "" && h.Doubt != known.Doubt {
		tell(HealthKey, h.KeyText, time.Time{})
	}
	return next, changes
}

func healthKey(s Source) []byte { return s.key(healthPrefix) }
