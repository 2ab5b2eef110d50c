package sums

import (
	"time"

	"tidings/internal/env"
	"tidings/overlay"
	"tidings/overlay/sums/sumspb"
)

// A cachedSum is a sum that was sent to another member.
type cachedSum struct {
	digits   uint32 // digits of this node's id that all added members share
	revision uint64 // revision of the Aggregator when the sum was computed
	computed time.Time
	value    []byte // encoded sum; empty if it was larger than MaxValue
	version  uint64
}

// A requestLimit counts the requests of each peer in a minute.
type requestLimit struct {
	count map[env.PeerID]int
	reset time.Time // end of the minute
}

// allow counts a request, and reports whether the peer has sent no more than maxRequests.
func (l *requestLimit) allow(from env.PeerID, now time.Time) bool {
	if !now.Before(l.reset) {
		clear(l.count)
		l.reset = now.Add(time.Minute)
	}
	l.count[from]++
	return l.count[from] <= maxRequests
}

// onRequest answers with the value, or with its version alone if the sender has that version.
func (s *Aggregator) onRequest(from env.PeerID, m *sumspb.Request) {
	now := s.clock.Now()
	if !s.requests.allow(from, now) {
		s.stats.Flooded++
		return
	}
	response := &sumspb.Response{Digits: m.Digits}
	class := env.Control
	value, version, ok := s.own.value, s.own.version, true
	if m.Digits > 0 {
		s.notePrefixDemand(m.Digits, now)
		value, version, ok = s.prefixSum(m.Digits, now)
	}
	switch {
	case !ok:
		response.Incomplete = true
		s.stats.Early++
	case version == m.KnownVersion:
		response.Version = version
		s.stats.Same++
	default:
		response.Version, response.Value = version, value
		class = env.Bulk
	}
	s.stats.Given++
	to := env.Peer{ID: from}
	if c := s.node.Contact(from); c != nil {
		to = c.Peer
	}
	s.send(to, class, &sumspb.Message{Body: &sumspb.Message_Response{Response: response}})
}

// prefixSum returns the sum over the members that share that many digits with the node, itself
// included; ok is false while it is not complete.
func (s *Aggregator) prefixSum(digits uint32, now time.Time) (value []byte, version uint64, ok bool) {
	if !s.active || s.missesNewPart(int(digits), now) {
		return nil, 0, false
	}
	var cached *cachedSum
	for i := range s.cache {
		if s.cache[i].digits == digits {
			cached = &s.cache[i]
		}
	}
	switch {
	case cached == nil:
		s.cache = append(s.cache, cachedSum{digits: digits})
		cached = &s.cache[len(s.cache)-1]
	case cached.revision == s.revision, now.Sub(cached.computed) < reuseTime:
		return cached.value, cached.version, true
	}
	sum := s.adder.Zero()
	if len(s.own.value) > 0 {
		if err := s.adder.Add(sum, s.own.value, Scope{Nodes: 1}); err != nil {
			s.log.Warn("own value was not added to a sum", "err", err)
		}
	}
	s.addParts(sum, int(digits))
	cached.value = s.adder.Encode(sum)
	if len(cached.value) > MaxValue {
		s.log.Warn("sum is too large to send", "bytes", len(cached.value))
		cached.value = nil
	}
	cached.revision, cached.computed, cached.version = s.revision, now, versionOf(cached.value)
	return cached.value, cached.version, true
}

// missesNewPart reports whether a part that shares that many digits with the node has no value
// yet, but is new enough to expect one.
func (s *Aggregator) missesNewPart(digits int, now time.Time) bool {
	self := s.node.ID()
	for _, p := range s.parts {
		if p.version == 0 && !p.refused && p.contact != nil && now.Sub(p.created) < newPartGrace && p.sharesDigits(digits, self) {
			return true
		}
	}
	return false
}

// addParts adds the values that count of all parts that share that many digits with the node.
func (s *Aggregator) addParts(sum any, digits int) {
	s.checkValues()
	var self overlay.ID
	if digits > 0 {
		self = s.node.ID()
	}
	for _, p := range s.parts {
		if !p.sharesDigits(digits, self) {
			continue
		}
		if p.implausible {
			p = p.substitute
		}
		if len(p.value) == 0 {
			continue
		}
		if err := s.adder.Add(sum, p.value, p.scope); err != nil {
			s.log.Warn("value of a peer was not added to a sum", "err", err) // the same value was accepted before
		}
	}
}
