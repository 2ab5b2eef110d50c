package owner

import (
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay/owner/ownerpb"
)

func (o *Owners) sendHold(s *seat, f *flight) {
	f.tries++
	m := &ownerpb.Message{Body: &ownerpb.Message_Hold{Hold: &ownerpb.Hold{Entry: f.entry.Raw, Body: inline(f.body)}}}
	frame := wire.AppendFrame(nil, wire.Owner, m) // one for all
	for _, to := range s.epoch.Owners {
		if to == o.self || slices.Contains(f.held, to) {
			continue
		}
		if f.tries > 2 {
			o.node.Suspect(to)
		}
		o.stats.Control++
		o.net.Send(o.peer(to), env.Control, frame)
	}
}

// inline is a body as it travels beside its entry.
func inline(body []byte) []byte {
	if len(body) > maxInline {
		return nil
	}
	return body
}

// urgeHold sends again what was not acknowledged.
func (o *Owners) urgeHold(s *seat, now time.Time) {
	l := s.lead
	if now.Before(l.again) {
		return
	}
	again := answerTime
	switch {
	case l.flight != nil && len(l.flight.held) == 0:
		return // not durable yet; fly comes back
	case l.flight != nil:
		if l.flight.tries > 3 && s.stuck.IsZero() {
			s.stuck = now
			o.bidIn(s, 0)
		}
		again = min(time.Duration(l.flight.tries), 5) * answerTime
		o.sendHold(s, l.flight)
	case len(l.queue) > 0:
		o.advance(s)
		return
	case l.trail != nil && l.trail.tries < maxTrail && len(l.trail.held) < len(s.epoch.Owners):
		o.sendHold(s, l.trail)
	default:
		l.trail = nil // its body would stay in memory until the next entry
		return
	}
	o.holdAgain(s, again)
}

// holdAgain plans the next look; an earlier plan gives way.
func (o *Owners) holdAgain(s *seat, d time.Duration) {
	s.lead.again = o.clock.Now().Add(d)
	o.cal.Add(s.lead.again, task{kind: taskHold, key: s.key})
}

// onHeld takes an owner's word that it keeps an entry.
func (o *Owners) onHeld(from env.PeerID, m *ownerpb.Held) {
	s := o.at(m.Key)
	if s == nil || s.epoch == nil || !s.epoch.owns(from) {
		return
	}
	if from == s.epoch.Sequencer {
		o.settle(s, Hash(m.Hash)) // so does a quorum
	}
	if s.lead == nil {
		return
	}
	for _, f := range []*flight{s.lead.flight, s.lead.trail} {
		if f != nil && f.entry.Hash == Hash(m.Hash) && len(f.held) > 0 && !slices.Contains(f.held, from) {
			f.held = append(f.held, from)
			if f == s.lead.flight {
				o.landed(s)
			} else {
				o.sendHeld(from, f.entry)
			}
			return
		}
	}
}

// onHold keeps an entry for the sequencer in force.
func (o *Owners) onHold(from env.PeerID, m *ownerpb.Hold) error {
	e, err := OpenEntry(o.verify, m.Entry)
	if err != nil {
		return err
	}
	s := o.seats[e.Key]
	if s != nil && !o.alive(from) && (s.epoch == nil || !s.epoch.owns(from)) {
		return nil // no sequencer of this key stands outside the leaf
	}
	switch {
	case s == nil || s.epoch == nil:
		if s == nil {
			return nil // not mine, as far as I know; the Install comes again with the next Beat
		}
		o.startPull(s, o.peer(from), nil)
		return nil
	case o.owns(s) && o.sealed(s) && e.At.Lineage == s.epoch.Lineage && e.At.Epoch == s.epoch.Number:
		// It holds nothing more of this epoch, what it pulled since included: a candidate
		// may have drafted without. If that came to nothing, only a later epoch makes an
		// owner of this node again, which the sequencer has to know.
		if from == s.epoch.Sequencer {
			o.sendSealed(from, s, s.epoch.Number, s.promised.in(s.epoch.Lineage).number)
		}
		return nil
	case s.log.has(e):
		if !o.volatile[e.Hash] {
			o.sendHeld(from, e)
		}
		return nil
	case e.At.Lineage != s.epoch.Lineage || e.At.Epoch > s.epoch.Number:
		o.startPull(s, o.peer(from), nil) // which brings the epoch
		return nil
	case e.At.Epoch < s.epoch.Number:
		o.sendInstall(from, s)
		return nil
	case !s.epoch.admits(e):
		o.stats.Untrusted++
		return errAfter
	case e.Signer != s.epoch.Sequencer:
		o.stats.Untrusted++
		return errSigner
	case !o.owns(s):
		return nil
	}
	s.heard = o.clock.Now()
	if e.Prev != s.log.headHash() || len(m.Body) == 0 && e.Size > 0 {
		o.startPull(s, o.peer(from), nil)
		return nil
	}
	if HashOf(m.Body) != e.Body {
		return errBody
	}
	o.keep(s, []*Entry{e}, [][]byte{m.Body}, false, func(ok bool) {
		if ok {
			o.sendHeld(from, e)
		}
	})
	return nil
}

// keep takes entries that somebody with a right to had signed into the log, and
// calls then when they are durable there, or with false when they are not to be.
func (o *Owners) keep(s *seat, fresh []*Entry, bodies [][]byte, anew bool, then func(ok bool)) {
	for _, e := range fresh {
		o.volatile[e.Hash] = true
	}
	old := s.log
	ops := append(kept(fresh, bodies), o.extend(s, fresh, bodies, anew)...)
	o.stats.Kept += uint64(len(fresh))
	o.store.Commit(ops, func(err error) {
		for _, e := range fresh {
			delete(o.volatile, e.Hash)
		}
		if err != nil {
			o.stats.Unsaved++
			o.log.Debug("log entries could not be stored", "url", s.url, "err", err)
			// What is not durable must not be vouched for, nor be followed by what
			// is: they are asked for again.
			switch i := s.log.find(fresh[0].Hash); {
			case i >= 0 && anew:
				s.setLog(old)
			case i >= 0:
				o.store.Commit(o.dropped(s.log[i:]), func(error) {}) // what followed may have been stored
				s.setLog(slices.Clone(s.log[:i]))
			}
			s.settled = s.shown.headHash()
			then(false)
			return
		}
		if s.log.find(fresh[len(fresh)-1].Hash) < 0 {
			then(false) // one before it was not stored, or it was cut meanwhile
			return
		}
		o.show(s)
		then(true)
	})
}

func (o *Owners) sendHeld(to env.PeerID, e *Entry) {
	o.send(to, &ownerpb.Message{Body: &ownerpb.Message_Held{Held: &ownerpb.Held{Key: e.Key[:], Hash: e.Hash[:]}}})
}
