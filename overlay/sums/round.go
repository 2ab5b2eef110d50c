package sums

import (
	"math"
	"time"

	"tidings/internal/env"
	"tidings/overlay/sums/sumspb"
)

// startQuickRounds begins a series of quick rounds.
func (s *Aggregator) startQuickRounds(now time.Time) {
	s.quickPause = min(2*s.quickPause, s.cfg.Maintenance)
	if now.Sub(s.quickStart) > 2*s.quickPause {
		s.quickPause = 0 // there was no series for some time
	}
	s.quickPause = max(s.quickPause, s.cfg.QuickPause)
	s.quickLeft, s.quickStart, s.quickPending, s.interval = quickRounds, now, false, s.cfg.QuickInterval
	s.startRound(now)
}

// nextQuickStart is the earliest start of the next series.
func (s *Aggregator) nextQuickStart() time.Time { return s.quickStart.Add(s.quickPause) }

// countChanges counts parts that came, went or have a new contact, and requests quick rounds if
// they are many.
func (s *Aggregator) countChanges(changed int, now time.Time) {
	if now.Sub(s.changedSince) > changeWindow {
		s.changed, s.changedSince = 0, now
	}
	if s.changed += changed; s.changed*changeShare > len(s.parts) {
		s.changed = 0
		s.scheduleQuickRounds()
	}
}

// startRound requests all parts.
func (s *Aggregator) startRound(now time.Time) {
	s.stats.Rounds++
	if s.quickLeft > 0 {
		s.quickLeft--
		s.stats.Quick++
	} else {
		s.interval = min(2*s.interval, s.cfg.Maintenance)
	}
	s.checkValues()
	for _, p := range s.parts {
		p.countBadRound(s.quickLeft > 0)
		p.waiting, p.tries, p.answered, p.accepted = false, 0, false, false
	}
	s.refresh(now)
	s.nextRound = now.Add(s.jitter(s.interval))
	s.cal.Add(s.nextRound, taskRound)
}

// jitter returns d ± 25 %, so that nodes do not run in step.
func (s *Aggregator) jitter(d time.Duration) time.Duration {
	return d*3/4 + time.Duration(s.rand.Int64N(int64(d)/2+1))
}

// countBadRound counts the rounds in which the contact did not deliver a value that counts. In
// quick rounds an incomplete sum is normal and does not count as bad.
func (p *part) countBadRound(quick bool) {
	switch {
	case p.tries == 0 || quick && p.answered && !p.accepted && !p.refused:
	case p.accepted && !p.implausible:
		p.badRounds = 0
	default:
		p.badRounds++
	}
}

// request sends a request for a part.
func (s *Aggregator) request(p *part, now time.Time) {
	s.stats.Asked++
	p.tries++
	p.waiting = true
	to := p.contact.Peer
	if c := s.node.Contact(to.ID); c != nil {
		to = c.Peer // its present addresses
	}
	s.send(to, env.Control, &sumspb.Message{Body: &sumspb.Message_Request{Request: &sumspb.Request{
		Digits: p.digits(), KnownVersion: p.version,
	}}})
	if s.retryAt.IsZero() {
		s.retryAt = now.Add(responseTimeout)
		s.cal.Add(s.retryAt, taskRetry)
	}
}

// retry repeats requests that were not answered, or only with an incomplete sum.
func (s *Aggregator) retry(now time.Time) {
	s.retryAt = time.Time{}
	for i := 0; i < len(s.parts); i++ { // parts may change meanwhile
		p := s.parts[i]
		switch {
		case !p.waiting:
		case p.tries < maxTries:
			s.stats.Again++
			s.request(p, now)
		default:
			p.waiting = false
			if !p.answered {
				s.node.Suspect(p.contact.Peer.ID)
			}
		}
	}
}

// onResponse handles a response.
func (s *Aggregator) onResponse(from env.PeerID, m *sumspb.Response) {
	p := s.waitingPart(from, m.Digits)
	if p == nil {
		return // a duplicate, or too late
	}
	p.answered = true
	if m.Incomplete {
		return
	}
	p.waiting = false
	now := s.clock.Now()
	switch {
	case m.Version == p.version && len(m.Value) == 0:
		p.accepted, p.confirmed = true, now
	case len(m.Value) == 0 && m.Version != versionOf(nil):
		// The peer says that nothing changed, but its last value was another one.
	case s.accept(p, m.Value, m.Version):
		s.stats.Taken++
		p.accepted, p.refused, p.confirmed = true, false, now
	default:
		s.stats.Refused++
		p.refused = true
		s.revision++ // another part's value may substitute for it
	}
}

// waitingPart returns the part for which a response with that many digits is awaited from a
// peer, or nil.
func (s *Aggregator) waitingPart(from env.PeerID, digits uint32) *part {
	for _, p := range s.parts {
		if p.waiting && p.digits() == digits && p.contact.Peer.ID == from {
			return p
		}
	}
	return nil
}

// maxMembers returns the greatest plausible number of members of a part: the number counted, or
// the number by the density of the own leaf, whichever is more. Counts lag behind in a growing
// network.
func (s *Aggregator) maxMembers(p *part) int {
	if !p.isSlot() {
		return 1
	}
	leaf := s.node.Leaf()
	share := math.Ldexp(float64(leaf.Len()), leaf.Depth()-4*(p.row+1))
	return max(p.members, int(share), 1)
}

// accept stores a value unless the Adder refuses it or there is no room for it.
func (s *Aggregator) accept(p *part, value []byte, version uint64) bool {
	if more := len(value) - len(p.value); more > 0 && s.keptBytes+more > maxKeptBytes {
		return false
	}
	var measure Measure
	scope := Scope{Nodes: s.maxMembers(p)}
	if len(value) > 0 {
		sum := s.adder.Zero()
		if err := s.adder.Add(sum, value, scope); err != nil {
			s.log.Debug("value of a peer was refused", "peer", p.contact.ID.Short(), "row", p.row, "members", scope.Nodes, "err", err)
			return false
		}
		measure = s.adder.Measure(sum)
	}
	s.setValue(p, value, version)
	p.scope, p.measure = scope, measure
	return true
}
