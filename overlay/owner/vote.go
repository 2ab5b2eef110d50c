package owner

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/internal/plant"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/owner/ownerpb"
)

var (
	errRouted = errors.New("a message that is routed was sent")
	errSigner = errors.New("an entry of somebody else's epoch")
	errAfter  = errors.New("an entry that leaves out what its epoch goes on from")
	errBody   = errors.New("a body that is not its entry's")
	errKey    = errors.New("an epoch of another URL's key")
)

const (
	// maxNumber bounds the numbers of epochs. At the bound no higher one can be
	// promised: a lineage that came there ends in a jump.
	maxNumber = 1 << 31
	// maxAhead is how far beyond what it knows an owner promises a number:
	// more than a year of attempts.
	maxAhead = 1 << 22
)

// onSeal promises to hold nothing of older epochs, if nobody else was promised
// as much.
func (o *Owners) onSeal(from env.PeerID, m *ownerpb.Seal) {
	s := o.at(m.Key)
	if s == nil || s.epoch == nil {
		return
	}
	// Who owns the key in an epoch that others have signed need not have heard of that: what an
	// owner asks it promises, as it can do no harm.
	asked := o.owns(s) || s.mayOwn(o.self) || s.epoch.owns(from)
	if m.Lineage != s.epoch.Lineage || !asked || !o.mayBid(s, from) {
		o.sendInstall(from, s)
		return
	}
	if refused := o.refuses(s, from, m.Lineage, m.Number); refused > 0 {
		o.sendSealed(from, s, m.Number, refused)
		return
	}
	s.promised.cast(vote{lineage: m.Lineage, number: m.Number, to: from})
	o.save(s, func() {
		if p := s.promised.in(m.Lineage); p.number == m.Number && p.to == from && s.epoch != nil {
			o.sendSealed(from, s, m.Number, 0)
		}
	})
	if s.lead != nil {
		o.bidIn(s, bidTime) // if the candidate does not come through
	}
}

// mayBid says whether a peer may be a candidate, as far as is known here: an owner,
// or a member of the leaf.
func (o *Owners) mayBid(s *seat, p env.PeerID) bool {
	return s.epoch != nil && s.epoch.owns(p) || s.mayOwn(p) || o.alive(p)
}

// refuses returns the number that stands against promising one to a candidate, 0
// if none does.
func (o *Owners) refuses(s *seat, from env.PeerID, lineage uint64, number uint32) uint32 {
	if plant.VoteTwice {
		return 0
	}
	if s.epoch != nil && s.epoch.Lineage == lineage && number <= s.epoch.Number {
		return s.epoch.Number
	}
	p := s.promised.in(lineage)
	known := p.number
	if s.epoch != nil && s.epoch.Lineage == lineage {
		known = max(known, s.epoch.Number)
	}
	if p.number > number || p.number == number && p.to != from || known > 0 && number-known > maxAhead {
		return known
	}
	return 0
}

func (o *Owners) sendSealed(to env.PeerID, s *seat, number, refused uint32) {
	m := &ownerpb.Sealed{Key: s.key[:], Lineage: s.epoch.Lineage, Number: number, Refused: refused, Epoch: s.epoch.wire()}
	m.Open = epochsPB(s.open)
	if head := s.log.head(); head != nil {
		m.Head = head.Raw
	}
	o.send(to, &ownerpb.Message{Body: &ownerpb.Message_Sealed{Sealed: m}})
}

// onSign signs the epoch of a candidate, once it has all that the epoch goes on
// from.
func (o *Owners) onSign(from env.PeerID, m *ownerpb.Sign) error {
	e, err := openStatement(m.Statement)
	if err != nil {
		return err
	}
	if overlay.Key(o.node.Network(), e.URL) != e.Key {
		return errKey
	}
	s := o.seats[e.Key]
	if !e.owns(o.self) && (s == nil || !o.owns(s) && !s.mayOwn(o.self)) {
		return nil
	}
	if !o.mayBid(cmp.Or(s, &seat{}), from) {
		return nil
	}
	if s == nil {
		if len(o.seats) >= maxSeats {
			return nil
		}
		s = o.seat(e.Key, e.URL)
	}
	if v := s.signed.in(e.Lineage); v.number == e.Number && !plant.VoteTwice {
		if v.hash == e.Hash && v.sure {
			o.sendSigned(from, e)
		}
		return nil
	}
	if s.epoch != nil && s.epoch.Lineage != e.Lineage {
		if e.Number != 1 || !m.Jump || o.owns(s) && !o.silent(s) && from != s.epoch.Sequencer {
			o.sendInstall(from, s)
			return nil
		}
	} else if refused := o.refuses(s, from, e.Lineage, e.Number); refused > 0 {
		if s.epoch != nil {
			o.sendSealed(from, s, e.Number, refused)
		}
		return nil
	}
	if s.epoch == nil && len(s.open) > 0 && s.open[0].Lineage != e.Lineage && o.clock.Now().Sub(s.open[0].Time).Abs() < bidTime {
		return nil // somebody else is founding; one at a time
	}
	if len(s.opened(e)) >= maxOpen {
		return nil
	}
	if e.AfterHash != (Hash{}) && s.log.find(e.AfterHash) < 0 {
		o.startPull(s, o.peer(from), nil)
		if s.pull != nil {
			s.pull.whole = true
		}
		return nil // the candidate asks again
	}
	if o.volatile[e.AfterHash] {
		return nil // so it does here: what is not durable may yet be refused
	}
	o.lock(s, e, from, func() { o.sendSigned(from, e) })
	return nil
}

// mayOwn says whether a peer is an owner in an epoch that may be in force, unknown
// here.
func (s *seat) mayOwn(p env.PeerID) bool {
	return slices.ContainsFunc(s.open, func(e *Epoch) bool { return e.owns(p) })
}

// opened returns the open epochs that stay so beside a new one: its candidate has
// ruled out the others, for a quorum that has not signed them never will.
func (s *seat) opened(e *Epoch) (of []*Epoch) {
	for _, p := range s.open {
		if p.Lineage == e.Lineage && slices.Contains(e.Beside, p.Hash) {
			of = append(of, p)
		}
	}
	return of
}

// lock makes durable that this node signs an epoch, and no other of its number.
func (o *Owners) lock(s *seat, e *Epoch, candidate env.PeerID, then func()) {
	v := vote{lineage: e.Lineage, number: e.Number, to: candidate, hash: e.Hash}
	s.signed.cast(v)
	s.promised.cast(vote{lineage: e.Lineage, number: e.Number, to: candidate})
	s.open = append(s.opened(e), e)
	o.save(s, func() {
		if s.signed.in(e.Lineage).hash == e.Hash {
			v.sure = true
			s.signed.cast(v)
			then()
		}
	})
}

func (o *Owners) sendSigned(to env.PeerID, e *Epoch) {
	o.send(to, &ownerpb.Message{Body: &ownerpb.Message_Signed{Signed: &ownerpb.Signed{
		Key: e.Key[:], Signature: o.signer.Sign(wire.DomainEpoch, e.Hash[:]).Raw,
	}}})
}

// silent says whether a key's sequencer has given no sign of life for a lease, or
// nearly: clocks and beats are not that exact.
func (o *Owners) silent(s *seat) bool {
	return s.lead == nil && o.clock.Now().Sub(o.heard(s)) > o.cfg.Lease*7/8
}

// heard is when the sequencer in force gave its last sign of life.
func (o *Owners) heard(s *seat) time.Time {
	at := s.heard
	if s.epoch != nil {
		if b := o.beats[s.epoch.Sequencer]; b.After(at) {
			at = b
		}
	}
	return at
}

func (o *Owners) sendInstall(to env.PeerID, s *seat) {
	o.send(to, &ownerpb.Message{Body: &ownerpb.Message_Install{Install: &ownerpb.Install{
		Epoch: s.epoch.wire(), Note: s.note, Version: s.version,
	}}})
}

// onInstall takes the news of an epoch.
func (o *Owners) onInstall(from env.PeerID, m *ownerpb.Install) error {
	e, err := o.openEpoch(m.Epoch)
	if err != nil {
		return err
	}
	if overlay.Key(o.node.Network(), e.URL) != e.Key {
		return errKey
	}
	s := o.seats[e.Key]
	if s == nil {
		return nil // who signed it has a seat; the others are told by mistake
	}
	o.lookLater(s, e, from)
	if s.epoch != nil && e.Lineage != s.epoch.Lineage {
		merged, _ := hashFrom(m.Merged)
		o.meet(s, e, from, merged, m.Absorbed)
		return nil
	}
	switch {
	case s.epoch != nil && (e.Number < s.epoch.Number || m.Asks && e.Number == s.epoch.Number):
		o.sendInstall(from, s)
		return nil
	case s.epoch == nil || e.Number > s.epoch.Number:
		if o.unseen(s, e) {
			o.startPull(s, o.peer(from), nil) // which looks first who lives there
			return nil
		}
		if !o.right(s, e) {
			o.stats.Untrusted++
			return nil
		}
		if s.epoch != nil && s.epoch.owns(from) && !e.owns(from) {
			s.shun(from, o.clock.Now()) // it gives the key up, because it is about to leave
		}
		o.install(s, e, from)
	}
	if e.Hash == s.epoch.Hash && s.epoch.owns(from) {
		o.takeNote(s, m.Note, m.Version, from)
	}
	return nil
}

// right says whether an epoch may follow the one in force: it was signed by a
// quorum of both, or, where this node has missed some between, by one of its own
// owners who stand where owners of the key can stand.
func (o *Owners) right(s *seat, e *Epoch) bool {
	if !e.certifiedBy(e.Owners) {
		return false
	}
	return s.epoch != nil && e.Succeeds(s.epoch) || o.placed(s, e)
}

// dense says whether the owners of an epoch stand as near to the key as owners in
// a network of this size do. Somebody who makes up owners has to search for as
// many keys as there are members for each of them.
func (o *Owners) dense(e *Epoch) bool {
	n := o.node.Stats().EstimatedN
	if n < 64 {
		return true // then owners can stand nearly anywhere
	}
	// Of n members the nearest eight share some log2(n)-3 bits with the key; a
	// set that shares five bits less than that was not the nearest.
	want := -8
	for ; n > 1; n /= 2 {
		want++
	}
	near := 0
	for _, p := range e.Owners {
		if o.id(p).Common(e.Key) >= want {
			near++
		}
	}
	return near >= quorum(len(e.Owners))
}

// install puts an epoch in force here.
func (o *Owners) install(s *seat, e *Epoch, from env.PeerID) {
	if plant.Clinging && s.epoch != nil && s.epoch.owns(o.self) && !e.owns(o.self) {
		return
	}
	now := o.clock.Now()
	if s.epoch != nil && s.epoch.Lineage != e.Lineage {
		s.foreign = nil
	}
	o.yield(s.bid)
	o.setEpoch(s, e)
	s.url, s.heard, s.stuck, s.bid, s.seen = e.URL, now, time.Time{}, nil, 0
	s.void = nil
	s.open = slices.DeleteFunc(slices.Clone(s.open), func(p *Epoch) bool { return p.Lineage != e.Lineage || p.Number <= e.Number })
	var ops []env.Op
	if at := s.log.find(e.AfterHash); at >= 0 || e.AfterHash == (Hash{}) {
		// After what it goes on from come its own entries, and nobody else's.
		n, last := at+1, e.AfterHash
		for n < len(s.log) && s.log[n].At.Lineage == e.Lineage && s.log[n].At.Epoch == e.Number {
			last = s.log[n].Hash
			n++
		}
		o.stats.Cut += uint64(len(s.log) - n)
		ops = o.truncate(s, last)
	}
	if plant.StepBack && !o.owns(s) && len(s.log) > 1 {
		s.setLog(s.log[:len(s.log)-1])
	}
	o.save(s, nil, ops...)
	if s.log.headHash() == e.AfterHash {
		s.settled = e.AfterHash
	}
	o.show(s)
	if e.Sequencer == o.self {
		if l := s.lead; l != nil {
			l.flight, l.trail = o.refly(s, l), nil
		}
		o.takeLead(s)
	} else {
		o.dropLead(s)
	}
	switch {
	case o.owns(s):
		s.left = time.Time{}
		if s.log.headHash() != e.AfterHash && s.log.find(e.AfterHash) < 0 && from != o.self {
			o.startPull(s, o.peer(from), nil)
		}
	case !s.follow:
		s.left = now
	}
	o.after(settleTime, task{kind: taskKeep, key: s.key}) // the owners may have changed while these were chosen
	o.handOn(s)
	o.handed()
}

// refly looks what becomes of an entry that was under way when the epoch changed:
// the new one goes on from it, then its owners hold it; or it goes back to the
// queue.
func (o *Owners) refly(s *seat, l *lead) *flight {
	f := l.flight
	if f == nil {
		return nil
	}
	if s.log.find(f.entry.Hash) >= 0 {
		o.stats.Held++
		o.app.Held(s.key, f.entry, f.body)
		if f.done != nil {
			f.done(true)
		}
		return nil
	}
	if f.set == nil {
		return nil // of an earlier life: a poll finds it again
	}
	l.queue = slices.Insert(l.queue, 0, pending{f.body, f.entry.Items, f.set, f.done})
	return nil
}
