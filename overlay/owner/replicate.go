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

// inline returns the body if it fits beside its entry, else nil.
func inline(body []byte) []byte {
	if len(body) > maxInline {
		return nil
	}
	return body
}

// retryReplicate sends an entry again to the owners that have not acknowledged it.
func (o *Owners) retryReplicate(s *replica, now time.Time) {
	l := s.leader
	if now.Before(l.retryAt) {
		return
	}
	again := answerTime
	switch {
	case l.inflight != nil && len(l.inflight.acks) == 0:
		return // not durable here yet; replicate is called when it is
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
		l.lagging = nil // free the body
		return
	}
	o.retryReplicateIn(s, again)
}

// retryReplicateIn plans the next retry in place of an earlier plan.
func (o *Owners) retryReplicateIn(s *replica, d time.Duration) {
	s.leader.retryAt = o.clock.Now().Add(d)
	o.cal.Add(s.leader.retryAt, task{kind: taskRetryReplicate, key: s.key})
}

// onReplicateAck handles an owner's acknowledgement. From the sequencer it means that the entry is committed.
func (o *Owners) onReplicateAck(from env.PeerID, m *ownerpb.ReplicateAck) {
	s := o.replicas.of(m.Key)
	if s == nil || s.epoch == nil || !s.epoch.owns(from) {
		return
	}
	if from == s.epoch.Sequencer {
		o.markCommitted(s, Hash(m.Hash)) // the sequencer acknowledges committed entries only
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
				o.sendReplicateAck(f.entry, from)
			}
			return
		}
	}
}

// onReplicate stores an entry of the sequencer in force and acknowledges it.
func (o *Owners) onReplicate(from env.PeerID, m *ownerpb.Replicate) error {
	e, err := OpenEntry(o.epochs.verify, m.Entry)
	if err != nil {
		return err
	}
	s := o.replicas.byKey[e.Key]
	if s != nil && !o.alive(from) && (s.epoch == nil || !s.epoch.owns(from)) {
		return nil // the sequencer of a key is an owner or in the leaf
	}
	switch {
	case s == nil || s.epoch == nil:
		if s == nil {
			return nil // this node knows no log of the key; heartbeats will repeat the epoch
		}
		o.pullFrom(s, from)
		return nil
	case s.owned && s.promisedAway() && e.At.Branch == s.epoch.Branch && e.At.Epoch == s.epoch.Number:
		// This owner has promised to accept nothing more of this epoch, including entries pulled since: a
		// candidate may have proposed an epoch without them. If that candidacy failed, only a later epoch
		// makes this node accept entries again, so the sequencer has to know.
		if from == s.epoch.Sequencer {
			o.sendPromise(from, s, s.epoch.Number, s.promisedNumber())
		}
		return nil
	case s.log.has(e):
		if o.durable(e.Hash) {
			o.sendReplicateAck(e, from)
		}
		return nil
	case e.At.Branch != s.epoch.Branch || e.At.Epoch > s.epoch.Number:
		o.pullFrom(s, from) // the pull brings the epoch too
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
	case !s.owned:
		return nil
	}
	o.heard(s)
	if e.Prev != s.log.headHash() || len(m.Body) == 0 && e.Size > 0 {
		o.pullFrom(s, from)
		return nil
	}
	if HashOf(m.Body) != e.Body {
		return errBody
	}
	o.append(s, []*Entry{e}, [][]byte{m.Body}, false, func(ok bool) {
		if ok {
			o.sendReplicateAck(e, from)
		}
	})
	return nil
}
