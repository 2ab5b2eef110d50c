package owner

import (
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/overlay/owner/ownerpb"
)

// meetPause is the time between two words to the sequencer of another lineage.
const meetPause = 3 * time.Second

// rivalTime is how long a lineage that is not heard of is held to live.
const rivalTime = 30 * time.Second

// giveWayTime is how long the lineage that is to go on may lack a quorum before it gives way
// to one that lives. Where the halves of a network meet, those whom it lacks may own the
// key in that one meanwhile, and would not answer before the two are one.
const giveWayTime = 15 * time.Second

// A merge is another lineage whose entries this sequencer appends to its own.
type merge struct {
	lineage uint64
	head    Hash // the other's last entry, as far as it was pulled
	done    bool // pulled, and what was new handed to the application
}

// mayFollow says whether a node may leave the lineage it knows for another one that is
// certified.
func (o *Owners) mayFollow(s *seat, e *Epoch, from env.PeerID) bool {
	return e.certifiedBy(e.Owners) && o.placed(s, e) && s.lead == nil && o.yields(s, e, from)
}

// yields says whether another lineage is to be preferred by one who does not lead: the one
// that goes on where both are alive, or for which an owner has left the own since, by the
// word of an owner, for followers may not have heard that it ended; one that lives where
// the own does not, as far as is known here; or one that the own sequencer has joined, as
// it says itself, or leads by now, or whose epoch it has signed: it signs none of a lineage
// that is not its own, but to found it.
func (o *Owners) yields(s *seat, e *Epoch, from env.PeerID) bool {
	since := e.Time.After(s.epoch.Time)
	goesOn := e.owns(from) && (e.Lineage < s.epoch.Lineage || since && s.epoch.owns(from))
	joined := from == s.epoch.Sequencer ||
		since && (e.Sequencer == s.epoch.Sequencer || slices.Contains(e.signers, s.epoch.Sequencer))
	return !o.owns(s) && (goesOn || o.lost(s)) || o.silent(s) || joined
}

// givesWay says whether a lineage that is led here lacks the quorum to append what another
// one has.
func (o *Owners) givesWay(s *seat) bool {
	return s.lead != nil && !s.stuck.IsZero() && o.clock.Now().Sub(s.stuck) >= giveWayTime
}

// meet deals with the news that another lineage of a key is alive. If told, merged
// is the head of this node's lineage that the other has appended, the zero hash if
// there was nothing to append.
func (o *Owners) meet(s *seat, e *Epoch, from env.PeerID, merged Hash, told bool) {
	if o.unseen(s, e) {
		o.startPull(s, o.peer(from), nil) // which looks first who lives there
		return
	}
	if !e.certifiedBy(e.Owners) || !o.placed(s, e) {
		o.stats.Untrusted++
		return
	}
	// Who left that one for this one, and owns the key here, passes on what it has heard.
	ours := s.epoch.owns(from) && s.epoch.Time.After(e.Time)
	if b := s.bid; !ours && (e.owns(from) || b != nil && slices.Contains(b.owners, from)) {
		// Until the two are one, each goes on with its own.
		s.shun(from, o.clock.Now())
		if b != nil && slices.Contains(b.owners, from) {
			o.abandon(s, 2*answerTime)
		}
	}
	if s.rival == nil || s.rival.Lineage != e.Lineage || s.rival.Number <= e.Number {
		s.rival, s.met = e, o.clock.Now()
	}
	wins := e.Lineage < s.epoch.Lineage || o.givesWay(s)
	switch {
	case s.lead != nil && wins && told && merged == s.log.headHash() && (s.lead.flight == nil || s.lead.flight.entry.Hash == merged):
		// All there is here is there: this lineage ends.
		o.stats.Merged++
		old := s.epoch
		o.join(s, e, from)
		for _, p := range old.Owners {
			if p != o.self {
				o.sendInstall(p, s)
			}
		}
	case s.lead != nil:
		if e.owns(from) && from != e.Sequencer {
			o.sendInstall(from, s) // it was away, it may be, when that one ended
		}
		o.rendezvous(s)
	case o.yields(s, e, from):
		o.join(s, e, from)
	case !s.meeting:
		o.rest(s)
		// The own sequencer meets the other one, or says that it has joined it.
		o.send(s.epoch.Sequencer, &ownerpb.Message{Body: &ownerpb.Message_Install{Install: &ownerpb.Install{Epoch: e.wire(), Asks: true}}})
		o.sendInstall(from, s)
	}
}

// shun sees to it that a peer is not made an owner for a while.
func (s *seat) shun(p env.PeerID, now time.Time) {
	if s.foreign == nil {
		s.foreign = map[env.PeerID]time.Time{}
	}
	s.foreign[p] = now
}

// rendezvous tells the other lineage's sequencer of this one: to append what this
// one has, if the other goes on, or this one gives way; else to ask for that.
func (o *Owners) rendezvous(s *seat) {
	if s.meeting {
		return
	}
	o.rest(s)
	goesOn, gives := s.rival.Lineage > s.epoch.Lineage, o.givesWay(s)
	if goesOn && !gives || o.clock.Now().Sub(s.given) < rivalTime {
		o.sendInstall(s.rival.Sequencer, s)
		return
	}
	m := &ownerpb.Merge{Epoch: s.epoch.wire(), GivesWay: goesOn}
	if head := s.log.head(); head != nil {
		m.Head = head.Raw
	}
	o.send(s.rival.Sequencer, &ownerpb.Message{Body: &ownerpb.Message_Merge{Merge: m}})
}

// rest sees to it that the other lineage is not told again at once, but again.
func (o *Owners) rest(s *seat) {
	s.meeting = true
	o.after(meetPause, task{kind: taskMeet, key: s.key})
}

// meetAgain goes on with a rendezvous as long as the other lineage lives.
func (o *Owners) meetAgain(s *seat, now time.Time) {
	switch {
	case s.rival == nil || s.epoch == nil || s.lead == nil:
	case s.rival.Lineage == s.epoch.Lineage, now.Sub(s.met) > rivalTime:
		s.rival = nil
	default:
		o.rendezvous(s)
	}
}

// join leaves a lineage for another.
func (o *Owners) join(s *seat, e *Epoch, from env.PeerID) {
	o.log.Info("log of a feed continues in another branch", "url", s.url)
	o.dropLead(s)
	o.install(s, e, from)
	if !o.owns(s) {
		o.startPull(s, o.peer(from), nil)
	}
}

// onMerge pulls another lineage's entries and hands up what is new in them.
func (o *Owners) onMerge(from env.PeerID, m *ownerpb.Merge) error {
	their, err := o.openEpoch(m.Epoch)
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
	if !their.certifiedBy(their.Owners) || their.Sequencer != from || !o.placed(s, their) {
		o.stats.Untrusted++
		return nil
	}
	s.rival, s.met = their, o.clock.Now()
	if their.Lineage < s.epoch.Lineage && !m.GivesWay || o.givesWay(s) {
		o.rendezvous(s) // the other one goes on, and does not know it
		return nil
	}
	if m.GivesWay {
		s.given = o.clock.Now()
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
		if s.lead.flight == nil && len(s.lead.queue) == 0 && !o.app.Absorbing(s.key) {
			o.sendMerged(from, s, head.Hash)
		}
	case g == nil || g.done:
		o.pullForeign(s, their, from)
	}
	return nil
}

func (o *Owners) sendMerged(to env.PeerID, s *seat, head Hash) {
	o.app.Merged(s.key)
	o.send(to, &ownerpb.Message{Body: &ownerpb.Message_Install{Install: &ownerpb.Install{
		Epoch: s.epoch.wire(), Note: s.note, Version: s.version, Merged: head.bytes(), Absorbed: true,
	}}})
}

// pullForeign pulls another lineage's log from its sequencer.
func (o *Owners) pullForeign(s *seat, their *Epoch, from env.PeerID) {
	if s.pull != nil {
		return // it comes back when that is over
	}
	have := s.log.headHash()
	if s.merge != nil && s.merge.lineage == their.Lineage {
		have = s.merge.head // that far it was appended before
	}
	g := &merge{lineage: their.Lineage}
	s.merge = g
	s.pull = &pull{from: o.peer(from), have: have, hole: -1, foreign: true, since: o.clock.Now()}
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
	o.nextPage(s)
}
