package owner

import (
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay/owner/ownerpb"
)

func (o *Owners) sendReplicate(s *replica, f *inflight) {
	f.tries++
	m := &ownerpb.Message{Body: &ownerpb.Message_Replicate{Replicate: &ownerpb.Replicate{Entry: f.entry.Raw, Body: inline(f.body)}}}
	frame := wire.AppendFrame(nil, wire.Owner, m) // one for all
	for _, to := range s.epoch.Owners {
		if to == o.self || slices.Contains(f.acks, to) {
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
func (o *Owners) retryReplicate(s *replica, now time.Time) {
	l := s.leader
	if now.Before(l.retryAt) {
		return
	}
	again := answerTime
	switch {
	case l.inflight != nil && len(l.inflight.acks) == 0:
		return // not durable yet; fly comes back
	case l.inflight != nil:
		if l.inflight.tries > 3 && s.noQuorumSince.IsZero() {
			s.noQuorumSince = now
			o.campaignIn(s, 0)
		}
		again = min(time.Duration(l.inflight.tries), 5) * answerTime
		o.sendReplicate(s, l.inflight)
	case len(l.queue) > 0:
		o.appendNext(s)
		return
	case l.lagging != nil && l.lagging.tries < maxLaggingTries && len(l.lagging.acks) < len(s.epoch.Owners):
		o.sendReplicate(s, l.lagging)
	default:
		l.lagging = nil // its body would stay in memory until the next entry
		return
	}
	o.retryReplicateIn(s, again)
}

// holdAgain plans the next look; an earlier plan gives way.
func (o *Owners) retryReplicateIn(s *replica, d time.Duration) {
	s.leader.retryAt = o.clock.Now().Add(d)
	o.cal.Add(s.leader.retryAt, task{kind: taskRetryReplicate, key: s.key})
}

// onHeld takes an owner's word that it keeps an entry.
func (o *Owners) onReplicateAck(from env.PeerID, m *ownerpb.ReplicateAck) {
	s := o.replicaOf(m.Key)
	if s == nil || s.epoch == nil || !s.epoch.owns(from) {
		return
	}
	if from == s.epoch.Sequencer {
		o.markCommitted(s, Hash(m.Hash)) // so does a quorum
	}
	if s.leader == nil {
		return
	}
	for _, f := range []*inflight{s.leader.inflight, s.leader.lagging} {
		if f != nil && f.entry.Hash == Hash(m.Hash) && len(f.acks) > 0 && !slices.Contains(f.acks, from) {
			f.acks = append(f.acks, from)
			if f == s.leader.inflight {
				o.maybeCommit(s)
			} else {
				o.sendReplicateAck(from, f.entry)
			}
			return
		}
	}
}

// onHold keeps an entry for the sequencer in force.
func (o *Owners) onReplicate(from env.PeerID, m *ownerpb.Replicate) error {
	e, err := OpenEntry(o.verify, m.Entry)
	if err != nil {
		return err
	}
	s := o.replicas[e.Key]
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
	case o.owns(s) && o.promisedAway(s) && e.At.Branch == s.epoch.Branch && e.At.Epoch == s.epoch.Number:
		// It holds nothing more of this epoch, what it pulled since included: a candidate
		// may have drafted without. If that came to nothing, only a later epoch makes an
		// owner of this node again, which the sequencer has to know.
		if from == s.epoch.Sequencer {
			o.sendPromise(from, s, s.epoch.Number, s.promised.in(s.epoch.Branch).number)
		}
		return nil
	case s.log.has(e):
		if !o.volatile[e.Hash] {
			o.sendReplicateAck(from, e)
		}
		return nil
	case e.At.Branch != s.epoch.Branch || e.At.Epoch > s.epoch.Number:
		o.startPull(s, o.peer(from), nil) // which brings the epoch
		return nil
	case e.At.Epoch < s.epoch.Number:
		o.sendCommit(from, s)
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
	s.lastHeard = o.clock.Now()
	if e.Prev != s.log.headHash() || len(m.Body) == 0 && e.Size > 0 {
		o.startPull(s, o.peer(from), nil)
		return nil
	}
	if HashOf(m.Body) != e.Body {
		return errBody
	}
	o.storeEntries(s, []*Entry{e}, [][]byte{m.Body}, false, func(ok bool) {
		if ok {
			o.sendReplicateAck(from, e)
		}
	})
	return nil
}

// keep takes entries that somebody with a right to had signed into the log, and
// calls then when they are durable there, or with false when they are not to be.
func (o *Owners) storeEntries(s *replica, fresh []*Entry, bodies [][]byte, anew bool, then func(ok bool)) {
	for _, e := range fresh {
		o.volatile[e.Hash] = true
	}
	old := s.log
	ops := append(putOps(fresh, bodies), o.extend(s, fresh, bodies, anew)...)
	o.stats.Replicated += uint64(len(fresh))
	o.store.Commit(ops, func(err error) {
		for _, e := range fresh {
			delete(o.volatile, e.Hash)
		}
		if err != nil {
			o.stats.StoreErrors++
			o.log.Debug("log entries could not be stored", "url", s.url, "err", err)
			// What is not durable must not be vouched for, nor be followed by what
			// is: they are asked for again.
			switch i := s.log.find(fresh[0].Hash); {
			case i >= 0 && anew:
				s.setLog(old)
			case i >= 0:
				o.store.Commit(o.deleteOps(s.log[i:]), func(error) {}) // what followed may have been stored
				s.setLog(slices.Clone(s.log[:i]))
			}
			s.committed = s.visible.headHash()
			then(false)
			return
		}
		if s.log.find(fresh[len(fresh)-1].Hash) < 0 {
			then(false) // one before it was not stored, or it was cut meanwhile
			return
		}
		o.updateVisible(s)
		then(true)
	})
}

func (o *Owners) sendReplicateAck(to env.PeerID, e *Entry) {
	o.send(to, &ownerpb.Message{Body: &ownerpb.Message_ReplicateAck{ReplicateAck: &ownerpb.ReplicateAck{Key: e.Key[:], Hash: e.Hash[:]}}})
}
