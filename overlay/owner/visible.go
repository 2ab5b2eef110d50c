package owner

import "tidings/overlay"

// Readers see of a log what no death of a node takes back: what is durable here and
// held by a quorum. Only the last entry of a log may not be held: the next one is
// made when it is.

// Shown returns what readers may see of a key's log, the oldest entry first. It must
// not be changed.
func (o *Owners) Visible(key overlay.ID) []*Entry {
	if s := o.replicas[key]; s != nil {
		return s.visible
	}
	return nil
}

// sure says whether the last entry of a log is known to be held by a quorum.
func (s *replica) headCommitted() bool { return s.committed == s.log.headHash() }

// settle notes that a quorum holds an entry, if it is the last one here.
func (o *Owners) markCommitted(s *replica, h Hash) {
	if h == s.log.headHash() {
		s.committed = h
		o.updateVisible(s)
	}
}

// show lets readers see what has become durable and sure.
func (o *Owners) updateVisible(s *replica) {
	if head := s.log.head(); head != nil && s.visible.has(head) {
		s.committed = head.Hash // it was known when the log was longer, or another one
	}
	n := s.visibleLen(o.volatile)
	if n == 0 && len(s.log) > 0 {
		return // a log that came anew is not durable yet: the old one stays in sight
	}
	if len(s.visible) == n && (n == 0 || s.visible[0] == s.log[0] && s.visible[n-1] == s.log[n-1]) {
		return
	}
	s.visible = s.log[:n:n]
	o.app.VisibleChanged(s.key)
}

// showable is how many entries of a log readers may see.
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
