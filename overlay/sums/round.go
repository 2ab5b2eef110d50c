package sums

import (
	"math"
	"time"

	"tidings/internal/env"
	"tidings/overlay/sums/sumspb"
)

// rounds are the times at which parts are requested.
type rounds struct {
	nextAt   time.Time     // time of the next round
	retryAt  time.Time     // time of the next retry; zero if no response is awaited
	interval time.Duration // mean time between the present round and the next

	quickLeft    int           // quick rounds that remain in this series
	quickStart   time.Time     // start of the last series of quick rounds
	quickPause   time.Duration // shortest time from quickStart to the next series
	quickPending bool          // another series is due at quickStart + quickPause
	changed      int           // parts that changed since changedSince
	changedSince time.Time     // start of the present count of changes
}

// nextQuickStart is the earliest start of the next series.
func (r *rounds) nextQuickStart() time.Time { return r.quickStart.Add(r.quickPause) }

// countChanges counts parts that came, went or have a new contact, and reports whether they are many
// among all parts.
func (r *rounds) countChanges(changed, parts int, now time.Time) (many bool) {
	if now.Sub(r.changedSince) > changeWindow {
		r.changed, r.changedSince = 0, now
	}
	if r.changed += changed; r.changed*changeShare > parts {
		r.changed, many = 0, true
	}
	return many
}

// startQuickRounds begins a series of quick rounds.
func (s *Aggregator) startQuickRounds(now time.Time) {
	r := &s.rounds
	r.quickPause = min(2*r.quickPause, s.cfg.Maintenance)
	if now.Sub(r.quickStart) > 2*r.quickPause {
		r.quickPause = 0 // there was no series for some time
	}
	r.quickPause = max(r.quickPause, s.cfg.quickPause())
	r.quickLeft, r.quickStart, r.quickPending, r.interval = quickRounds, now, false, s.cfg.quickInterval()
	s.startRound(now)
}

// startRound requests all parts.
func (s *Aggregator) startRound(now time.Time) {
	s.stats.Rounds++
	if s.rounds.quickLeft > 0 {
		s.rounds.quickLeft--
		s.stats.Quick++
	} else {
		s.rounds.interval = min(2*s.rounds.interval, s.cfg.Maintenance)
	}
	s.checkValues()
	for _, p := range s.parts {
		p.countBadRound(s.rounds.quickLeft > 0)
		p.waiting, p.tries, p.answered, p.accepted = false, 0, false, false
	}
	s.refresh(now)
	s.rounds.nextAt = now.Add(env.Jitter(s.rand, s.rounds.interval))
	s.cal.Add(s.rounds.nextAt, taskRound)
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
	if s.rounds.retryAt.IsZero() {
		s.rounds.retryAt = now.Add(responseTimeout)
		s.cal.Add(s.rounds.retryAt, taskRetry)
	}
}

// retry repeats requests that were not answered, or only with an incomplete sum.
func (s *Aggregator) retry(now time.Time) {
	s.rounds.retryAt = time.Time{}
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
