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
	maxWaitingPulls = 16
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
	from    env.Peer
	nonce   uint64
	have    Hash // the last entry had when the present page was asked for
	tries   int
	askedAt time.Time // when it was asked for
	since   time.Time

	forMerge        bool     // of a lineage that is to be merged: the log here is left alone
	repairs         []*Entry // entries of the log here whose bodies are lost, and alone are wanted; nil: none
	restart         bool
	entries         []*Entry
	bodies          [][]byte
	bytes           int
	more            bool
	committed       bool   // a quorum holds the last of them
	takeUncommitted bool   // the last is taken though no quorum is known to hold it: an owner to be asks
	epoch           *Epoch // in force, as the peer says
	note            []byte
	version         uint64

	lookingUp bool // all is here; who lives near the key is being looked up
	lookedUp  bool // that is over
	storing   bool // all was taken, and is being made durable

	chunked int // index in got of the body that is asked for in pieces; -1: none
	then    []func(ok bool)
	waiting []func() // pulls that wait for the end of one that mends
}

// Pull gets from a peer what it has of a key's log. done says whether it could be
// asked and told nothing wrong.
func (o *Owners) Pull(s env.Peer, key [32]byte, done func(ok bool)) {
	if seat := o.replicas[key]; seat != nil {
		o.startPull(seat, s, done)
		return
	}
	done(false)
}

// startPull begins a pull, or waits for the one that is running.
func (o *Owners) startPull(s *replica, from env.Peer, then func(ok bool)) {
	if s.pull != nil {
		if s.pull.repairs != nil { // it brings nothing that is new
			if len(s.pull.waiting) < maxWaitingPulls {
				s.pull.waiting = append(s.pull.waiting, func() { o.startPull(s, from, then) })
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
	s.pull = &pull{from: from, have: s.log.headHash(), chunked: -1, since: o.clock.Now()}
	if then != nil {
		s.pull.then = append(s.pull.then, then)
	}
	o.askNextPage(s)
}

// nextPage asks for the page after what is there.
func (o *Owners) askNextPage(s *replica) {
	o.nonce++
	s.pull.nonce = o.nonce
	o.askPage(s)
}

// askPage asks again with the same nonce: a late answer is an answer.
func (o *Owners) askPage(s *replica) {
	p := s.pull
	o.sendPullRequest(s, &ownerpb.Message{Body: &ownerpb.Message_Pull{Pull: &ownerpb.Pull{
		Key: s.key[:], Have: p.have.bytes(), Nonce: p.nonce,
	}}})
}

// ask sends a question of a pull; urgePull asks it again.
func (o *Owners) sendPullRequest(s *replica, m *ownerpb.Message) {
	p := s.pull
	p.tries++
	p.askedAt = o.clock.Now()
	if c := o.node.Contact(p.from.ID); c != nil {
		p.from = c.Peer
	}
	o.sendTo(p.from, m)
	o.after(pullTime, task{kind: taskRetryPull, key: s.key})
}

func (o *Owners) retryPull(s *replica, now time.Time) {
	p := s.pull
	switch {
	case now.Sub(p.askedAt) < pullTime, p.lookingUp, p.storing:
	case p.tries >= maxPullTries, now.Sub(p.since) > maxPullTime:
		o.node.Suspect(p.from.ID)
		o.endPull(s, false)
	case p.chunked >= 0:
		o.askChunk(s)
	default:
		o.askPage(s)
	}
}

func (o *Owners) endPull(s *replica, ok bool) {
	p := s.pull
	s.pull = nil
	o.pulledBytes -= p.bytes
	for _, then := range p.then {
		then(ok)
	}
	for _, next := range p.waiting {
		next()
	}
}

// onPull answers with what is kept after an entry.
func (o *Owners) onPull(from env.PeerID, m *ownerpb.Pull) {
	s := o.replicaOf(m.Key)
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
	reply.Restart = at < 0
	reply.Epoch, reply.Note, reply.Version = s.epoch.proto(), s.note, s.version
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
	reply.Committed = at+1+len(page) < len(s.log) || s.headCommitted()
	o.Bodies(page, func(bodies [][]byte) {
		for i, e := range page {
			reply.Entries = append(reply.Entries, &ownerpb.LogEntry{Entry: e.Raw, Body: inline(bodies[i]), BodyLost: bodies[i] == nil})
		}
		answer()
	})
}

// onEntries takes a page.
func (o *Owners) onEntries(from env.PeerID, m *ownerpb.Entries) error {
	s := o.replicaOf(m.Key)
	if s == nil || s.pull == nil || s.pull.from.ID != from || s.pull.nonce != m.Nonce || s.pull.chunked >= 0 || s.pull.lookingUp || s.pull.storing {
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
	p.epoch, p.note, p.version, p.more, p.committed, p.tries = e, m.Note, m.Version, m.More, m.Committed, 0
	if m.Restart && len(p.entries) > 0 || o.clock.Now().Sub(p.since) > maxPullTime {
		o.endPull(s, false) // what was asked for is kept no longer, or it takes too long
		return nil
	}
	if m.Restart {
		p.restart, p.have = true, Hash{} // it is the first page
	}
	for i, k := range m.Entries {
		e, err := OpenEntry(o.verify, k.Entry)
		if err != nil || e.Key != s.key || e.Prev != p.have && (!p.restart || len(p.entries) > 0 || i > 0) ||
			len(k.Body) > 0 && HashOf(k.Body) != e.Body {
			o.endPull(s, false)
			return errors.Join(err, errPulled)
		}
		p.have = e.Hash
		p.entries = append(p.entries, e)
		p.bodies = append(p.bodies, k.Body)
		p.bytes += len(k.Entry) + e.Size
		o.pulledBytes += len(k.Entry) + e.Size
	}
	if p.bytes > maxPulled || p.more && len(m.Entries) == 0 {
		o.endPull(s, false)
		return errPulled
	}
	if p.repairs != nil && slices.ContainsFunc(p.entries, func(e *Entry) bool { return e.Hash == p.repairs[len(p.repairs)-1].Hash }) {
		p.more = false // what comes after the last one is not wanted
	}
	if o.pulledBytes > maxPulling {
		o.endPull(s, false)
		return nil
	}
	o.continuePull(s)
	return nil
}

// goOn asks for what a pull still lacks: bodies in pieces, then the next page.
func (o *Owners) continuePull(s *replica) {
	p := s.pull
	for i, e := range p.entries {
		if p.bodies[i] == nil && e.Size > maxInline && p.wantsBody(e) {
			if body, ok := o.bodies.byEntry[e.Hash]; ok {
				p.bodies[i] = body
				continue
			}
			p.chunked = i
			p.bodies[i] = make([]byte, 0, e.Size)
			p.tries = 0
			o.askChunk(s)
			return
		}
	}
	p.chunked = -1
	if p.more {
		o.askNextPage(s)
		return
	}
	o.finishPull(s)
}

func (o *Owners) askChunk(s *replica) {
	p := s.pull
	e := p.entries[p.chunked]
	o.sendPullRequest(s, &ownerpb.Message{Body: &ownerpb.Message_ChunkRequest{ChunkRequest: &ownerpb.ChunkRequest{
		Key: s.key[:], Hash: e.Hash[:], Offset: uint32(len(p.bodies[p.chunked])),
	}}})
}

// onPiece answers with a window of a body.
func (o *Owners) onChunkRequest(from env.PeerID, m *ownerpb.ChunkRequest) {
	s := o.replicaOf(m.Key)
	if s == nil {
		return
	}
	at := s.log.find(Hash(m.Hash))
	if at < 0 {
		o.sendChunk(from, m, nil)
		return
	}
	e := s.log[at]
	o.Body(e, func(body []byte) {
		if body != nil {
			o.bodies.put(e.Hash, body) // the next piece will be asked for soon
		}
		start := min(int(m.Offset), len(body))
		o.sendChunk(from, m, body[start:min(start+maxInline, len(body))])
	})
}

func (o *Owners) sendChunk(to env.PeerID, m *ownerpb.ChunkRequest, b []byte) {
	o.send(to, &ownerpb.Message{Body: &ownerpb.Message_Chunk{Chunk: &ownerpb.Chunk{
		Key: m.Key, Hash: m.Hash, Offset: m.Offset, Bytes: b,
	}}})
}

// onPart takes a window.
func (o *Owners) onChunk(from env.PeerID, m *ownerpb.Chunk) error {
	s := o.replicaOf(m.Key)
	if s == nil || s.pull == nil || s.pull.from.ID != from || s.pull.chunked < 0 {
		return nil
	}
	p := s.pull
	e, body := p.entries[p.chunked], p.bodies[p.chunked]
	if Hash(m.Hash) != e.Hash || int(m.Offset) != len(body) {
		return nil // asked twice, answered twice
	}
	if len(m.Bytes) == 0 || len(body)+len(m.Bytes) > e.Size {
		o.endPull(s, false)
		return nil
	}
	p.tries = 0
	body = append(body, m.Bytes...)
	p.bodies[p.chunked] = body
	if len(body) < e.Size {
		o.askChunk(s)
		return nil
	}
	if HashOf(body) != e.Body {
		o.endPull(s, false)
		return errBody
	}
	o.continuePull(s)
	return nil
}
