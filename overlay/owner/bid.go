package owner

import (
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/owner/ownerpb"
)

const (
	// maxVoid bounds the own drafts that are remembered as void. What was forgotten counts
	// as an epoch that may be in force until owners who have not signed it rule it out.
	maxVoid = 64
	// maxBids bounds the bids under way; further ones wait in line. Each brings an answer
	// of some five owners, and all of them together have room in an inbox, of 2,048
	// frames: with all keys of a busy node at once most answers would be lost, asked for
	// again, and lost again. A bid that no quorum can answer gives its place away after
	// answerTime, and one that nobody can answer takes none.
	maxBids = 256
	// bidTime is how long a candidate tries before it lets others try.
	bidTime = 10 * time.Second
	// bidPause is waited before the next attempt.
	bidPause = 10 * time.Second
	// foreignFor is how long a member that owns a key in another lineage is taken
	// to do so after it said it, and one that gives a key up to be leaving: longer than
	// maxHandOver.
	foreignFor = 15 * time.Second
	// reachTime is how long a jump waits for old owners it might still reach.
	reachTime = 3 * time.Second
)

// A bid is a candidate's attempt to make an epoch.
type bid struct {
	since     time.Time
	placed    bool      // it holds one of maxBids places
	asked     int       // times that its owners were asked again
	due       time.Time // when they are to be asked next
	founding  bool      // of the key's first epoch
	jump      bool      // into a new lineage
	number    uint32
	owners    []env.PeerID // to be
	sequencer env.PeerID   // to be

	old      []env.PeerID // the owners in force; nil: there are none to be asked
	open     []*support   // epochs that may be in force besides
	sealed   []env.PeerID
	voters   [][]env.PeerID // whose quorums sign, of each epoch that may be in force
	best     *Entry         // the farthest that anybody who sealed holds
	bestFrom env.PeerID

	epoch  *Epoch // in the making; nil: the old owners are being asked
	locked bool   // signed here, durably
}

// onWant founds a key's log if there is none. keeper, if not nil, keeps one that
// may be gone on with.
func (o *Owners) onWant(key overlay.ID, url string, keeper *overlay.Contact) {
	if s := o.seats[key]; s != nil && s.epoch != nil && (o.owns(s) || s.epoch.certifiedBy(s.epoch.Owners) && !o.lost(s)) {
		if keeper != nil && !s.epoch.owns(keeper.Peer.ID) {
			o.sendInstall(keeper.Peer.ID, s) // what it keeps may be of another lineage
		}
		return
	}
	if o.seats[key] == nil && len(o.seats) >= maxSeats {
		return
	}
	s := o.seat(key, url)
	if s.epoch == nil && s.bid == nil && keeper != nil {
		o.startPull(s, keeper.Peer, func(bool) { o.bidIn(s, 0) })
		return
	}
	o.bidIn(s, 0)
}

// bidIn plans an attempt, unless one is planned for earlier.
func (o *Owners) bidIn(s *seat, d time.Duration) {
	at := o.clock.Now().Add(d)
	if s.bid == nil && !s.inLine && (s.bidAt.IsZero() || at.Before(s.bidAt)) {
		s.bidAt = at
		o.cal.Add(at, task{kind: taskBid, key: s.key})
	}
}

// tryBid begins an attempt if there is still reason for one.
func (o *Owners) tryBid(s *seat) {
	now := o.clock.Now()
	want := o.wanted(s)
	if want == nil || s.bid != nil {
		return
	}
	b := &bid{since: now, owners: want}
	if s.epoch == nil || !o.owns(s) {
		if !o.node.IsRoot(s.key) || s.epoch != nil && !o.lost(s) {
			return
		}
		b.founding, b.jump = true, s.epoch != nil
	} else {
		incumbent := s.epoch.Sequencer
		stuck := !s.stuck.IsZero() || o.sealed(s) || s.seen > s.epoch.Number // an owner is
		switch {
		case o.leads(s) && sameSet(want, s.epoch.Owners) && !stuck:
			return
		case !o.leads(s) && o.alive(incumbent) && !o.silent(s) && !o.gives(s):
			return // sticky: it makes the changes
		}
		b.old = s.epoch.Owners
		b.number = max(s.epoch.Number, s.seen) + 1
		b.number = min(max(b.number, s.promised.in(s.epoch.Lineage).number+1), maxNumber)
		b.jump = !s.stuck.IsZero() && now.Sub(s.stuck) >= o.patience(s)
	}
	b.placed = b.founding || o.living(b.old) > 1
	if b.placed && o.bids >= maxBids {
		s.inLine = true
		o.line = append(o.line, s.key)
		return
	}
	if b.placed {
		o.bids++
	}
	b.sequencer = o.choose(s, want)
	s.bid = b
	o.stats.Bids++
	if b.founding {
		o.draft(s)
	} else {
		s.promised.cast(vote{lineage: s.epoch.Lineage, number: b.number, to: o.self})
		o.save(s, func() {
			if s.bid == b {
				o.seal(s, o.self, s.log.head(), s.open)
			}
		})
		o.sendSeals(s)
	}
	o.urgeIn(s, answerTime)
}

// urgeIn plans when the owners are asked again.
func (o *Owners) urgeIn(s *seat, d time.Duration) {
	if s.bid != nil {
		s.bid.due = o.clock.Now().Add(d)
		o.cal.Add(s.bid.due, task{kind: taskBidder, key: s.key})
	}
}

// living counts the owners that could answer, this node among them.
func (o *Owners) living(owners []env.PeerID) (n int) {
	for _, p := range owners {
		if p == o.self || o.alive(p) {
			n++
		}
	}
	return n
}

// yield gives a bid's place to the first in line.
func (o *Owners) yield(b *bid) {
	if b == nil || !b.placed {
		return
	}
	b.placed = false
	o.bids--
	if len(o.line) > 0 {
		o.after(0, task{kind: taskLine}) // not from within what ends a bid
	}
}

// nextInLine begins bids that have waited, as far as there is room.
func (o *Owners) nextInLine() {
	for len(o.line) > 0 && o.bids < maxBids {
		s := o.seats[o.line[0]]
		o.line = o.line[1:]
		if s != nil && s.inLine { // else it was forgotten meanwhile
			s.inLine = false
			o.tryBid(s)
		}
	}
}

// pairPatience is how long a quorum of two owners may stay silent: it has none to lose,
// so its readers would wait a lease whenever one of two nodes is switched off. If both
// live and were only parted, their lineages become one when they meet.
const pairPatience = 15 * time.Second

// patience is how long the owners of a key wait for a quorum before they jump.
func (o *Owners) patience(s *seat) time.Duration {
	if len(s.epoch.Owners) <= 2 {
		return min(o.cfg.Lease, pairPatience)
	}
	return o.cfg.Lease
}

// choose names the sequencer to be: the incumbent while it lives and is an owner;
// else this node; else the nearest owner of old; else the nearest.
func (o *Owners) choose(s *seat, want []env.PeerID) env.PeerID {
	if s.epoch != nil {
		if in := s.epoch.Sequencer; slices.Contains(want, in) && o.alive(in) && (in == o.self || !o.silent(s)) {
			return in
		}
	}
	if slices.Contains(want, o.self) {
		return o.self
	}
	for _, p := range want {
		if s.epoch != nil && s.epoch.owns(p) {
			return p
		}
	}
	return want[0]
}

// gather gets what the farthest of the old owners holds, then drafts the epoch.
func (o *Owners) gather(s *seat) {
	b := s.bid
	if b.best == nil || s.log.find(b.best.Hash) >= 0 {
		o.draft(s)
		return
	}
	o.startPull(s, o.peer(b.bestFrom), func(bool) {
		if s.bid == b && b.epoch == nil && s.log.find(b.best.Hash) >= 0 {
			o.draft(s)
		}
	})
}

// draft states the epoch, signs it, and asks the owners, old and new, to sign.
func (o *Owners) draft(s *seat) {
	b := s.bid
	if head := s.log.head(); head != nil && o.volatile[head.Hash] {
		return // the disk may yet refuse it: urge comes back
	}
	now := o.clock.Now().Truncate(time.Millisecond)
	e := &Epoch{Key: s.key, URL: s.url, Number: b.number, Sequencer: b.sequencer, Owners: b.owners, Time: now}
	if s.epoch != nil {
		e.Lineage, e.Prior = s.epoch.Lineage, s.epoch.Hash
	}
	if b.founding || b.jump {
		e.Lineage, e.Number = lineageOf(s.key, o.id(b.sequencer), now), 1
	} else {
		b.voters = b.sets()
		for _, u := range b.open {
			if b.possible(u) {
				e.Beside = append(e.Beside, u.epoch.Hash)
			}
		}
	}
	if head := s.log.head(); head != nil {
		e.After, e.AfterHash = head.At, head.Hash
	}
	b.epoch = e.state()
	own := func() {
		if s.bid != b || b.epoch != e {
			return
		}
		b.locked = true
		e.sign(o.verify, o.signer.Sign(wire.DomainEpoch, e.Hash[:]).Raw)
		o.sendSigns(s)
		o.elected(s)
	}
	o.lock(s, e, o.self, own)
}

func (o *Owners) sendSigns(s *seat) {
	b := s.bid
	m := &ownerpb.Message{Body: &ownerpb.Message_Sign{Sign: &ownerpb.Sign{Statement: b.epoch.statement, Jump: b.jump}}}
	for _, p := range o.electors(b) {
		if p != o.self && !slices.Contains(b.epoch.signers, p) {
			o.send(p, m)
		}
	}
}

// electors are all who are asked to sign.
func (o *Owners) electors(b *bid) []env.PeerID {
	return once(append(slices.Clone(b.voters), b.owners))
}

// onSigned counts a signature.
func (o *Owners) onSigned(from env.PeerID, m *ownerpb.Signed) {
	s := o.at(m.Key)
	if s == nil || s.bid == nil || s.bid.epoch == nil || !s.bid.locked || !slices.Contains(o.electors(s.bid), from) {
		return
	}
	if id, ok := s.bid.epoch.sign(o.verify, m.Signature); ok && id == from {
		o.elected(s)
	}
}

// elected installs the epoch when a quorum of each side has signed.
func (o *Owners) elected(s *seat) {
	b := s.bid
	e := b.epoch
	for _, set := range append(slices.Clone(b.voters), b.owners) {
		if !e.certifiedBy(set) {
			return
		}
	}
	if b.jump {
		o.stats.Jumps++
		o.log.Info("log of a feed continues without a quorum of its owners", "url", s.url)
	}
	o.stats.Epochs++
	told := o.electors(b)
	o.cfg.Epochs.keep(e)
	o.install(s, e, o.self)
	for _, p := range told {
		if p != o.self {
			o.sendInstall(p, s)
		}
	}
}

// urge asks again who has not answered a bid, later each time, since many answers may be
// on their way; and gives up after a while.
func (o *Owners) urge(s *seat, now time.Time) {
	b := s.bid
	if now.Before(b.due) {
		return // it is due for an earlier bid
	}
	if !b.founding && o.living(b.old) < quorum(len(b.old)) {
		o.yield(b)
	}
	switch age := now.Sub(b.since); {
	case age >= bidTime:
		o.abandon(s, bidPause)
		return
	case b.epoch == nil && b.jump && age >= reachTime:
		o.gather(s)
	case b.epoch == nil && !b.founding:
		if o.living(b.old) > 1 { // else who comes back is asked by the next bid
			o.sendSeals(s)
		}
		if s.pull == nil && b.answered() {
			o.gather(s) // the last pull came to nothing
		}
	case b.epoch == nil: // founding on what a follower had, which was not durable yet
		o.draft(s)
	case b.locked:
		o.sendSigns(s)
	}
	if s.bid == b {
		b.asked++
		o.urgeIn(s, min(answerTime<<b.asked, bidTime-now.Sub(b.since)))
	}
}

// blocked says that all have signed but the owners of an epoch that may be in force beside. One of them may
// have lost its disk with what it promised, and then never signs: as where a quorum is silent, a new lineage
// goes on.
func (b *bid) blocked() bool { return b.epoch.certifiedBy(b.old) && b.epoch.certifiedBy(b.owners) }

// abandon ends a bid without an epoch. Another attempt follows as long as there is
// reason for one.
func (o *Owners) abandon(s *seat, pause time.Duration) {
	b := s.bid
	o.yield(b)
	s.bid = nil
	if b.locked {
		// Others may have signed it. Signatures come to the candidate alone, and it counts
		// them no longer.
		if s.void == nil || len(s.void) >= maxVoid {
			s.void = map[Hash]bool{}
		}
		s.void[b.epoch.Hash] = true
	}
	switch {
	case b.founding:
	case b.epoch != nil && !b.jump && !b.blocked():
		// A quorum has answered: it is those who are to own the key that do not sign, as where
		// they own it in another lineage. To that one this one does not give way.
		s.stuck = time.Time{}
	default:
		if s.stuck.IsZero() {
			s.stuck = b.since
		}
		if o.clock.Now().Sub(s.stuck) >= giveWayTime && !o.node.IsRoot(s.key) {
			o.Want(s.key, s.url, func(bool) {}) // the root may know a lineage that lives
		}
	}
	if s.epoch != nil {
		pause += time.Duration(o.rank(s)) * rankTime
	}
	o.bidIn(s, o.spread(pause))
	if s.lead != nil {
		o.advance(s)
	}
}
