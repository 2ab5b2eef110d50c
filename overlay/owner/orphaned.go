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
func (d *storage) Orphaned(key overlay.ID, last Hash) (of []*Entry) {
	s := d.replicas.byKey[key]
	if s == nil {
		return nil
	}
	for at := s.log.orphaned.find(last); at >= 0; at = s.log.orphaned.find(s.log.orphaned[at].Prev) {
		if e := s.log.orphaned[at]; s.log.find(e.Hash) < 0 {
			of = append(of, e)
		}
	}
	slices.Reverse(of)
	return of
}

// Release deletes the orphaned entries of a key, except for those that Orphaned returns for last.
func (d *storage) Release(key overlay.ID, last Hash) {
	s := d.replicas.byKey[key]
	if s == nil || len(s.log.orphaned) == 0 {
		return
	}
	kept := d.Orphaned(key, last)
	s.log.orphaned = slices.DeleteFunc(s.log.orphaned, func(e *Entry) bool { return slices.Contains(kept, e) || s.log.find(e.Hash) >= 0 })
	ops := d.deleteOps(s.log.orphaned)
	s.log.orphaned = kept
	if len(ops) > 0 {
		d.store.Commit(ops, func(error) {}) // if this fails, buildChain drops the entries at the next start
	}
}

// orphanOrDelete handles entries that leave the log: those that readers were shown become orphaned. It returns the
// operations that delete the others.
func (d *storage) orphanOrDelete(s *replica, of chain) (ops []env.Op) {
	for _, e := range of {
		switch {
		case s.log.orphaned.find(e.Hash) >= 0:
		case s.follow && s.log.visible.find(e.Hash) >= 0 && len(s.log.orphaned) < maxOrphaned:
			s.log.orphaned = append(s.log.orphaned, e)
		default:
			ops = append(ops, d.deleteOps(chain{e})...)
		}
	}
	return ops
}
