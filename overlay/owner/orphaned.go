package owner

import (
	"slices"

	"tidings/internal/env"
	"tidings/overlay"
)

// A follower that goes over to another lineage drops entries that its readers were shown,
// before the two have met. They stay at hand until the application has what it wants of
// them: it would take them back otherwise.

// maxGone bounds what stays of one key so, in entries; at the bound the next are dropped.
// They stay for as long as it takes to read them.
const maxOrphaned = 4096

// Gone returns the entries of a log that this node has left for another, up to the one
// with a hash, as far as the log it has now lacks them, the oldest first. Their bodies can
// be read until Release.
func (o *Owners) Orphaned(key overlay.ID, last Hash) (of []*Entry) {
	s := o.replicas[key]
	if s == nil {
		return nil
	}
	for at := s.orphaned.find(last); at >= 0; at = s.orphaned.find(s.orphaned[at].Prev) {
		if e := s.orphaned[at]; s.log.find(e.Hash) < 0 {
			of = append(of, e)
		}
	}
	slices.Reverse(of)
	return of
}

// Release drops what Gone returns of a key for any entry but last.
func (o *Owners) Release(key overlay.ID, last Hash) {
	s := o.replicas[key]
	if s == nil || len(s.orphaned) == 0 {
		return
	}
	kept := o.Orphaned(key, last)
	s.orphaned = slices.DeleteFunc(s.orphaned, func(e *Entry) bool { return slices.Contains(kept, e) || s.log.find(e.Hash) >= 0 })
	ops := o.deleteOps(s.orphaned)
	s.orphaned = kept
	if len(ops) > 0 {
		o.store.Commit(ops, func(error) {}) // what stays there leads nowhere when it is loaded
	}
}

// depart returns the operations that drop entries which leave the log, those put off that
// readers of this node were shown.
func (o *Owners) orphanOrDelete(s *replica, of chain) (ops []env.Op) {
	for _, e := range of {
		switch {
		case s.orphaned.find(e.Hash) >= 0:
		case s.follow && s.visible.find(e.Hash) >= 0 && len(s.orphaned) < maxOrphaned:
			s.orphaned = append(s.orphaned, e)
		default:
			ops = append(ops, o.deleteOps(chain{e})...)
		}
	}
	return ops
}
