package sums

import (
	"time"

	"tidings/internal/env"
	"tidings/internal/plant"
	"tidings/overlay"
	"tidings/overlay/sums/sumspb"
)

// An answer is a sum as it was given.
type answer struct {
	digits  uint32
	stamp   uint64 // what it was made of
	at      time.Time
	value   []byte
	version uint64
}

// onAsk answers: with the value, or that it is what the asker has.
func (s *Sums) onAsk(from env.PeerID, m *sumspb.Ask) {
	now := s.clock.Now()
	if !now.Before(s.asksEnd) {
		clear(s.asks)
		s.asksEnd = now.Add(time.Minute)
	}
	if s.asks[from]++; s.asks[from] > maxAsks {
		s.stats.Flooded++
		return
	}
	g := &sumspb.Give{Digits: m.Digits}
	class := env.Control
	value, version, ok := s.own, s.ownVer, true
	if m.Digits > 0 {
		s.wantSum(m.Digits, now)
		value, version, ok = s.sumOf(m.Digits, now)
	}
	switch {
	case !ok:
		g.Early = true
		s.stats.Early++
	case version == m.Have:
		g.Version = version
		s.stats.Same++
	default:
		g.Version, g.Value = version, value
		class = env.Bulk
	}
	s.stats.Given++
	to := env.Peer{ID: from}
	if c := s.node.Contact(from); c != nil {
		to = c.Peer
	}
	s.send(to, class, &sumspb.Message{Body: &sumspb.Message_Give{Give: g}})
}

// sumOf returns the sum over the members that share so many digits with the node, itself
// included; ok is false as long as it is not whole.
func (s *Sums) sumOf(digits uint32, now time.Time) (value []byte, version uint64, ok bool) {
	if !s.active || s.early(int(digits), now) {
		return nil, 0, false
	}
	var a *answer
	for i := range s.answers {
		if s.answers[i].digits == digits {
			a = &s.answers[i]
		}
	}
	switch {
	case a == nil:
		s.answers = append(s.answers, answer{digits: digits})
		a = &s.answers[len(s.answers)-1]
	case a.stamp == s.stamp, now.Sub(a.at) < freshFor:
		return a.value, a.version, true
	}
	sum := s.adder.Zero()
	if len(s.own) > 0 {
		if err := s.adder.Add(sum, s.own, Scope{Nodes: 1}); err != nil {
			s.log.Warn("own value was not added to a sum", "err", err)
		}
	}
	s.addParts(sum, int(digits))
	a.value = s.adder.Encode(sum)
	if len(a.value) > MaxValue {
		s.log.Warn("sum is too large to send", "bytes", len(a.value))
		a.value = nil
	}
	a.stamp, a.at, a.version = s.stamp, now, versionOf(a.value)
	return a.value, a.version, true
}

// early says whether parts that share so many digits with the node are too new to be
// missed.
func (s *Sums) early(digits int, now time.Time) bool {
	self := s.node.ID()
	for _, p := range s.parts {
		if p.version == 0 && !p.refused && p.who != nil && now.Sub(p.since) < earlyFor && p.within(digits, self) {
			return true
		}
	}
	return false
}

// addParts adds what counts of the parts that share so many digits with the node.
func (s *Sums) addParts(sum any, digits int) {
	s.judge()
	var self overlay.ID
	if digits > 0 {
		self = s.node.ID()
	}
	for _, p := range s.parts {
		if !p.within(digits, self) {
			continue
		}
		if p.doubted {
			p = p.standIn
		}
		if len(p.value) == 0 {
			continue
		}
		if err := s.adder.Add(sum, p.value, p.about); err != nil {
			s.log.Warn("value of a peer was not added to a sum", "err", err) // it was when it was taken
		}
		if plant.CountedTwice && p.about.Nodes == 1 {
			_ = s.adder.Add(sum, p.value, p.about)
		}
	}
}
