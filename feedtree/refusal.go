package feedtree

import (
	"bytes"
	"slices"
	"time"

	"tidings/difference"
	"tidings/internal/env"
)

// maxRefusals bounds the refusals that are kept for people. The oldest is dropped.
const maxRefusals = 16

// refusals keeps the latest refusals.
type refusals struct {
	clock env.Clock
	list  []Refusal // at most maxRefusals
}

// A Refusal describes something that this node refused: a publication, as the sequencer of its feed, or a message
// that is not a valid publication or entry.
type Refusal struct {
	URL string // "" if unknown, or if only an unverified message names it
	Seq uint64 // number of the publication
	Key []byte // key that signed the publication; nil: no valid signature
	Why string
	At  time.Time

	retryable, beat bool // the publication may be accepted later; it is a heartbeat of the publisher
}

// forget drops the refusals of a publication that was accepted later, at a given time: at first its key was
// unknown, or the publications before it were missing.
func (rf *refusals) forget(url string, p *difference.Publication, at time.Time) {
	rf.list = slices.DeleteFunc(rf.list, func(r Refusal) bool {
		return r.retryable && r.URL == url && r.Seq == p.Seq && p.By(r.Key) && (r.beat || p.Item != nil) && !r.At.After(at)
	})
}

// add records a refusal. A repeated one replaces the first.
func (rf *refusals) add(r Refusal) {
	r.At = rf.clock.Now()
	rf.list = slices.DeleteFunc(rf.list, func(old Refusal) bool {
		return old.URL == r.URL && old.Seq == r.Seq && bytes.Equal(old.Key, r.Key) && old.beat == r.beat && old.Why == r.Why
	})
	rf.list = append(rf.list, r)
	rf.list = rf.list[max(0, len(rf.list)-maxRefusals):]
}

// Refusals returns the latest refusals, the oldest first.
func (rf *refusals) Refusals() []Refusal { return slices.Clone(rf.list) }
