package owner

import (
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/overlay"
)

// A candidacy is one attempt of this node to commit a new epoch.
type candidacy struct {
	since        time.Time    // start of the attempt
	hasSlot      bool         // it occupies one of maxCandidacies slots
	retries      int          // number of times that requests were repeated
	retryAt      time.Time    // time of the next repetition
	founding     bool         // the epoch starts a branch without promises of former owners
	forced       bool         // the epoch starts a branch, without a quorum of the old owners
	number       uint32       // number of the new epoch
	newOwners    []env.PeerID // owners in the new epoch
	newSequencer env.PeerID   // sequencer in the new epoch

	oldOwners []env.PeerID          // owners of the epoch in force; nil if founding
	undecided []*undecidedEpoch     // later epochs that may have been certified
	promised  []env.PeerID          // owners that have promised
	heads     []promisedHead        // of those that promised, if they can be part of the epoch in force
	refused   map[env.PeerID]uint32 // owners that have refused, with the number that they have promised to another candidate
	voterSets [][]env.PeerID        // sets of owners of which a quorum each must sign, besides newOwners

	proposal   *Epoch // epoch to be signed; nil: promises are being collected
	signedHere bool   // this node's own signature is durable
}

// An undecidedEpoch is an epoch later than the one in force that may have been certified. signers are the old
// owners that reported having signed it.
type undecidedEpoch struct {
	epoch   *Epoch
	signers []env.PeerID
}

// A promisedHead is the last entry of an owner that has promised.
type promisedHead struct {
	entry *Entry
	owner env.PeerID
}

// count counts the promise of an owner whose log ends in head. open are the epochs that the owner has signed without
// knowing their outcome: their owners have to promise too. It reports whether there are new ones.
func (b *candidacy) count(inForce *Epoch, from env.PeerID, head *Entry, open []*Epoch) (more bool) {
	b.promised = append(b.promised, from)
	if head != nil && inForce.admits(head) && inForce.endsWith(head) { // others are older, or a lie
		b.heads = append(b.heads, promisedHead{head, from})
	}
	for _, e := range open {
		if e.Key != inForce.Key || e.Branch != inForce.Branch || e.Number <= inForce.Number || e.Number >= b.number {
			continue
		}
		i := slices.IndexFunc(b.undecided, func(u *undecidedEpoch) bool { return u.epoch.Hash == e.Hash })
		if i < 0 {
			i, more = len(b.undecided), true
			b.undecided = append(b.undecided, &undecidedEpoch{epoch: e})
		}
		b.undecided[i].signers = append(b.undecided[i].signers, from)
	}
	return more
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
	return majority(b.oldOwners, func(p env.PeerID) bool { return !slices.Contains(b.promised, p) || slices.Contains(u.signers, p) })
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

// hasPromises reports whether a quorum of each epoch that may be in force has promised.
func (b *candidacy) hasPromises() bool {
	sets := b.promiserSets()
	return len(sets) <= 1+maxConcurrent &&
		!slices.ContainsFunc(sets, func(set []env.PeerID) bool { return !majority(set, in(b.promised)) })
}

// best returns the farthest head that a quorum may have stored, and an owner that has promised it and not failed to deliver
// it. If all have failed, holder is empty, unless forced is set: then such heads do not count. head is nil if all logs are
// empty.
func (b *candidacy) best(inForce *Epoch, withheld map[env.PeerID]bool, forced bool) (head *Entry, holder env.PeerID) {
	for _, h := range b.heads {
		if withheld[h.owner] && (forced || !b.mayBeCommitted(inForce, h.entry)) {
			continue
		}
		if head == nil || inForce.farther(h.entry, head) {
			head, holder = h.entry, ""
		}
		if h.entry.Hash == head.Hash && !withheld[h.owner] {
			holder = h.owner
		}
	}
	return head, holder
}

// mayBeCommitted reports whether a quorum of the old owners can have an entry. Owners that have promised with an earlier head
// do not.
func (b *candidacy) mayBeCommitted(inForce *Epoch, e *Entry) bool {
	return majority(b.oldOwners, func(p env.PeerID) bool {
		return !slices.Contains(b.promised, p) || slices.ContainsFunc(b.heads, func(h promisedHead) bool { return h.owner == p && !inForce.farther(e, h.entry) })
	})
}

// mayWin reports whether a quorum of each set of owners that have to vote may still do so.
func (b *candidacy) mayWin() bool {
	sets := b.promiserSets()
	if b.proposal != nil {
		sets = append(slices.Clone(b.voterSets), b.newOwners)
	}
	return !slices.ContainsFunc(sets, func(set []env.PeerID) bool {
		return !majority(set, func(p env.PeerID) bool { _, refused := b.refused[p]; return !refused })
	})
}

// maxRefusedAhead bounds the numbers of refusals that a candidate believes. It is half of what owners promise at a time, so
// that the next number is within that.
const maxRefusedAhead = maxAhead / 2

// refuse counts an owner's refusal.
func (b *candidacy) refuse(p env.PeerID, number uint32) {
	if b.refused == nil {
		b.refused = map[env.PeerID]uint32{}
	}
	b.refused[p] = number
}

// numberToExceed returns the least number above which a quorum of the old owners can promise, as far as they have said what
// they promised; 0 if that is not known. So a minority cannot drive the numbers up.
func (b *candidacy) numberToExceed() uint32 {
	var of []uint32
	for _, p := range b.oldOwners {
		if n, refused := b.refused[p]; refused && n <= b.number+maxRefusedAhead {
			of = append(of, n)
		} else if slices.Contains(b.promised, p) {
			of = append(of, b.number)
		}
	}
	slices.Sort(of)
	if q := quorum(len(b.oldOwners)); len(of) >= q {
		return of[q-1]
	}
	if len(of) > 0 {
		return of[len(of)-1]
	}
	return 0
}

// farther reports whether head a is ahead of head b: in a later epoch, or later in the same epoch. A quorum can only
// have stored the farthest head. One position has only one entry.
func (e *Epoch) farther(a, b *Entry) bool {
	if a.At.Branch != b.At.Branch {
		return a.At.Branch == e.Branch // the other one is older than the forced reconfiguration
	}
	return b.At.Before(a.At)
}

// propose builds the epoch that continues a replica's log. founder is the overlay id of the new sequencer.
func (b *candidacy) propose(s *replica, founder overlay.ID, now time.Time) *Epoch {
	e := &Epoch{Key: s.key, URL: s.url, Number: b.number, Sequencer: b.newSequencer, Owners: b.newOwners, Time: now}
	if s.epoch != nil {
		e.Branch, e.Prior = s.epoch.Branch, s.epoch.Hash
	}
	if b.founding || b.forced {
		e.Branch, e.Number = newBranch(s.key, founder, now), 1
	} else {
		b.voterSets = b.promiserSets()
		for _, u := range b.undecided {
			if b.mayBeInForce(u) {
				e.Concurrent = append(e.Concurrent, u.epoch.Hash)
			}
		}
	}
	if head := s.log.head(); head != nil {
		e.After, e.AfterHash = head.At, head.Hash
	}
	e.setHash()
	b.proposal = e
	return e
}

// voters returns all peers that are asked to sign.
func (b *candidacy) voters() []env.PeerID {
	return union(append(slices.Clone(b.voterSets), b.newOwners))
}

// certified reports whether a quorum of each voter set and of the new owners has signed the proposal.
func (b *candidacy) certified() bool {
	return !slices.ContainsFunc(append(slices.Clone(b.voterSets), b.newOwners), func(set []env.PeerID) bool { return !b.proposal.certifiedBy(set) })
}

// blocked reports whether the old and the new owners have signed, but not the owners of an undecided epoch. One of
// them may have lost its disk, and with it the vote that would rule the undecided epoch out. Then a forced
// reconfiguration has to start a new branch, as if a quorum were silent.
func (b *candidacy) blocked() bool {
	return b.proposal.certifiedBy(b.oldOwners) && b.proposal.certifiedBy(b.newOwners)
}

// without returns the peers that are not among others.
func without(of, others []env.PeerID) []env.PeerID {
	return slices.DeleteFunc(slices.Clone(of), in(others))
}

func sameSet(a, b []env.PeerID) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(p env.PeerID) bool { return !slices.Contains(b, p) })
}
