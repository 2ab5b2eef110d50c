package sums

import (
	"time"

	"tidings/overlay"
)

// Sums are made for those who want them. Who wants the rest asks for all parts; who was asked
// for a sum over the members that share some digits with it asks for the parts of that one,
// which share more. So no two keep each other awake, and where nobody has anything to add up
// nothing is sent.

// wants are who has wanted what lately.
type wants struct {
	rest time.Time   // when this node did, the sum of all
	sums []time.Time // by digits, when somebody did, a sum over as many
}

// asleep is the depth of a node of whom no sum is wanted.
const asleep = overlay.Digits + 1

// depth is how many digits the members of a part share at least with a node of which sums are
// wanted.
func (s *Sums) depth(now time.Time) int {
	if len(s.own) > 0 || now.Sub(s.wanted.rest) < s.cfg.KeepFor {
		return 0
	}
	for digits, at := range s.wanted.sums {
		if now.Sub(at) < s.cfg.KeepFor {
			return digits
		}
	}
	return asleep
}

// wantRest notes that the layer above wants the sum of all.
func (s *Sums) wantRest() {
	now := s.clock.Now()
	before := s.depth(now)
	s.wanted.rest = now
	s.deepen(before, now)
}

// wantSum notes that somebody wants a sum. There are no members to share more digits.
func (s *Sums) wantSum(digits uint32, now time.Time) {
	if digits > overlay.Digits {
		return
	}
	before := s.depth(now)
	for int(digits) >= len(s.wanted.sums) {
		s.wanted.sums = append(s.wanted.sums, time.Time{})
	}
	s.wanted.sums[digits] = now
	s.deepen(before, now)
}

// deepen asks for more parts than before, if more are wanted.
func (s *Sums) deepen(before int, now time.Time) {
	if !s.active {
		s.wake(now)
	} else if s.depth(now) < before {
		s.hurry(now)
	}
}

// wake begins to ask for parts, if this node is a member in full, and anything is wanted.
func (s *Sums) wake(now time.Time) {
	if s.node.State() == overlay.Active && s.depth(now) != asleep {
		s.active = true
		s.hurry(now)
	}
}
