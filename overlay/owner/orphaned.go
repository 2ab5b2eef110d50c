package owner

import (
	"slices"

	"tidings/internal/env"
	"tidings/overlay"
)

// A follower that switches to another branch drops entries that its readers were shown, before the two branches are
// merged. These orphaned entries stay readable until the application has copied what it needs; otherwise it would
// have to take the items back.

// maxOrphaned bounds the orphaned entries of one key. At the bound further ones are deleted at once. Entries stay until
// the application has read them.
const maxOrphaned = 4096

// Orphaned returns the entries up to the one with the hash last that readers were shown and that this node's log lacks
// after a switch of branch, oldest first. Their bodies can be read until Release.
func (o *Owners) Orphaned(key overlay.ID, last Hash) (of []*Entry) {
	s := o.replicas.byKey[key]
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

// Release deletes the orphaned entries of a key, except for those that Orphaned returns for last.
func (o *Owners) Release(key overlay.ID, last Hash) {
	s := o.replicas.byKey[key]
	if s == nil || len(s.orphaned) == 0 {
		return
	}
	kept := o.Orphaned(key, last)
	s.orphaned = slices.DeleteFunc(s.orphaned, func(e *Entry) bool { return slices.Contains(kept, e) || s.log.find(e.Hash) >= 0 })
	ops := o.deleteOps(s.orphaned)
	s.orphaned = kept
	if len(ops) > 0 {
		o.store.Commit(ops, func(error) {}) // if this fails, buildChain drops the entries at the next start
	}
}

// orphanOrDelete handles entries that leave the log: those that readers were shown become orphaned. It returns the
// operations that delete the others.
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
