package owner

import (
	"bytes"
	"slices"

	"tidings/internal/env"
	"tidings/overlay/owner/ownerpb"
)

// An undecidedEpoch is an epoch later than the one in force that may have been certified. signers are the old
// owners that reported having signed it.
type undecidedEpoch struct {
	epoch   *Epoch
	signers []env.PeerID
}

func (o *Owners) sendPrepares(s *replica) {
	m := &ownerpb.Message{Body: &ownerpb.Message_Prepare{Prepare: &ownerpb.Prepare{
		Key: s.key[:], Branch: s.epoch.Branch, Number: s.candidacy.number,
	}}}
	for _, p := range union(s.candidacy.promiserSets()) {
		if p != o.self && !slices.Contains(s.candidacy.promised, p) {
			o.send(p, m)
		}
	}
}

// promiserSets returns the owners of each epoch that may be in force: the last known one, and each undecided epoch
// that was not ruled out.
func (b *candidacy) promiserSets() [][]env.PeerID {
	of := [][]env.PeerID{b.oldOwners}
	for _, u := range b.undecided {
		if b.mayBeInForce(u) {
			of = append(of, u.epoch.Owners)
		}
	}
	return of
}

// mayBeInForce reports whether an undecided epoch can have a quorum of the old owners. Owners that have promised
// without having signed it never will.
func (b *candidacy) mayBeInForce(u *undecidedEpoch) bool {
	never := 0
	for _, p := range b.oldOwners {
		if slices.Contains(b.promised, p) && !slices.Contains(u.signers, p) {
			never++
		}
	}
	return len(b.oldOwners)-never >= quorum(len(b.oldOwners))
}

// union returns the peers of several sets without duplicates, in order of first appearance.
func union(sets [][]env.PeerID) (of []env.PeerID) {
	for _, set := range sets {
		for _, p := range set {
			if !slices.Contains(of, p) {
				of = append(of, p)
			}
		}
	}
	return of
}

// onPromise handles an owner's promise, or its refusal.
func (o *Owners) onPromise(from env.PeerID, m *ownerpb.Promise) error {
	s := o.replicas.of(m.Key)
	if s == nil || s.epoch == nil {
		return nil
	}
	if m.Epoch != nil {
		e, err := o.epochs.open(m.Epoch)
		if err != nil {
			return err
		}
		if e.Key == s.key && e.Branch == s.epoch.Branch && e.Number > s.epoch.Number {
			if o.acceptable(s, e) {
				o.commitEpoch(s, e, from)
			}
			return nil
		}
	}
	b := s.candidacy
	if b == nil && s.leader != nil && m.Refused > s.epoch.Number && m.Branch == s.epoch.Branch && m.Number == s.epoch.Number && s.epoch.owns(from) {
		// The owner has promised a later epoch to a candidate, so it refuses this node's entries.
		s.campaign.promisedElsewhere = max(s.campaign.promisedElsewhere, m.Refused)
		o.campaignIn(s, candidacyTime) // in case that candidate fails
		return nil
	}
	if b == nil || b.founding || m.Branch != s.epoch.Branch || m.Number != b.number || !slices.Contains(union(b.promiserSets()), from) {
		return nil
	}
	if m.Refused > 0 {
		// Another candidate has a higher promise. Give it time, then try a higher number. A forced
		// reconfiguration waits for nobody.
		if s.campaign.promisedElsewhere = max(s.campaign.promisedElsewhere, m.Refused); !b.forced {
			o.abandon(s, candidacyPause/2)
		}
		return nil
	}
	if b.proposal != nil || slices.Contains(b.promised, from) {
		return nil // duplicate
	}
	var open []*Epoch
	for _, raw := range m.Undecided {
		e, err := openEpoch(o.epochs.verify, raw)
		if err != nil {
			return err
		}
		open = append(open, e)
	}
	head := s.log.head()
	switch {
	case len(m.Head) == 0:
		head = nil
	case head == nil || !bytes.Equal(m.Head, head.Raw):
		e, err := OpenEntry(o.epochs.verify, m.Head)
		if err != nil {
			return err
		}
		if head = nil; e.Key == s.key {
			head = e
		}
	}
	o.countPromise(s, from, head, open)
	return nil
}

// countPromise counts an owner's promise. undecided are the epochs that the owner has signed without knowing their
// outcome; their owners have to promise too.
func (o *Owners) countPromise(s *replica, from env.PeerID, head *Entry, open []*Epoch) {
	b := s.candidacy
	if b.proposal != nil || slices.Contains(b.promised, from) {
		return
	}
	b.promised = append(b.promised, from)
	if head != nil && (b.bestHead == nil || s.farther(head, b.bestHead)) {
		b.bestHead, b.bestHolder = head, from
	}
	more := false
	for _, e := range open {
		if e.Key != s.key || e.Branch != s.epoch.Branch || e.Number <= s.epoch.Number || e.Number >= b.number || s.campaign.abandoned[e.Hash] {
			continue
		}
		i := slices.IndexFunc(b.undecided, func(u *undecidedEpoch) bool { return u.epoch.Hash == e.Hash })
		if i < 0 {
			i, more = len(b.undecided), true
			b.undecided = append(b.undecided, &undecidedEpoch{epoch: e})
		}
		b.undecided[i].signers = append(b.undecided[i].signers, from)
	}
	if more {
		o.sendPrepares(s)
	}
	if b.hasPromises() {
		b.forced = false // a quorum answers after all
		o.pullAndPropose(s)
	}
}

// hasPromises reports whether a quorum of each epoch that may be in force has promised.
func (b *candidacy) hasPromises() bool {
	sets := b.promiserSets()
	if len(sets) > 1+maxConcurrent {
		return false
	}
	for _, set := range sets {
		n := 0
		for _, p := range set {
			if slices.Contains(b.promised, p) {
				n++
			}
		}
		if n < quorum(len(set)) {
			return false
		}
	}
	return true
}

// farther reports whether head a is ahead of head b: in a later epoch, or later in the same epoch. A quorum can only
// have stored the farthest head. One position has only one entry.
func (s *replica) farther(a, b *Entry) bool {
	if a.At.Branch != b.At.Branch {
		return a.At.Branch == s.epoch.Branch // the other one is older than the forced reconfiguration
	}
	return b.At.Before(a.At)
}
