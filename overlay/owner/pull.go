package owner

import (
	"errors"
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/overlay/owner/ownerpb"
)

const (
	// pullTime is how long an answer to a Pull or a Piece may take; maxPullTries
	// is how often it is asked for.
	pullTime     = 2 * time.Second
	maxPullTries = 3
	// maxPullTime bounds a whole Pull: a peer that feeds it crumbs must not hold
	// the place of one that would answer.
	maxPullTime = 3 * time.Minute
	// maxNext bounds the pulls of one log that wait for one that mends; further ones fail.
	maxNext = 16
	// maxPage bounds the entries of one answer; their bodies fill what is left
	// of a frame.
	maxPage = 100
	// maxPulled bounds what one Pull may bring, in bytes: all that is kept of a
	// log, and some. maxPulling bounds what all that are under way may: a pull that
	// would go beyond is ended, and begun again when somebody asks again.
	maxPulled  = maxKeptBytes + 16<<20
	maxPulling = 4 * maxPulled
	// pageBytes leaves room for the epoch and the note beside the entries.
	pageBytes = 40 << 10
)

var errPulled = errors.New("entries that do not follow on one another")

// A pull gets from one peer what it has of a log beyond what is here.
type pull struct {
	from  env.Peer
	nonce uint64
	have  Hash // the last entry had when the present page was asked for
	tries int
	at    time.Time // when it was asked for
	since time.Time

	foreign bool     // of a lineage that is to be merged: the log here is left alone
	mends   []*Entry // entries of the log here whose bodies are lost, and alone are wanted; nil: none
	anew    bool
	got     []*Entry
	bodies  [][]byte
	bytes   int
	more    bool
	held    bool   // a quorum holds the last of them
	whole   bool   // the last is taken though no quorum is known to hold it: an owner to be asks
	epoch   *Epoch // in force, as the peer says
	note    []byte
	version uint64

	looks  bool // all is here; who lives near the key is being looked up
	looked bool // that is over
	stores bool // all was taken, and is being made durable

	hole int // index in got of the body that is asked for in pieces; -1: none
	then []func(ok bool)
	next []func() // pulls that wait for the end of one that mends
}

// Pull gets from a peer what it has of a key's log. done says whether it could be
// asked and told nothing wrong.
func (o *Owners) Pull(s env.Peer, key [32]byte, done func(ok bool)) {
	if seat := o.seats[key]; seat != nil {
		o.startPull(seat, s, done)
		return
	}
	done(false)
}

// startPull begins a pull, or waits for the one that is running.
func (o *Owners) startPull(s *seat, from env.Peer, then func(ok bool)) {
	if s.pull != nil {
		if s.pull.mends != nil { // it brings nothing that is new
			if len(s.pull.next) < maxNext {
				s.pull.next = append(s.pull.next, func() { o.startPull(s, from, then) })
			} else if then != nil {
				then(false)
			}
		} else if then != nil {
			s.pull.then = append(s.pull.then, then)
		}
		return
	}
	if from.ID == o.self {
		if then != nil {
			then(false)
		}
		return
	}
	o.stats.Pulls++
	s.pull = &pull{from: from, have: s.log.headHash(), hole: -1, since: o.clock.Now()}
	if then != nil {
		s.pull.then = append(s.pull.then, then)
	}
	o.nextPage(s)
}

// nextPage asks for the page after what is there.
func (o *Owners) nextPage(s *seat) {
	o.nonce++
	s.pull.nonce = o.nonce
	o.askPage(s)
}

// askPage asks again with the same nonce: a late answer is an answer.
func (o *Owners) askPage(s *seat) {
	p := s.pull
	o.ask(s, &ownerpb.Message{Body: &ownerpb.Message_Pull{Pull: &ownerpb.Pull{
		Key: s.key[:], Have: p.have.bytes(), Nonce: p.nonce,
	}}})
}

// ask sends a question of a pull; urgePull asks it again.
func (o *Owners) ask(s *seat, m *ownerpb.Message) {
	p := s.pull
	p.tries++
	p.at = o.clock.Now()
	if c := o.node.Contact(p.from.ID); c != nil {
		p.from = c.Peer
	}
	o.sendTo(p.from, m)
	o.after(pullTime, task{kind: taskPull, key: s.key})
}

func (o *Owners) urgePull(s *seat, now time.Time) {
	p := s.pull
	switch {
	case now.Sub(p.at) < pullTime, p.looks, p.stores:
	case p.tries >= maxPullTries, now.Sub(p.since) > maxPullTime:
		o.node.Suspect(p.from.ID)
		o.endPull(s, false)
	case p.hole >= 0:
		o.askPiece(s)
	default:
		o.askPage(s)
	}
}

func (o *Owners) endPull(s *seat, ok bool) {
	p := s.pull
	s.pull = nil
	o.pulling -= p.bytes
	for _, then := range p.then {
		then(ok)
	}
	for _, next := range p.next {
		next()
	}
}

// onPull answers with what is kept after an entry.
func (o *Owners) onPull(from env.PeerID, m *ownerpb.Pull) {
	s := o.at(m.Key)
	reply := &ownerpb.Entries{Key: m.Key, Nonce: m.Nonce}
	answer := func() {
		o.send(from, &ownerpb.Message{Body: &ownerpb.Message_Entries{Entries: reply}})
	}
	if s == nil || s.epoch == nil {
		answer()
		return
	}
	have, _ := hashFrom(m.Have)
	at := s.log.find(have)
	reply.Anew = at < 0
	reply.Epoch, reply.Note, reply.Version = s.epoch.wire(), s.note, s.version
	page := s.log[at+1:]
	size := 0
	for i, e := range page {
		size += len(e.Raw) + 16
		if e.Size <= maxInline {
			size += e.Size
		}
		if i > 0 && (size > pageBytes || i >= maxPage) || o.volatile[e.Hash] {
			reply.More = !o.volatile[e.Hash] // who holds what is not durable must not say so
			page = page[:i]
			break
		}
	}
	page = slices.Clone(page)
	reply.Held = at+1+len(page) < len(s.log) || s.sure()
	o.Bodies(page, func(bodies [][]byte) {
		for i, e := range page {
			reply.Entries = append(reply.Entries, &ownerpb.Kept{Entry: e.Raw, Body: inline(bodies[i]), Lost: bodies[i] == nil})
		}
		answer()
	})
}

// onEntries takes a page.
func (o *Owners) onEntries(from env.PeerID, m *ownerpb.Entries) error {
	s := o.at(m.Key)
	if s == nil || s.pull == nil || s.pull.from.ID != from || s.pull.nonce != m.Nonce || s.pull.hole >= 0 || s.pull.looks || s.pull.stores {
		return nil
	}
	p := s.pull
	if m.Epoch == nil {
		o.endPull(s, false) // it keeps no log
		return nil
	}
	e, err := o.openEpoch(m.Epoch)
	if err != nil || e.Key != s.key {
		o.endPull(s, false)
		return errors.Join(err, errPulled)
	}
	p.epoch, p.note, p.version, p.more, p.held, p.tries = e, m.Note, m.Version, m.More, m.Held, 0
	if m.Anew && len(p.got) > 0 || o.clock.Now().Sub(p.since) > maxPullTime {
		o.endPull(s, false) // what was asked for is kept no longer, or it takes too long
		return nil
	}
	if m.Anew {
		p.anew, p.have = true, Hash{} // it is the first page
	}
	for i, k := range m.Entries {
		e, err := OpenEntry(o.verify, k.Entry)
		if err != nil || e.Key != s.key || e.Prev != p.have && (!p.anew || len(p.got) > 0 || i > 0) ||
			len(k.Body) > 0 && HashOf(k.Body) != e.Body {
			o.endPull(s, false)
			return errors.Join(err, errPulled)
		}
		p.have = e.Hash
		p.got = append(p.got, e)
		p.bodies = append(p.bodies, k.Body)
		p.bytes += len(k.Entry) + e.Size
		o.pulling += len(k.Entry) + e.Size
	}
	if p.bytes > maxPulled || p.more && len(m.Entries) == 0 {
		o.endPull(s, false)
		return errPulled
	}
	if p.mends != nil && slices.ContainsFunc(p.got, func(e *Entry) bool { return e.Hash == p.mends[len(p.mends)-1].Hash }) {
		p.more = false // what comes after the last one is not wanted
	}
	if o.pulling > maxPulling {
		o.endPull(s, false)
		return nil
	}
	o.goOn(s)
	return nil
}

// goOn asks for what a pull still lacks: bodies in pieces, then the next page.
func (o *Owners) goOn(s *seat) {
	p := s.pull
	for i, e := range p.got {
		if p.bodies[i] == nil && e.Size > maxInline && p.mending(e) {
			if body, ok := o.cache.by[e.Hash]; ok {
				p.bodies[i] = body
				continue
			}
			p.hole = i
			p.bodies[i] = make([]byte, 0, e.Size)
			p.tries = 0
			o.askPiece(s)
			return
		}
	}
	p.hole = -1
	if p.more {
		o.nextPage(s)
		return
	}
	o.finish(s)
}

func (o *Owners) askPiece(s *seat) {
	p := s.pull
	e := p.got[p.hole]
	o.ask(s, &ownerpb.Message{Body: &ownerpb.Message_Piece{Piece: &ownerpb.Piece{
		Key: s.key[:], Hash: e.Hash[:], Offset: uint32(len(p.bodies[p.hole])),
	}}})
}

// onPiece answers with a window of a body.
func (o *Owners) onPiece(from env.PeerID, m *ownerpb.Piece) {
	s := o.at(m.Key)
	if s == nil {
		return
	}
	at := s.log.find(Hash(m.Hash))
	if at < 0 {
		o.sendPart(from, m, nil)
		return
	}
	e := s.log[at]
	o.Body(e, func(body []byte) {
		if body != nil {
			o.cache.put(e.Hash, body) // the next piece will be asked for soon
		}
		start := min(int(m.Offset), len(body))
		o.sendPart(from, m, body[start:min(start+maxInline, len(body))])
	})
}

func (o *Owners) sendPart(to env.PeerID, m *ownerpb.Piece, b []byte) {
	o.send(to, &ownerpb.Message{Body: &ownerpb.Message_Part{Part: &ownerpb.Part{
		Key: m.Key, Hash: m.Hash, Offset: m.Offset, Bytes: b,
	}}})
}

// onPart takes a window.
func (o *Owners) onPart(from env.PeerID, m *ownerpb.Part) error {
	s := o.at(m.Key)
	if s == nil || s.pull == nil || s.pull.from.ID != from || s.pull.hole < 0 {
		return nil
	}
	p := s.pull
	e, body := p.got[p.hole], p.bodies[p.hole]
	if Hash(m.Hash) != e.Hash || int(m.Offset) != len(body) {
		return nil // asked twice, answered twice
	}
	if len(m.Bytes) == 0 || len(body)+len(m.Bytes) > e.Size {
		o.endPull(s, false)
		return nil
	}
	p.tries = 0
	body = append(body, m.Bytes...)
	p.bodies[p.hole] = body
	if len(body) < e.Size {
		o.askPiece(s)
		return nil
	}
	if HashOf(body) != e.Body {
		o.endPull(s, false)
		return errBody
	}
	o.goOn(s)
	return nil
}
