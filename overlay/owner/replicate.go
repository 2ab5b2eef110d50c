package owner

import (
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/owner/ownerpb"
)

func (q *sequencer) sendReplicate(s *replica, f *inflight) {
	f.tries++
	m := &ownerpb.Message{Body: &ownerpb.Message_Replicate{Replicate: &ownerpb.Replicate{Entry: f.entry.Raw, Body: inline(f.body)}}}
	frame := wire.AppendFrame(nil, wire.Owner, m) // one for all
	for _, to := range s.epoch.Owners {
		if to == q.self || slices.Contains(f.acks, to) {
			continue
		}
		if f.tries > 2 {
			q.node.Suspect(to)
		}
		q.stats.Control++
		q.net.Send(q.peer(to), env.Control, frame)
	}
}

// retryReplicate sends an entry again to the owners that have not acknowledged it.
func (q *sequencer) retryReplicate(s *replica, now time.Time) {
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
			q.campaignIn(s, 0)
		}
		again = min(time.Duration(l.inflight.tries), 5) * answerTime
		q.sendReplicate(s, l.inflight)
	case len(l.queue) > 0:
		q.appendNext(s)
		return
	case l.lagging != nil && l.lagging.tries < maxLaggingTries && len(l.lagging.acks) < len(s.epoch.Owners):
		q.sendReplicate(s, l.lagging)
	default:
		l.lagging = nil // free the body
		return
	}
	q.retryReplicateIn(s, again)
}

// retryReplicateIn plans the next retry in place of an earlier plan.
func (q *sequencer) retryReplicateIn(s *replica, d time.Duration) {
	s.leader.retryAt = q.clock.Now().Add(d)
	q.cal.Add(s.leader.retryAt, task{kind: taskRetryReplicate, key: s.key})
}

// onReplicateAck handles an owner's acknowledgement. From the sequencer it means that the entry is committed.
func (q *sequencer) onReplicateAck(from env.PeerID, m *ownerpb.ReplicateAck) {
	s := q.replicas.of(m.Key)
	if s == nil || s.epoch == nil || !s.epoch.owns(from) {
		return
	}
	if from == s.epoch.Sequencer {
		q.storage.markCommitted(s, Hash(m.Hash)) // the sequencer acknowledges committed entries only
	}
	if s.leader == nil {
		return
	}
	for _, f := range []*inflight{s.leader.inflight, s.leader.lagging} {
		if f != nil && f.entry.Hash == Hash(m.Hash) && len(f.acks) > 0 && !slices.Contains(f.acks, from) {
			f.acks = append(f.acks, from)
			if f == s.leader.inflight {
				q.maybeCommit(s)
			} else {
				q.sendReplicateAck(f.entry, from)
			}
			return
		}
	}
}

// SetNote replaces a key's note at its sequencer, and sends it to the owners. An owner that misses it gets it after
// the next heartbeat.
func (q *sequencer) SetNote(key overlay.ID, note []byte) error {
	s := q.replicas.byKey[key]
	if s == nil || s.leader == nil {
		return ErrNotLeading
	}
	if len(note) > MaxNote-len(Hash{}) {
		return ErrEntry
	}
	// The note is valid only for logs that contain this entry.
	var after Hash
	if e := q.LastCommitted(key); e != nil {
		after = e.Hash
	}
	s.note = append(after[:], note...)
	s.version++
	q.storage.save(s, nil)
	q.sendOthers(s.epoch.Owners, &ownerpb.Message{Body: &ownerpb.Message_Note{Note: &ownerpb.Note{
		Key: s.key[:], Branch: s.epoch.Branch, Number: s.epoch.Number, Version: s.version, Note: s.note,
	}}})
	return nil
}
