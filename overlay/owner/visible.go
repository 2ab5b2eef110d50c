package owner

import "tidings/overlay"

// Readers see entries that are durable here and committed, so that no death of a node takes them back. Only the last
// entry of a log may be uncommitted, because the sequencer makes the next one after the commit.

// Visible returns the entries of a key's log that readers may see, oldest first. The slice must not be modified.
func (o *Owners) Visible(key overlay.ID) []*Entry {
	if s := o.replicas.byKey[key]; s != nil {
		return s.visible
	}
	return nil
}

// headCommitted reports whether the last entry is known to be committed.
func (s *replica) headCommitted() bool { return s.committed == s.log.headHash() }

// markCommitted records that an entry is committed, if it is the last one here.
func (o *Owners) markCommitted(s *replica, h Hash) {
	if h == s.log.headHash() {
		s.committed = h
		o.updateVisible(s)
	}
}

// updateVisible shows readers the entries that have become durable and committed.
func (o *Owners) updateVisible(s *replica) {
	if head := s.log.head(); head != nil && s.visible.has(head) {
		s.committed = head.Hash // known from when the log was longer, or another one
	}
	n := s.visibleLen(o.volatile)
	if n == 0 && len(s.log) > 0 {
		return // the log was replaced by one that is not durable yet; readers keep seeing the old one
	}
	if len(s.visible) == n && (n == 0 || s.visible[0] == s.log[0] && s.visible[n-1] == s.log[n-1]) {
		return
	}
	s.visible = s.log[:n:n]
	o.app.VisibleChanged(s.key)
}

// visibleLen returns the number of entries that readers may see: those that are durable, except for a last entry that
// is not known to be committed.
func (s *replica) visibleLen(volatile map[Hash]bool) int {
	n := len(s.log)
	for n > 0 && volatile[s.log[n-1].Hash] {
		n--
	}
	if n > 0 && n == len(s.log) && !s.headCommitted() {
		n--
	}
	return n
}
