package owner

import "tidings/overlay"

// Readers see of a log what no death of a node takes back: what is durable here and
// held by a quorum. Only the last entry of a log may not be held: the next one is
// made when it is.

// Shown returns what readers may see of a key's log, the oldest entry first. It must
// not be changed.
func (o *Owners) Shown(key overlay.ID) []*Entry {
	if s := o.seats[key]; s != nil {
		return s.shown
	}
	return nil
}

// sure says whether the last entry of a log is known to be held by a quorum.
func (s *seat) sure() bool { return s.settled == s.log.headHash() }

// settle notes that a quorum holds an entry, if it is the last one here.
func (o *Owners) settle(s *seat, h Hash) {
	if h == s.log.headHash() {
		s.settled = h
		o.show(s)
	}
}

// show lets readers see what has become durable and sure.
func (o *Owners) show(s *seat) {
	if head := s.log.head(); head != nil && s.shown.has(head) {
		s.settled = head.Hash // it was known when the log was longer, or another one
	}
	n := s.showable(o.volatile)
	if n == 0 && len(s.log) > 0 {
		return // a log that came anew is not durable yet: the old one stays in sight
	}
	if len(s.shown) == n && (n == 0 || s.shown[0] == s.log[0] && s.shown[n-1] == s.log[n-1]) {
		return
	}
	s.shown = s.log[:n:n]
	o.app.Grew(s.key)
}

// showable is how many entries of a log readers may see.
func (s *seat) showable(volatile map[Hash]bool) int {
	n := len(s.log)
	for n > 0 && volatile[s.log[n-1].Hash] {
		n--
	}
	if n > 0 && n == len(s.log) && !s.sure() {
		n--
	}
	return n
}
