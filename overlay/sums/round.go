package sums

import (
	"math"
	"time"

	"tidings/internal/env"
	"tidings/overlay/sums/sumspb"
)

// hurry begins a series of quick rounds.
func (s *Sums) hurry(now time.Time) {
	s.pause = min(2*s.pause, s.cfg.Maintenance)
	if now.Sub(s.quickAt) > 2*s.pause {
		s.pause = 0 // it was calm
	}
	s.pause = max(s.pause, s.cfg.QuickPause)
	s.quick, s.quickAt, s.disturbed, s.lull = quickRounds, now, false, s.cfg.QuickInterval
	s.round(now)
}

// quickFrom is when the next series may begin.
func (s *Sums) quickFrom() time.Time { return s.quickAt.Add(s.pause) }

// shaken notes that parts came, went, or are answered for by somebody else.
func (s *Sums) shaken(moved int, now time.Time) {
	if now.Sub(s.changedAt) > shockTime {
		s.changed, s.changedAt = 0, now
	}
	if s.changed += moved; s.changed*shockPart > len(s.parts) {
		s.changed = 0
		s.disturb()
	}
}

// round asks for all parts.
func (s *Sums) round(now time.Time) {
	s.stats.Rounds++
	if s.quick > 0 {
		s.quick--
		s.stats.Quick++
	} else {
		s.lull = min(2*s.lull, s.cfg.Maintenance)
	}
	s.judge()
	for _, p := range s.parts {
		p.review(s.quick > 0)
		p.waiting, p.tries, p.heard, p.good = false, 0, false, false
	}
	s.refresh(now)
	s.roundAt = now.Add(s.spread(s.lull))
	s.cal.Add(s.roundAt, taskRound)
}

// spread returns d give or take a quarter, so that nodes do not march in step.
func (s *Sums) spread(d time.Duration) time.Duration {
	return d*3/4 + time.Duration(s.rand.Int64N(int64(d)/2+1))
}

// review counts the rounds in which whoever was asked brought nothing that counts. In quick
// rounds a sum may well be early.
func (p *part) review(quick bool) {
	switch {
	case p.tries == 0 || quick && p.heard && !p.good && !p.refused:
	case p.good && !p.doubted:
		p.poor = 0
	default:
		p.poor++
	}
}

// ask asks for a part.
func (s *Sums) ask(p *part, now time.Time) {
	s.stats.Asked++
	p.tries++
	p.waiting = true
	to := p.who.Peer
	if c := s.node.Contact(to.ID); c != nil {
		to = c.Peer // where it is now
	}
	s.send(to, env.Control, &sumspb.Message{Body: &sumspb.Message_Ask{Ask: &sumspb.Ask{
		Digits: p.digits(), Have: p.version,
	}}})
	if s.againAt.IsZero() {
		s.againAt = now.Add(answerPatience)
		s.cal.Add(s.againAt, taskAgain)
	}
}

// again asks those again that have not answered, or for whom it was early.
func (s *Sums) again(now time.Time) {
	s.againAt = time.Time{}
	for i := 0; i < len(s.parts); i++ { // they may change meanwhile
		p := s.parts[i]
		switch {
		case !p.waiting:
		case p.tries < askTries:
			s.stats.Again++
			s.ask(p, now)
		default:
			p.waiting = false
			if !p.heard {
				s.node.Suspect(p.who.Peer.ID)
			}
		}
	}
}

// onGive takes an answer.
func (s *Sums) onGive(from env.PeerID, m *sumspb.Give) {
	p := s.waits(from, m.Digits)
	if p == nil {
		return // twice, or too late
	}
	p.heard = true
	if m.Early {
		return
	}
	p.waiting = false
	now := s.clock.Now()
	switch {
	case m.Version == p.version && len(m.Value) == 0:
		p.good, p.at = true, now
	case len(m.Value) == 0 && m.Version != versionOf(nil):
		// As before, it says, and something else was.
	case s.take(p, m.Value, m.Version):
		s.stats.Taken++
		p.good, p.refused, p.at = true, false, now
	default:
		s.stats.Refused++
		p.refused = true
		s.stamp++ // another value may stand in
	}
}

// waits returns the part for which a peer is asked for so many digits, nil if none is.
func (s *Sums) waits(from env.PeerID, digits uint32) *part {
	for _, p := range s.parts {
		if p.waiting && p.digits() == digits && p.who.Peer.ID == from {
			return p
		}
	}
	return nil
}

// nodes is how many members a part may have: as many as were counted, or as stand that close
// together as those of the leaf, whatever is more. Counts follow a network that grows late.
func (s *Sums) nodes(p *part) int {
	if !p.slot() {
		return 1
	}
	leaf := s.node.Leaf()
	share := math.Ldexp(float64(leaf.Len()), leaf.Depth()-4*(p.row+1))
	return max(p.members, int(share), 1)
}

// take takes a value, if it is one.
func (s *Sums) take(p *part, value []byte, version uint64) bool {
	if more := len(value) - len(p.value); more > 0 && s.kept+more > maxKept {
		return false
	}
	var measure Measure
	about := Scope{Nodes: s.nodes(p)}
	if len(value) > 0 {
		sum := s.adder.Zero()
		if err := s.adder.Add(sum, value, about); err != nil {
			s.log.Debug("value of a peer was refused", "peer", p.who.ID.Short(), "row", p.row, "members", about.Nodes, "err", err)
			return false
		}
		measure = s.adder.Measure(sum)
	}
	s.setValue(p, value, version)
	p.about, p.measure = about, measure
	return true
}
