package owner

import (
	"errors"
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/overlay/owner/ownerpb"
)

const (
	// pullTime is how long an answer to a Pull or a ChunkRequest may take; maxPullTries is how often each is
	// sent.
	pullTime     = 2 * time.Second
	maxPullTries = 3
	// maxPullTime bounds a whole pull. Otherwise a peer that sends very little at a time could keep this node
	// from pulling elsewhere.
	maxPullTime = 3 * time.Minute
	// maxWaitingPulls bounds the pulls of one log that wait for a repair of its bodies; further ones fail.
	maxWaitingPulls = 16
	// maxPage bounds the entries of one answer; pageBytes bounds their size.
	maxPage = 100
	// maxPulled bounds one pull in bytes: a full log, with a margin. maxPulling bounds all pulls under way together.
	// A pull that would exceed it is ended, and repeated when somebody asks for it again.
	maxPulled  = maxKeptBytes + 16<<20
	maxPulling = 4 * maxPulled
	// pageBytes is the size of a page. It leaves room in a frame for the epoch and the note.
	pageBytes = 40 << 10
)

var errPulled = errors.New("pulled entries do not form a chain")

// A pull fetches from one peer the part of its log that this node lacks.
type pull struct {
	from    env.Peer
	nonce   uint64    // identifies the present page
	have    Hash      // last entry received, or had before the pull; the page starts after it
	tries   int       // number of times that the present request was sent
	askedAt time.Time // time of the last request
	since   time.Time // start of the pull

	forMerge        bool     // the entries are of another branch, to be merged; this node's log is not changed
	repairs         []*Entry // entries of this node's log whose lost bodies are wanted; nil: new entries are wanted
	restart         bool     // the peer does not have the last entry here; its log replaces this node's
	entries         []*Entry
	bodies          [][]byte
	bytes           int
	more            bool
	committed       bool   // the last entry is known to be committed
	takeUncommitted bool   // the last entry is taken even if it is not committed: a future owner has to sign what follows it
	epoch           *Epoch // epoch in force at the peer
	note            []byte
	version         uint64

	lookingUp bool // everything is here; a lookup of the owners is under way
	lookedUp  bool // the lookup is over
	storing   bool // everything was accepted and is being stored

	chunked int // index of the entry whose body is fetched in chunks; -1: none
	then    []func(ok bool)
	waiting []func() // pulls that start after this repair
}

// Pull fetches from a peer the part of a key's log that this node lacks. done is told whether the peer answered
// and its answer was accepted.
func (o *Owners) Pull(from env.Peer, key [32]byte, done func(ok bool)) {
	if s := o.replicas.byKey[key]; s != nil {
		o.startPull(s, from, done)
		return
	}
	done(false)
}

// startPull begins a pull, or joins the one that is under way.
func (o *Owners) startPull(s *replica, from env.Peer, then func(ok bool)) {
	if s.pull != nil {
		if s.pull.repairs != nil { // it brings nothing new
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

// askNextPage asks for the next page.
func (o *Owners) askNextPage(s *replica) {
	s.pull.nonce = o.nextNonce()
	o.askPage(s)
}

// askPage asks for a page. A repeated request has the same nonce, so a late answer is accepted.
func (o *Owners) askPage(s *replica) {
	p := s.pull
	o.sendPullRequest(s, &ownerpb.Message{Body: &ownerpb.Message_Pull{Pull: &ownerpb.Pull{
		Key: s.key[:], Have: p.have.bytes(), Nonce: p.nonce,
	}}})
}

// sendPullRequest sends a request of a pull and plans its repetition by retryPull.
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

// onPull answers with the entries after the one that the peer has.
func (o *Owners) onPull(from env.PeerID, m *ownerpb.Pull) {
	s := o.replicas.of(m.Key)
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
	page := s.log.chain[at+1:]
	size := 0
	for i, e := range page {
		size += len(e.Raw) + 16
		if e.Size <= maxInline {
			size += e.Size
		}
		if i > 0 && (size > pageBytes || i >= maxPage) || o.volatile[e.Hash] {
			reply.More = !o.volatile[e.Hash] // entries that are not durable are not announced
			page = page[:i]
			break
		}
	}
	page = slices.Clone(page)
	reply.Committed = at+1+len(page) < len(s.log.chain) || s.log.headCommitted()
	o.Bodies(page, func(bodies [][]byte) {
		for i, e := range page {
			reply.Entries = append(reply.Entries, &ownerpb.LogEntry{Entry: e.Raw, Body: inline(bodies[i]), BodyLost: bodies[i] == nil})
		}
		answer()
	})
}

// onEntries handles a page of entries.
func (o *Owners) onEntries(from env.PeerID, m *ownerpb.Entries) error {
	s := o.replicas.of(m.Key)
	if s == nil || s.pull == nil || s.pull.from.ID != from || s.pull.nonce != m.Nonce || s.pull.chunked >= 0 || s.pull.lookingUp || s.pull.storing {
		return nil
	}
	p := s.pull
	if m.Epoch == nil {
		o.endPull(s, false) // the peer keeps no log of the key
		return nil
	}
	e, err := o.epochs.open(m.Epoch)
	if err != nil || e.Key != s.key {
		o.endPull(s, false)
		return errors.Join(err, errPulled)
	}
	p.epoch, p.note, p.version, p.more, p.committed, p.tries = e, m.Note, m.Version, m.More, m.Committed, 0
	if m.Restart && len(p.entries) > 0 || o.clock.Now().Sub(p.since) > maxPullTime {
		o.endPull(s, false) // the peer has dropped the entries meanwhile, or the pull takes too long
		return nil
	}
	if m.Restart {
		p.restart, p.have = true, Hash{} // this is the first page
	}
	for i, k := range m.Entries {
		e, err := OpenEntry(o.epochs.verify, k.Entry)
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
		p.more = false // the entries after the last repair are not wanted
	}
	if o.pulledBytes > maxPulling {
		o.endPull(s, false)
		return nil
	}
	o.continuePull(s)
	return nil
}

// continuePull fetches what a pull still lacks: first large bodies in chunks, then the next page.
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

// onChunkRequest answers with a chunk of a body.
func (o *Owners) onChunkRequest(from env.PeerID, m *ownerpb.ChunkRequest) {
	s := o.replicas.of(m.Key)
	if s == nil {
		return
	}
	at := s.log.find(Hash(m.Hash))
	if at < 0 {
		o.sendChunk(from, m, nil)
		return
	}
	e := s.log.chain[at]
	o.Body(e, func(body []byte) {
		if body != nil {
			o.bodies.put(e.Hash, body) // the next chunk will be requested soon
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

// onChunk handles a chunk of a body.
func (o *Owners) onChunk(from env.PeerID, m *ownerpb.Chunk) error {
	s := o.replicas.of(m.Key)
	if s == nil || s.pull == nil || s.pull.from.ID != from || s.pull.chunked < 0 {
		return nil
	}
	p := s.pull
	e, body := p.entries[p.chunked], p.bodies[p.chunked]
	if Hash(m.Hash) != e.Hash || int(m.Offset) != len(body) {
		return nil // duplicate
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
