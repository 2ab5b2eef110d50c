package owner

import (
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/overlay/owner/ownerpb"
)

const (
	// contactPause is the minimum time between two messages to the sequencer of another branch.
	contactPause = 3 * time.Second
	// rivalTime is how long a branch counts as live after the last message about it.
	rivalTime = 30 * time.Second
	// giveWayTime is how long the branch that should continue may lack a quorum before it gives way to a live one.
	// After a partition the owners it lacks may own the key in the other branch, and would not answer before the
	// two are merged.
	giveWayTime = 15 * time.Second
)

// A merger makes one branch of two that meet.
type merger struct {
	base
	storage   *storage
	epochs    *epochs
	puller    *puller
	locator   *locator
	sequencer *sequencer
	proposer  *proposer
	learner   *learner
	app       Application
}

// A rival is another branch of a key that is live.
type rival struct {
	epoch     *Epoch       // epoch of the other branch; nil: none known
	seen      env.Moment   // last message about it
	gaveWay   env.Moment   // last time the rival asked this branch to continue in its place
	contacted bool         // a message about the rival was sent less than contactPause ago
	merge     *branchMerge // non-nil while entries of the other branch are appended here
}

// A branchMerge is another branch whose entries this sequencer appends to its own.
type branchMerge struct {
	branch uint64
	head   Hash // last entry of the other branch that was pulled
	done   bool // pulled, and new entries were handed to the application
}

// givesWay reports whether a branch that this node leads has lacked a quorum for giveWayTime, and so cannot append
// what another branch has.
func (r *merger) givesWay(s *replica) bool {
	return s.leader != nil && s.noQuorumSince != env.Never && r.clock.Now().Sub(s.noQuorumSince.Time()) >= giveWayTime
}

// onOtherBranch handles the news that another branch of a key is live. If told, merged is the head of this
// node's branch that the other branch has appended; the zero hash if there was nothing to append.
func (r *merger) onOtherBranch(s *replica, e *Epoch, from env.PeerID, merged Hash, told bool) {
	if r.locator.needsLookup(s, e) {
		r.puller.pullFrom(s, from) // the pull starts with a lookup
		return
	}
	if !e.certifiedBy(e.Owners) || !r.locator.ownersPlausible(s, e) {
		r.stats.Untrusted++
		return
	}
	// An owner that left the other branch for this one only passes on what it has heard.
	ours := s.epoch.owns(from) && s.epoch.Time.After(e.Time)
	if b := s.candidacy; !ours && (e.owns(from) || b != nil && slices.Contains(b.newOwners, from)) {
		// Until the two are merged, each continues with its own owners.
		s.campaign.exclude(from, r.clock.Now())
		if b != nil && slices.Contains(b.newOwners, from) {
			r.proposer.abandon(s, 2*answerTime)
		}
	}
	if s.rival.epoch == nil || s.rival.epoch.Branch != e.Branch || s.rival.epoch.Number <= e.Number {
		s.rival.epoch, s.rival.seen = e, env.MomentOf(r.clock.Now())
	}
	wins := e.Branch < s.epoch.Branch || r.givesWay(s)
	switch {
	case s.leader != nil && wins && told && merged == s.log.headHash() && (s.leader.inflight == nil || s.leader.inflight.entry.Hash == merged):
		// The other branch has appended everything: this one ends.
		r.stats.Merged++
		old := s.epoch
		r.joinBranch(s, e, from)
		r.sendOthers(old.Owners, &ownerpb.Message{Body: &ownerpb.Message_Commit{Commit: s.commit()}})
	case s.leader != nil:
		if e.owns(from) && from != e.Sequencer {
			r.sendCommit(from, s) // it may have been away when its branch ended
		}
		r.contactRival(s)
	case r.learner.prefersBranch(s, e, from):
		r.joinBranch(s, e, from)
	case !s.rival.contacted:
		r.pauseContact(s)
		// The own sequencer contacts the other one, or answers that it has joined it.
		r.send(s.epoch.Sequencer, &ownerpb.Message{Body: &ownerpb.Message_Commit{Commit: &ownerpb.Commit{Epoch: e.proto(), WantReply: true}}})
		r.sendCommit(from, s)
	}
}

// contactRival tells the other branch's sequencer of this branch: with Merge, so that it appends this log, if the other
// branch continues or this one gives way; else with Commit, which asks for a Merge in return.
func (r *merger) contactRival(s *replica) {
	if s.rival.contacted {
		return
	}
	r.pauseContact(s)
	goesOn, gives := s.rival.epoch.Branch > s.epoch.Branch, r.givesWay(s)
	if goesOn && !gives || r.clock.Now().Sub(s.rival.gaveWay.Time()) < rivalTime {
		r.sendCommit(s.rival.epoch.Sequencer, s)
		return
	}
	m := &ownerpb.Merge{Epoch: s.epoch.proto(), GivesWay: goesOn}
	if head := s.log.head(); head != nil {
		m.Head = head.Raw()
	}
	r.send(s.rival.epoch.Sequencer, &ownerpb.Message{Body: &ownerpb.Message_Merge{Merge: m}})
}

// pauseContact plans the next contact with the other branch, and prevents earlier ones.
func (r *merger) pauseContact(s *replica) {
	s.rival.contacted = true
	r.after(contactPause, task{kind: taskContactRival, key: s.key})
}

// retryContact contacts the other branch again while it is live.
func (r *merger) retryContact(s *replica, now time.Time) {
	s.rival.contacted = false
	switch {
	case s.rival.epoch == nil || s.epoch == nil || s.leader == nil:
	case s.rival.epoch.Branch == s.epoch.Branch, now.Sub(s.rival.seen.Time()) > rivalTime:
		s.rival.epoch = nil
	default:
		r.contactRival(s)
	}
}

// joinBranch leaves the branch of a replica for another one.
func (r *merger) joinBranch(s *replica, e *Epoch, from env.PeerID) {
	r.storage.log.Info("log of a feed continues in another branch", "url", s.url)
	r.sequencer.stepDown(s)
	r.learner.commit(s, e, from)
	if !s.owned {
		r.puller.pullFrom(s, from)
	}
}

// onMerge pulls the entries of another branch and hands new ones to the application.
func (r *merger) onMerge(from env.PeerID, m *ownerpb.Merge) error {
	their, err := r.epochs.open(m.Epoch)
	if err != nil {
		return err
	}
	s := r.replicas.byKey[their.Key]
	if s == nil || s.epoch == nil || their.Branch == s.epoch.Branch {
		return nil
	}
	if s.leader == nil {
		r.sendCommit(from, s) // the epoch names the sequencer
		return nil
	}
	if !their.certifiedBy(their.Owners) || their.Sequencer != from || !r.locator.ownersPlausible(s, their) {
		r.stats.Untrusted++
		return nil
	}
	s.rival.epoch, s.rival.seen = their, env.MomentOf(r.clock.Now())
	if their.Branch < s.epoch.Branch && !m.GivesWay || r.givesWay(s) {
		r.contactRival(s) // the other branch should continue, and does not know it
		return nil
	}
	if m.GivesWay {
		s.rival.gaveWay = env.MomentOf(r.clock.Now())
	}
	if len(m.Head) == 0 {
		r.sendMerged(from, s, Hash{})
		return nil
	}
	head, err := OpenEntry(r.epochs.verify, m.Head)
	if err != nil || head.Key != s.key {
		return errPulled
	}
	switch g := s.rival.merge; {
	case s.log.find(head.Hash) >= 0:
		r.sendMerged(from, s, head.Hash)
	case g != nil && g.done && g.head == head.Hash:
		if s.leader.inflight == nil && len(s.leader.queue) == 0 && !r.app.Absorbing(s.key) {
			r.sendMerged(from, s, head.Hash)
		}
	case g == nil || g.done:
		r.pullBranch(s, their, from)
	}
	return nil
}

func (r *merger) sendMerged(to env.PeerID, s *replica, head Hash) {
	r.app.Emit(BranchMerged{s.key})
	m := s.commit()
	m.MergedHead, m.Absorbed = head.bytes(), true
	r.send(to, &ownerpb.Message{Body: &ownerpb.Message_Commit{Commit: m}})
}

// pullBranch pulls another branch's log from its sequencer.
func (r *merger) pullBranch(s *replica, their *Epoch, from env.PeerID) {
	if s.pull != nil {
		return // a pull is under way; the next Merge message tries again
	}
	have := s.log.headHash()
	if s.rival.merge != nil && s.rival.merge.branch == their.Branch {
		have = s.rival.merge.head // continue after the entries appended before
	}
	g := &branchMerge{branch: their.Branch}
	s.rival.merge = g
	p := &pull{from: r.peer(from), have: have, forMerge: true}
	p.then = []func(bool){func(ok bool) {
		switch last := p.entries.head(); {
		case s.rival.merge != g:
		case !ok || s.leader == nil || p.epoch.Hash != their.Hash || last == nil:
			s.rival.merge = nil
		case !their.endsWith(last):
			r.stats.Untrusted++
			s.rival.merge = nil
		default:
			for i, e := range p.entries {
				if s.log.find(e.Hash) < 0 && p.bodies[i] != nil {
					r.app.Emit(Absorb{s.key, p.bodies[i]})
				}
			}
			g.head, g.done = last.Hash, true
		}
	}}
	r.puller.begin(s, p)
}
