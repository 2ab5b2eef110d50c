package sums

import (
	"time"

	"tidings/overlay"
)

// Nodes aggregate only what somebody wants. A node whose layer above wants the remote sum
// requests all parts. A node that was asked for the sum over the members that share d digits
// with it requests only the parts that share at least d digits. Such requests lead to requests
// for more digits only, so no two nodes keep each other active, and nothing is sent if no node
// has a value.

// demand records when each sum was last wanted.
type demand struct {
	remote   time.Time   // last time that this node wanted the sum of all other members
	prefixes []time.Time // by number of digits, last time that another member asked for that sum
}

// idleDepth is the depth of a node of which no sum is wanted.
const idleDepth = overlay.Digits + 1

// depth returns the least number of digits that a part must share with this node to be
// requested, or idleDepth.
func (s *Aggregator) depth(now time.Time) int {
	if len(s.own.value) > 0 || now.Sub(s.demand.remote) < s.cfg.keepFor() {
		return 0
	}
	for digits, at := range s.demand.prefixes {
		if now.Sub(at) < s.cfg.keepFor() {
			return digits
		}
	}
	return idleDepth
}

// noteRemoteDemand notes that the layer above wants the sum of all other members.
func (s *Aggregator) noteRemoteDemand() {
	now := s.clock.Now()
	before := s.depth(now)
	s.demand.remote = now
	s.demandChanged(before, now)
}

// notePrefixDemand notes that another member wants the sum over a prefix of this node's id.
func (s *Aggregator) notePrefixDemand(digits uint32, now time.Time) {
	if digits > overlay.Digits {
		return
	}
	before := s.depth(now)
	for int(digits) >= len(s.demand.prefixes) {
		s.demand.prefixes = append(s.demand.prefixes, time.Time{})
	}
	s.demand.prefixes[digits] = now
	s.demandChanged(before, now)
}

// demandChanged activates the node, or starts quick rounds if more parts are wanted than
// before.
func (s *Aggregator) demandChanged(before int, now time.Time) {
	if !s.active {
		s.activate(now)
	} else if s.depth(now) < before {
		s.startQuickRounds(now)
	}
}

// activate starts aggregation if this node is a full member and a sum is wanted of it.
func (s *Aggregator) activate(now time.Time) {
	if s.node.State() == overlay.Active && s.depth(now) != idleDepth {
		s.active = true
		s.startQuickRounds(now)
	}
}
