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
	// bidTime is how long a candidate tries before it lets others try.
	bidTime = 10 * time.Second
	// bidPause is waited before the next attempt.
	bidPause = 10 * time.Second
	// foreignFor is how long a member that owns a key in another lineage is taken
	// to do so after it said it.
	foreignFor = 15 * time.Second
	// reachTime is how long a jump waits for old owners it might still reach.
	reachTime = 3 * time.Second
)

// A bid is a candidate's attempt to make an epoch.
type bid struct {
	since     time.Time
	founding  bool // of the key's first epoch
	jump      bool // into a new lineage
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

// A support is an epoch of which not all signatures are known, and who of the old
// owners said that they signed it.
type support struct {
	epoch *Epoch
	by    []env.PeerID
}

// onWant founds a key's log if there is none.
func (o *Owners) onWant(key overlay.ID, url string) {
	if s := o.seats[key]; s != nil && s.epoch != nil && (o.owns(s) || s.epoch.certifiedBy(s.epoch.Owners) && !o.lost(s)) {
		return
	}
	if o.seats[key] == nil && len(o.seats) >= maxSeats {
		return
	}
	o.bidIn(o.seat(key, url), 0)
}

// lost says whether no owner of a key that this node only follows lives in the
// leaf any more.
func (o *Owners) lost(s *seat) bool {
	leaf := o.node.Leaf()
	return leaf.Covers(s.key) && !slices.ContainsFunc(s.epoch.Owners, func(p env.PeerID) bool { return leaf.Has(o.id(p)) != nil })
}

// bidIn plans an attempt, unless one is planned for earlier.
func (o *Owners) bidIn(s *seat, d time.Duration) {
	at := o.clock.Now().Add(d)
	if s.bid == nil && (s.bidAt.IsZero() || at.Before(s.bidAt)) {
		s.bidAt = at
		o.cal.Add(at, task{kind: taskBid, key: s.key})
	}
}

// nearest returns the members that should own a key; nil if this node cannot
// know them.
func (o *Owners) nearest(key overlay.ID) []env.PeerID {
	leaf := o.node.Leaf()
	if o.node.State() != overlay.Active || !leaf.Covers(key) {
		return nil
	}
	var of []env.PeerID
	for _, c := range leaf.NearestN(key, o.cfg.Owners) {
		of = append(of, c.Peer.ID)
	}
	return of
}

// wanted returns the members that should own a key now: the nearest, without those
// that own it in another lineage, as long as the two have not become one.
func (o *Owners) wanted(s *seat) []env.PeerID {
	now := o.clock.Now()
	for p, said := range s.foreign {
		if now.Sub(said) >= foreignFor {
			delete(s.foreign, p)
		}
	}
	if len(s.foreign) == 0 {
		return o.nearest(s.key)
	}
	leaf := o.node.Leaf()
	if o.node.State() != overlay.Active || !leaf.Covers(s.key) {
		return nil
	}
	var of []env.PeerID
	for _, c := range leaf.NearestN(s.key, leaf.Len()) {
		if _, foreign := s.foreign[c.Peer.ID]; foreign {
			continue
		}
		if of = append(of, c.Peer.ID); len(of) == o.cfg.Owners {
			break
		}
	}
	o.LeafChanged() // they will not be foreign for ever
	return of
}

// alive says whether a peer is a member of the leaf.
func (o *Owners) alive(p env.PeerID) bool { return o.node.Leaf().Has(o.id(p)) != nil }

// keepUp looks at all seats after the leaf has changed: where the owners should
// be others, or the sequencer is dead, an epoch is to be made.
func (o *Owners) keepUp() {
	for _, s := range o.sorted() {
		if s.epoch != nil && o.owns(s) {
			o.keepOwners(s)
		}
	}
}

// keepOwners plans an epoch where the owners of a key should be others, or its
// sequencer is dead.
func (o *Owners) keepOwners(s *seat) {
	switch {
	case s.bid != nil:
	case o.leads(s):
		if want := o.wanted(s); want != nil && !sameSet(want, s.epoch.Owners) {
			o.bidIn(s, 0)
		}
	case !o.alive(s.epoch.Sequencer):
		o.bidIn(s, time.Duration(o.rank(s))*rankTime)
	}
}

// rank is this node's place among the living owners of a key, the nearest first.
func (o *Owners) rank(s *seat) int {
	n := 0
	for _, p := range s.epoch.Owners {
		if p != o.self && o.alive(p) && overlay.Nearer(s.key, o.id(p), o.node.ID()) {
			n++
		}
	}
	return n
}

func sameSet(a, b []env.PeerID) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(p env.PeerID) bool { return !slices.Contains(b, p) })
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
		stuck := !s.stuck.IsZero() || o.sealed(s)
		switch {
		case o.leads(s) && sameSet(want, s.epoch.Owners) && !stuck:
			return
		case !o.leads(s) && o.alive(incumbent) && !o.silent(s):
			return // sticky: it makes the changes
		}
		b.old = s.epoch.Owners
		b.number = max(s.epoch.Number, s.seen) + 1
		b.number = max(b.number, s.promised.in(s.epoch.Lineage).number+1)
		b.jump = !s.stuck.IsZero() && now.Sub(s.stuck) >= o.cfg.Lease
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
	o.after(answerTime, task{kind: taskBidder, key: s.key})
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
		e, err := openEpoch(o.verify, m.Epoch)
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
	if b == nil || b.founding || m.Lineage != s.epoch.Lineage || m.Number != b.number || !slices.Contains(once(b.sets()), from) {
		return nil
	}
	if m.Refused > 0 {
		// Somebody else is trying, or has tried: let that one, then try higher.
		s.seen = max(s.seen, m.Refused)
		o.abandon(s, bidPause/2)
		return nil
	}
	var open []*Epoch
	for _, raw := range m.Open {
		e, err := openEpoch(o.verify, raw)
		if err != nil {
			return err
		}
		open = append(open, e)
	}
	var head *Entry
	if len(m.Head) > 0 {
		e, err := OpenEntry(o.verify, m.Head)
		if err != nil {
			return err
		}
		if e.Key == s.key {
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
	if head != nil && (b.best == nil || farther(head, b.best)) {
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
func farther(a, b *Entry) bool {
	if a.At.Lineage != b.At.Lineage {
		return a.Time.After(b.Time) // one of them is from before the jump
	}
	return b.At.Before(a.At)
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
		o.log.Info("log goes on without its quorum", "url", s.url)
	}
	o.stats.Epochs++
	told := o.electors(b)
	o.install(s, e, o.self)
	for _, p := range told {
		if p != o.self {
			o.sendInstall(p, s)
		}
	}
}

// urge asks again who has not answered a bid, and gives up after a while.
func (o *Owners) urge(s *seat, now time.Time) {
	b := s.bid
	switch age := now.Sub(b.since); {
	case age >= bidTime:
		o.abandon(s, bidPause)
		return
	case b.epoch == nil && b.jump && age >= reachTime:
		o.gather(s)
	case b.epoch == nil && !b.founding:
		o.sendSeals(s)
		if s.pull == nil && b.answered() {
			o.gather(s) // the last pull came to nothing
		}
	case b.locked:
		o.sendSigns(s)
	}
	if s.bid == b {
		o.after(answerTime, task{kind: taskBidder, key: s.key})
	}
}

// abandon ends a bid without an epoch. Another attempt follows as long as there is
// reason for one.
func (o *Owners) abandon(s *seat, pause time.Duration) {
	b := s.bid
	s.bid = nil
	if b.epoch != nil {
		// Signatures come to the candidate alone, and it counts them no longer.
		if s.void == nil {
			s.void = map[Hash]bool{}
		}
		s.void[b.epoch.Hash] = true
	}
	if s.stuck.IsZero() && !b.founding {
		s.stuck = b.since
	}
	if s.epoch != nil {
		pause += time.Duration(o.rank(s)) * rankTime
	}
	o.bidIn(s, o.spread(pause))
	if s.lead != nil {
		o.advance(s)
	}
}
