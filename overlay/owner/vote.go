package owner

import (
	"errors"
	"time"

	"tidings/internal/env"
	"tidings/internal/plant"
	"tidings/overlay/owner/ownerpb"
)

var (
	errRouted = errors.New("a message that must be routed was sent directly")
	errSigner = errors.New("an entry is not signed by the sequencer of its epoch")
	errAfter  = errors.New("an entry does not continue from the last entry before its epoch")
	errBody   = errors.New("a body does not match the hash in its entry")
	errKey    = errors.New("an epoch's key is not the key of its URL")
)

// onCommit handles news of a certified epoch.
func (o *Owners) onCommit(from env.PeerID, m *ownerpb.Commit) error {
	e, err := o.epochs.open(m.Epoch)
	if err != nil {
		return err
	}
	if o.keyOf(e.URL) != e.Key {
		return errKey
	}
	s := o.replicas.byKey[e.Key]
	if s == nil {
		return nil // all signers have a replica; other nodes have no use for the epoch
	}
	o.lookUpLater(s, e, from)
	if s.epoch != nil && e.Branch != s.epoch.Branch {
		merged, _ := hashFrom(m.MergedHead)
		o.onOtherBranch(s, e, from, merged, m.Absorbed)
		return nil
	}
	switch {
	case s.epoch != nil && (e.Number < s.epoch.Number || m.WantReply && e.Number == s.epoch.Number):
		o.sendCommit(from, s)
		return nil
	case s.epoch == nil || e.Number > s.epoch.Number:
		if o.needsLookup(s, e) {
			o.pullFrom(s, from) // the pull starts with a lookup
			return nil
		}
		if !o.acceptable(s, e) {
			o.stats.Untrusted++
			return nil
		}
		if s.epoch != nil && s.epoch.owns(from) && !e.owns(from) {
			s.campaign.exclude(from, o.clock.Now()) // the sender is about to leave the network
		}
		o.commitEpoch(s, e, from)
	}
	if e.Hash == s.epoch.Hash && s.epoch.owns(from) {
		o.takeNote(s, m.Note, m.Version, from)
	}
	return nil
}

// commitEpoch puts a certified epoch in force here, and drops entries that it does not continue.
func (o *Owners) commitEpoch(s *replica, e *Epoch, from env.PeerID) {
	if plant.Clinging && s.epoch != nil && s.epoch.owns(o.self) && !e.owns(o.self) {
		return
	}
	now := o.clock.Now()
	if s.epoch != nil && s.epoch.Branch != e.Branch {
		s.campaign.excluded = nil
	}
	o.releaseSlot(s.candidacy)
	o.replicas.setEpoch(s, e)
	s.settle()
	s.url, s.lastHeard, s.noQuorumSince, s.candidacy, s.campaign.promisedElsewhere = e.URL, now, time.Time{}, nil, 0
	s.campaign.abandoned = nil
	ops := o.cut(s, e)
	if plant.StepBack && !s.owned && len(s.log.chain) > 1 {
		s.log.set(s.log.chain[:len(s.log.chain)-1])
	}
	o.save(s, nil, ops...)
	if s.log.headHash() == e.AfterHash {
		s.log.committed = e.AfterHash
	}
	o.updateVisible(s)
	o.sequencer.epochChanged(s)
	switch {
	case s.owned:
		s.notOwnerSince = time.Time{}
		if s.log.headHash() != e.AfterHash && s.log.find(e.AfterHash) < 0 && from != o.self {
			o.pullFrom(s, from)
		}
	case !s.follow:
		s.notOwnerSince = now
	}
	o.after(leafSettleTime, task{kind: taskCheckOwners, key: s.key}) // the leaf may have changed during the candidacy
	o.departure.start(s)
	o.departure.check()
}
