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
const maxGone = 4096

// Gone returns the entries of a log that this node has left for another, up to the one
// with a hash, as far as the log it has now lacks them, the oldest first. Their bodies can
// be read until Release.
func (o *Owners) Gone(key overlay.ID, last Hash) (of []*Entry) {
	s := o.seats[key]
	if s == nil {
		return nil
	}
	for at := s.gone.find(last); at >= 0; at = s.gone.find(s.gone[at].Prev) {
		if e := s.gone[at]; s.log.find(e.Hash) < 0 {
			of = append(of, e)
		}
	}
	slices.Reverse(of)
	return of
}

// Release drops what Gone returns of a key for any entry but last.
func (o *Owners) Release(key overlay.ID, last Hash) {
	s := o.seats[key]
	if s == nil || len(s.gone) == 0 {
		return
	}
	kept := o.Gone(key, last)
	s.gone = slices.DeleteFunc(s.gone, func(e *Entry) bool { return slices.Contains(kept, e) || s.log.find(e.Hash) >= 0 })
	ops := o.dropped(s.gone)
	s.gone = kept
	if len(ops) > 0 {
		o.store.Commit(ops, func(error) {}) // what stays there leads nowhere when it is loaded
	}
}

// depart returns the operations that drop entries which leave the log, those put off that
// readers of this node were shown.
func (o *Owners) depart(s *seat, of chain) (ops []env.Op) {
	for _, e := range of {
		switch {
		case s.gone.find(e.Hash) >= 0:
		case s.follow && s.shown.find(e.Hash) >= 0 && len(s.gone) < maxGone:
			s.gone = append(s.gone, e)
		default:
			ops = append(ops, o.dropped(chain{e})...)
		}
	}
	return ops
}
