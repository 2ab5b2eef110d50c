package owner

import (
	"slices"

	"tidings/internal/env"
	"tidings/overlay/owner/ownerpb"
)

const (
	// maxNumber bounds the numbers of epochs. At the bound no higher number can be promised, and a forced
	// reconfiguration has to start a new branch.
	maxNumber = 1 << 31
	// maxAhead is how far beyond the known number an owner promises: more than a year of attempts.
	maxAhead = 1 << 22
)

// A ballot is what an owner has voted about a key's epochs: an acceptor's state in Paxos. It is pure; an acceptor makes it
// durable before it acts on it.
type ballot struct {
	epoch     *Epoch   // epoch in force, as far as this node knows; nil: none
	undecided []*Epoch // epochs signed here whose outcome is unknown; at most maxUndecided
	promised  votes    // per branch, the highest epoch number promised; entries of lower epochs are no longer accepted
	signed    votes    // per branch, the last epoch signed
}

// conflict returns the number that rules out a promise to a candidate; 0 if there is none.
func (b *ballot) conflict(from env.PeerID, branch uint64, number uint32) uint32 {
	p := b.promised.in(branch)
	known := p.number
	if b.epoch != nil && b.epoch.Branch == branch {
		if number <= b.epoch.Number {
			return b.epoch.Number
		}
		known = max(known, b.epoch.Number)
	}
	if p.number > number || p.number == number && p.candidate != from || known > 0 && number-known > maxAhead {
		return known
	}
	return 0
}

// promisedAway reports whether this owner has promised to accept no further entries of the epoch in force.
func (b *ballot) promisedAway() bool { return b.promisedNumber() > b.epoch.Number }

// promisedNumber returns the highest number promised in the branch of the epoch in force.
func (b *ballot) promisedNumber() uint32 { return b.promised.in(b.epoch.Branch).number }

// promise records a promise to a candidate.
func (b *ballot) promise(branch uint64, number uint32, candidate env.PeerID) {
	b.promised.set(vote{branch: branch, number: number, candidate: candidate})
}

// sign records the signature of a candidate's epoch. It is not durable yet.
func (b *ballot) sign(e *Epoch, candidate env.PeerID) {
	b.signed.set(vote{branch: e.Branch, number: e.Number, candidate: candidate, hash: e.Hash})
	b.promise(e.Branch, e.Number, candidate)
	b.undecided = append(b.stillUndecided(e), e)
}

// stored records that the signature of an epoch is durable. It reports false if another signature has taken its place.
func (b *ballot) stored(e *Epoch) bool {
	v := b.signed.in(e.Branch)
	if v.hash != e.Hash {
		return false
	}
	v.durable = true
	b.signed.set(v)
	return true
}

// settle forgets the undecided epochs that the epoch in force has decided.
func (b *ballot) settle() {
	e := b.epoch
	b.undecided = slices.DeleteFunc(slices.Clone(b.undecided), func(p *Epoch) bool { return p.Branch != e.Branch || p.Number <= e.Number })
}

// mayOwn reports whether a peer is an owner in an undecided epoch.
func (b *ballot) mayOwn(p env.PeerID) bool {
	return slices.ContainsFunc(b.undecided, func(e *Epoch) bool { return e.owns(p) })
}

// stillUndecided returns the undecided epochs that remain so beside a new one. Its candidate has ruled out all
// epochs that it does not name: a quorum has promised without having signed them.
func (b *ballot) stillUndecided(e *Epoch) (of []*Epoch) {
	for _, p := range b.undecided {
		if p.Branch == e.Branch && slices.Contains(e.Concurrent, p.Hash) {
			of = append(of, p)
		}
	}
	return of
}

// A vote is a promise to a candidate, or a signature under its epoch. A node gives one vote of each kind
// per branch and number.
type vote struct {
	branch    uint64
	number    uint32
	durable   bool       // signatures only: stored, so it may be sent
	candidate env.PeerID // peer that the vote was given to
	hash      Hash       // hash of the signed statement; zero for a promise
}

// votes holds the last vote of each branch. Only the latest maxVotes branches are remembered: a key rarely
// has more than two.
type votes []vote

const maxVotes = 8

// in returns the vote in a branch; the zero vote if there is none.
func (v votes) in(branch uint64) vote {
	for _, w := range v {
		if w.branch == branch {
			return w
		}
	}
	return vote{}
}

// set records a vote in place of the earlier one of its branch.
func (v *votes) set(w vote) {
	*v = slices.DeleteFunc(*v, func(old vote) bool { return old.branch == w.branch })
	*v = append(*v, w)
	if len(*v) > maxVotes {
		*v = slices.Clone((*v)[1:])
	}
}

func (v votes) proto() (of []*ownerpb.Vote) {
	for _, w := range v {
		of = append(of, &ownerpb.Vote{Branch: w.branch, Number: w.number, Candidate: []byte(w.candidate), Hash: w.hash.bytes()})
	}
	return of
}

func votesFrom(of []*ownerpb.Vote) (v votes) {
	for _, m := range of {
		h, _ := hashFrom(m.GetHash())
		v = append(v, vote{m.GetBranch(), m.GetNumber(), true, env.PeerID(m.GetCandidate()), h})
	}
	return v
}
