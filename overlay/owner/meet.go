package owner

import (
	"time"

	"tidings/internal/env"
	"tidings/overlay/owner/ownerpb"
)

// meetPause is the time between two words to the sequencer of another lineage.
const meetPause = 3 * time.Second

// A merge is another lineage whose entries this sequencer appends to its own.
type merge struct {
	head Hash // the other's last entry, as far as it was pulled
	done bool // pulled, and what was new handed to the application
}

// mayFollow says whether a node may leave the lineage it knows for another one: a
// certified one that goes on where both are alive, or one that lives where its
// own does not.
func (o *Owners) mayFollow(s *seat, e *Epoch) bool {
	return e.certifiedBy(e.Owners) && o.dense(e) && s.lead == nil &&
		(e.Lineage < s.epoch.Lineage && !o.owns(s) || o.silent(s))
}

// meet deals with the news that another lineage of a key is alive. merged is the
// head of this node's lineage that the other has appended; the zero hash if it
// has not.
func (o *Owners) meet(s *seat, e *Epoch, from env.PeerID, merged Hash) {
	if !e.certifiedBy(e.Owners) || !o.dense(e) {
		o.stats.Untrusted++
		return
	}
	wins := e.Lineage < s.epoch.Lineage
	switch {
	case s.lead != nil && wins && merged != (Hash{}) && merged == s.log.headHash() && s.lead.flight == nil:
		// All there is here is there: this lineage ends.
		o.stats.Merged++
		old := s.epoch
		o.join(s, e, from)
		for _, p := range old.Owners {
			if p != o.self {
				o.sendInstall(p, s)
			}
		}
	case s.lead != nil && wins:
		o.proposeMerge(s, e, from)
	case s.lead != nil:
		if o.metLately(s) {
			return
		}
		o.sendInstall(e.Sequencer, s)
		if from != e.Sequencer {
			o.sendInstall(from, s)
		}
	case from == s.epoch.Sequencer, o.silent(s), !o.owns(s) && wins:
		o.join(s, e, from)
	default:
		if o.metLately(s) {
			return
		}
		o.send(s.epoch.Sequencer, &ownerpb.Message{Body: &ownerpb.Message_Install{Install: &ownerpb.Install{Epoch: e.wire()}}})
		o.sendInstall(from, s)
	}
}

// metLately says whether the other lineage was told a moment ago, and notes that
// it is now.
func (o *Owners) metLately(s *seat) bool {
	if !s.meeting.IsZero() {
		return true
	}
	s.meeting = o.clock.Now()
	o.after(meetPause, task{kind: taskMeet, key: s.key})
	return false
}

// join leaves a lineage for another.
func (o *Owners) join(s *seat, e *Epoch, from env.PeerID) {
	o.log.Info("log goes on in another lineage", "url", s.url)
	o.dropLead(s)
	o.install(s, e, from)
	if !o.owns(s) {
		o.startPull(s, o.peer(from), nil)
	}
}

// proposeMerge asks the sequencer of the lineage that goes on to append what this
// one has.
func (o *Owners) proposeMerge(s *seat, e *Epoch, from env.PeerID) {
	if o.metLately(s) {
		return
	}
	m := &ownerpb.Merge{Epoch: s.epoch.wire()}
	if head := s.log.head(); head != nil {
		m.Head = head.Raw
	}
	msg := &ownerpb.Message{Body: &ownerpb.Message_Merge{Merge: m}}
	o.send(e.Sequencer, msg)
	if from != e.Sequencer && from != s.epoch.Sequencer {
		o.send(from, msg)
	}
}

// onMerge pulls another lineage's entries and hands up what is new in them.
func (o *Owners) onMerge(from env.PeerID, m *ownerpb.Merge) error {
	their, err := openEpoch(o.verify, m.Epoch)
	if err != nil {
		return err
	}
	s := o.seats[their.Key]
	if s == nil || s.epoch == nil || their.Lineage == s.epoch.Lineage {
		return nil
	}
	if s.lead == nil {
		o.sendInstall(from, s) // which says who is
		return nil
	}
	if !their.certifiedBy(their.Owners) || their.Sequencer != from || !o.dense(their) {
		o.stats.Untrusted++
		return nil
	}
	if len(m.Head) == 0 {
		o.sendMerged(from, s, Hash{})
		return nil
	}
	head, err := OpenEntry(o.verify, m.Head)
	if err != nil || head.Key != s.key {
		return errPulled
	}
	switch g := s.merge; {
	case s.log.find(head.Hash) >= 0:
		o.sendMerged(from, s, head.Hash)
	case g != nil && g.done && g.head == head.Hash:
		if s.lead.flight == nil && len(s.lead.queue) == 0 {
			o.sendMerged(from, s, head.Hash)
		}
	case g == nil || g.done:
		o.pullForeign(s, their, from)
	}
	return nil
}

func (o *Owners) sendMerged(to env.PeerID, s *seat, head Hash) {
	o.send(to, &ownerpb.Message{Body: &ownerpb.Message_Install{Install: &ownerpb.Install{
		Epoch: s.epoch.wire(), Note: s.note, Version: s.version, Merged: head.bytes(),
	}}})
}

// pullForeign pulls another lineage's log from its sequencer.
func (o *Owners) pullForeign(s *seat, their *Epoch, from env.PeerID) {
	if s.pull != nil {
		return // it comes back when that is over
	}
	g := &merge{}
	s.merge = g
	s.pull = &pull{from: o.peer(from), have: s.log.headHash(), hole: -1, foreign: true}
	p := s.pull
	p.then = append(p.then, func(ok bool) {
		if s.merge != g {
			return
		}
		if !ok || s.lead == nil || p.epoch.Hash != their.Hash || len(p.got) == 0 {
			s.merge = nil
			return
		}
		last := p.got[len(p.got)-1]
		if (last.Signer != their.Sequencer || last.At.Lineage != their.Lineage || last.At.Epoch != their.Number) && last.Hash != their.AfterHash {
			o.stats.Untrusted++
			s.merge = nil
			return
		}
		for i, e := range p.got {
			if s.log.find(e.Hash) < 0 && p.bodies[i] != nil {
				o.app.Absorb(s.key, p.bodies[i])
			}
		}
		g.head, g.done = last.Hash, true
	})
	o.askPage(s)
}
