package owner

import (
	"bytes"
	"slices"

	"tidings/internal/env"
	"tidings/overlay/owner/ownerpb"
)

// A support is an epoch of which not all signatures are known, and who of the old
// owners said that they signed it.
type support struct {
	epoch *Epoch
	by    []env.PeerID
}

func (o *Owners) sendSeals(s *seat) {
	m := &ownerpb.Message{Body: &ownerpb.Message_Seal{Seal: &ownerpb.Seal{
		Key: s.key[:], Lineage: s.epoch.Lineage, Number: s.bid.number,
	}}}
	for _, p := range once(s.bid.sets()) {
		if p != o.self && !slices.Contains(s.bid.sealed, p) {
			o.send(p, m)
		}
	}
}

// sets are the owners of each epoch that may be in force. An epoch needs a quorum
// of the old owners; those who sealed without having signed it never will.
func (b *bid) sets() [][]env.PeerID {
	of := [][]env.PeerID{b.old}
	for _, u := range b.open {
		if b.possible(u) {
			of = append(of, u.epoch.Owners)
		}
	}
	return of
}

func (b *bid) possible(u *support) bool {
	never := 0
	for _, p := range b.old {
		if slices.Contains(b.sealed, p) && !slices.Contains(u.by, p) {
			never++
		}
	}
	return len(b.old)-never >= quorum(len(b.old))
}

// once returns the peers of some sets, each once.
func once(sets [][]env.PeerID) (of []env.PeerID) {
	for _, set := range sets {
		for _, p := range set {
			if !slices.Contains(of, p) {
				of = append(of, p)
			}
		}
	}
	return of
}

// onSealed takes an owner's promise, or its refusal.
func (o *Owners) onSealed(from env.PeerID, m *ownerpb.Sealed) error {
	s := o.at(m.Key)
	if s == nil || s.epoch == nil {
		return nil
	}
	if m.Epoch != nil {
		e, err := o.openEpoch(m.Epoch)
		if err != nil {
			return err
		}
		if e.Key == s.key && e.Lineage == s.epoch.Lineage && e.Number > s.epoch.Number {
			if o.right(s, e) {
				o.install(s, e, from)
			}
			return nil
		}
	}
	b := s.bid
	if b == nil && s.lead != nil && m.Refused > s.epoch.Number && m.Lineage == s.epoch.Lineage && m.Number == s.epoch.Number && s.epoch.owns(from) {
		// It is promised to somebody who tried for a later epoch.
		s.seen = max(s.seen, m.Refused)
		o.bidIn(s, bidTime) // if that comes to nothing
		return nil
	}
	if b == nil || b.founding || m.Lineage != s.epoch.Lineage || m.Number != b.number || !slices.Contains(once(b.sets()), from) {
		return nil
	}
	if m.Refused > 0 {
		// Somebody else is trying, or has tried: let that one, then try higher.
		// A jump waits for nobody.
		if s.seen = max(s.seen, m.Refused); !b.jump {
			o.abandon(s, bidPause/2)
		}
		return nil
	}
	if b.epoch != nil || slices.Contains(b.sealed, from) {
		return nil // asked twice, answered twice
	}
	var open []*Epoch
	for _, raw := range m.Open {
		e, err := openEpoch(o.verify, raw)
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
		e, err := OpenEntry(o.verify, m.Head)
		if err != nil {
			return err
		}
		if head = nil; e.Key == s.key {
			head = e
		}
	}
	o.seal(s, from, head, open)
	return nil
}

// seal counts an owner's promise; open are the epochs it signed whose fate it does
// not know.
func (o *Owners) seal(s *seat, from env.PeerID, head *Entry, open []*Epoch) {
	b := s.bid
	if b.epoch != nil || slices.Contains(b.sealed, from) {
		return
	}
	b.sealed = append(b.sealed, from)
	if head != nil && (b.best == nil || s.farther(head, b.best)) {
		b.best, b.bestFrom = head, from
	}
	more := false
	for _, e := range open {
		if e.Key != s.key || e.Lineage != s.epoch.Lineage || e.Number <= s.epoch.Number || e.Number >= b.number || s.void[e.Hash] {
			continue
		}
		i := slices.IndexFunc(b.open, func(u *support) bool { return u.epoch.Hash == e.Hash })
		if i < 0 {
			i, more = len(b.open), true
			b.open = append(b.open, &support{epoch: e})
		}
		b.open[i].by = append(b.open[i].by, from)
	}
	if more {
		o.sendSeals(s)
	}
	if b.answered() {
		b.jump = false // they do answer
		o.gather(s)
	}
}

// answered says whether a quorum of each epoch that may be in force has sealed it.
func (b *bid) answered() bool {
	sets := b.sets()
	if len(sets) > 1+maxBeside {
		return false
	}
	for _, set := range sets {
		n := 0
		for _, p := range set {
			if slices.Contains(b.sealed, p) {
				n++
			}
		}
		if n < quorum(len(set)) {
			return false
		}
	}
	return true
}

// farther says which of two heads a quorum may hold: that of the later epoch, and
// within one the later entry. Of one epoch and place there is one entry.
func (s *seat) farther(a, b *Entry) bool {
	if a.At.Lineage != b.At.Lineage {
		return a.At.Lineage == s.epoch.Lineage // the other is from before the jump
	}
	return b.At.Before(a.At)
}
