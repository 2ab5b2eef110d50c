package owner

import (
	"tidings/internal/env"
	"tidings/overlay/owner/ownerpb"
)

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
