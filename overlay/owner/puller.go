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
	// maxPullPatience bounds the time that an answer of a peer with a slow line may take: the largest chunk at 1.5 KB/s.
	// maxPatient is the number of such peers that are remembered; at the limit all are forgotten, and learned again.
	maxPullPatience = 32 * time.Second
	maxPatient      = 256
	// maxPullTime bounds a whole pull. Otherwise a peer that sends very little at a time could keep this node
	// from pulling elsewhere. What has come extends it by the time that it takes at minPullRate, in bytes a second, up to
	// maxSlowPull.
	maxPullTime = 3 * time.Minute
	minPullRate = 3 << 10
	maxSlowPull = 30 * time.Minute
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

// A puller fetches from other nodes what logs here lack. It brings entries, an epoch and a note, and verifies no more than
// that the entries form a chain; what becomes of them is decided by finish.
type puller struct {
	base
	epochs  *epochs
	storage *storage
	bytes   int // bytes held by pulls under way; at most about maxPulling
	// patience is how long an answer of a peer may take, if that is longer than pullTime because answers have come late.
	patience map[env.PeerID]time.Duration
	// finish is called with a replica whose pull has brought everything. It ends the pull, at once or later.
	finish func(s *replica)
}

// A pull fetches from one peer the part of its log that this node lacks.
type pull struct {
	from    env.Peer
	nonce   uint64    // identifies the present page
	have    Hash      // last entry received, or had before the pull; the page starts after it
	tries   int       // number of times that the present request was sent
	askedAt time.Time // time of the last request
	retryAt time.Time // when it is repeated
	since   time.Time // start of the pull
	brought int       // bytes that have come

	forMerge        bool     // the entries are of another branch, to be merged; this node's log is not changed
	repairs         []*Entry // entries of this node's log whose lost bodies are wanted; nil: new entries are wanted
	takeUncommitted bool     // the last entry is taken even if it is not committed: a future owner has to sign what follows it
	pulled

	lookingUp bool // everything is here; a lookup of the owners is under way
	lookedUp  bool // the lookup is over
	storing   bool // everything was accepted and is being stored

	chunked int // index of the entry whose body is fetched in chunks; -1: none
	then    []func(ok bool)
	waiting []func() // pulls that start after this repair
}

// A pulled is what a pull has brought so far.
type pulled struct {
	entries   chain
	bodies    [][]byte
	bytes     int
	restart   bool   // the peer does not have the last entry here; its log replaces this node's
	more      bool   // further entries follow
	committed bool   // the last entry is known to be committed
	epoch     *Epoch // epoch in force at the peer
	note      []byte
	version   uint64 // of the note
}

// Pull fetches from a peer the part of a key's log that this node lacks. done is told whether the peer answered
// and its answer was accepted.
func (u *puller) Pull(from env.Peer, key [32]byte, done func(ok bool)) {
	if s := u.replicas.byKey[key]; s != nil {
		u.start(s, from, done)
		return
	}
	done(false)
}

// pullFrom begins a pull, unless one is under way, and tells nobody when it ends.
func (u *puller) pullFrom(s *replica, from env.PeerID) {
	if s.pull == nil || s.pull.repairs != nil {
		u.start(s, u.peer(from), func(bool) {})
	}
}

// start begins a pull, or joins the one that is under way.
func (u *puller) start(s *replica, from env.Peer, then func(ok bool)) {
	switch p := s.pull; {
	case p == nil && from.ID != u.self:
		u.stats.Pulls++
		u.begin(s, &pull{from: from, have: s.log.headHash(), then: []func(bool){then}})
	case p != nil && p.repairs == nil:
		p.then = append(p.then, then)
	case p != nil && len(p.waiting) < maxWaitingPulls: // the repair brings nothing new
		p.waiting = append(p.waiting, func() { u.start(s, from, then) })
	default:
		then(false)
	}
}

// begin asks for the first page of a pull.
func (u *puller) begin(s *replica, p *pull) {
	p.chunked, p.since = -1, u.clock.Now()
	s.pull = p
	u.askNextPage(s)
}

// askNextPage asks for the next page.
func (u *puller) askNextPage(s *replica) {
	s.pull.nonce = u.nextNonce()
	u.ask(s)
}

// ask asks for a page, or for a chunk of a body, and plans the repetition of the request. A repeated request for a page
// has the same nonce, so a late answer is accepted.
func (u *puller) ask(s *replica) {
	p := s.pull
	m := &ownerpb.Message{Body: &ownerpb.Message_Pull{Pull: &ownerpb.Pull{Key: s.key[:], Have: p.have.bytes(), Nonce: p.nonce}}}
	if p.chunked >= 0 {
		m.Body = &ownerpb.Message_ChunkRequest{ChunkRequest: &ownerpb.ChunkRequest{
			Key: s.key[:], Hash: p.entries[p.chunked].Hash[:], Offset: uint32(len(p.bodies[p.chunked])),
		}}
	}
	p.tries++
	p.askedAt = u.clock.Now()
	if c := u.node.Contact(p.from.ID); c != nil {
		p.from = c.Peer
	}
	u.sendTo(p.from, m)
	patience := u.patienceWith(p.from.ID)
	p.retryAt = p.askedAt.Add(patience) // also if the patience with this peer changes
	u.after(patience, task{kind: taskRetryPull, key: s.key})
}

// patienceWith returns how long an answer of a peer may take before the request is repeated.
func (u *puller) patienceWith(peer env.PeerID) time.Duration {
	return max(pullTime, u.patience[peer])
}

// late notes that an answer has come to a request that was repeated or given up meanwhile: the line is slow, and repeated
// requests make it slower.
func (u *puller) late(peer env.PeerID) {
	if u.patience == nil || len(u.patience) >= maxPatient {
		u.patience = map[env.PeerID]time.Duration{}
	}
	u.patience[peer] = min(2*u.patienceWith(peer), maxPullPatience)
}

// answered notes how long an answer has taken. A line that is fast again gets less time, so that the end of its peer is noticed.
func (u *puller) answered(peer env.PeerID, took time.Duration) {
	patience, slow := u.patience[peer]
	switch {
	case !slow || took > patience/4:
	case patience/2 > pullTime:
		u.patience[peer] = patience / 2
	default:
		delete(u.patience, peer)
	}
}

// tooLong reports whether a pull has taken too long for what it has brought.
func (p *pull) tooLong(now time.Time) bool {
	return now.Sub(p.since) > min(maxPullTime+time.Duration(p.brought)*time.Second/minPullRate, maxSlowPull)
}

// retry repeats the request of a pull, or ends the pull.
func (u *puller) retry(s *replica, now time.Time) {
	p := s.pull
	switch {
	case p == nil:
	case now.Before(p.retryAt), p.lookingUp, p.storing:
	case p.tries >= maxPullTries, p.tooLong(now):
		u.node.Suspect(p.from.ID)
		u.end(s, false)
	default:
		u.ask(s)
	}
}

func (u *puller) end(s *replica, ok bool) {
	p := s.pull
	s.pull = nil
	u.bytes -= p.bytes
	for _, then := range p.then {
		then(ok)
	}
	for _, next := range p.waiting {
		next()
	}
}

// fail ends a pull without success, and returns an error if the peer is to blame.
func (u *puller) fail(s *replica, err error) error {
	u.end(s, false)
	return err
}

// onEntries handles a page of entries.
func (u *puller) onEntries(from env.PeerID, m *ownerpb.Entries) error {
	s := u.replicas.of(m.Key)
	if s == nil || s.pull == nil || s.pull.from.ID != from || s.pull.nonce != m.Nonce || s.pull.chunked >= 0 || s.pull.lookingUp || s.pull.storing {
		u.late(from)
		return nil
	}
	p := s.pull
	u.answered(from, u.clock.Now().Sub(p.askedAt))
	if m.Epoch == nil {
		return u.fail(s, nil) // the peer keeps no log of the key
	}
	e, err := u.epochs.open(m.Epoch)
	if err != nil || e.Key != s.key {
		return u.fail(s, errors.Join(err, errPulled))
	}
	p.epoch, p.note, p.version, p.more, p.committed, p.tries = e, m.Note, m.Version, m.More, m.Committed, 0
	if m.Restart && len(p.entries) > 0 || p.tooLong(u.clock.Now()) {
		return u.fail(s, nil) // the peer has dropped the entries meanwhile, or the pull takes too long
	}
	if m.Restart {
		p.restart, p.have = true, Hash{} // this is the first page
	}
	for i, k := range m.Entries {
		e, err := OpenEntry(u.epochs.verify, k.Entry)
		if err != nil || e.Key != s.key || e.Prev != p.have && (!p.restart || len(p.entries) > 0 || i > 0) ||
			len(k.Body) > 0 && HashOf(k.Body) != e.Body {
			return u.fail(s, errors.Join(err, errPulled))
		}
		p.have = e.Hash
		p.entries = append(p.entries, e)
		p.bodies = append(p.bodies, k.Body)
		p.bytes += len(k.Entry) + e.Size
		u.bytes += len(k.Entry) + e.Size
		p.brought += len(k.Entry) + len(k.Body)
	}
	if p.bytes > maxPulled || p.more && len(m.Entries) == 0 {
		return u.fail(s, errPulled)
	}
	if p.repairs != nil && slices.ContainsFunc(p.entries, func(e *Entry) bool { return e.Hash == p.repairs[len(p.repairs)-1].Hash }) {
		p.more = false // the entries after the last repair are not wanted
	}
	if u.bytes > maxPulling {
		return u.fail(s, nil)
	}
	u.continuePull(s)
	return nil
}

// continuePull fetches what a pull still lacks: first large bodies in chunks, then the next page.
func (u *puller) continuePull(s *replica) {
	p := s.pull
	for i, e := range p.entries {
		if p.bodies[i] == nil && e.Size > maxInline && p.wantsBody(e) {
			if body, ok := u.storage.bodies.byEntry[e.Hash]; ok {
				p.bodies[i] = body
				continue
			}
			p.chunked = i
			p.bodies[i] = make([]byte, 0, e.Size)
			p.tries = 0
			u.ask(s)
			return
		}
	}
	p.chunked = -1
	if p.more {
		u.askNextPage(s)
		return
	}
	switch {
	case p.forMerge:
		u.end(s, true)
	case p.repairs != nil:
		u.storeRepaired(s)
	default:
		u.finish(s)
	}
}

// onChunk handles a chunk of a body.
func (u *puller) onChunk(from env.PeerID, m *ownerpb.Chunk) error {
	s := u.replicas.of(m.Key)
	if s == nil || s.pull == nil || s.pull.from.ID != from || s.pull.chunked < 0 {
		u.late(from)
		return nil
	}
	p := s.pull
	e, body := p.entries[p.chunked], p.bodies[p.chunked]
	if Hash(m.Hash) != e.Hash || int(m.Offset) != len(body) {
		u.late(from) // the request was repeated
		return nil
	}
	if len(m.Bytes) != min(maxInline, e.Size-len(body)) { // smaller chunks would keep this node from pulling elsewhere
		return u.fail(s, nil)
	}
	u.answered(from, u.clock.Now().Sub(p.askedAt))
	if p.tries, p.brought = 0, p.brought+len(m.Bytes); p.tooLong(u.clock.Now()) {
		return u.fail(s, nil)
	}
	body = append(body, m.Bytes...)
	p.bodies[p.chunked] = body
	if len(body) < e.Size {
		u.ask(s)
		return nil
	}
	if HashOf(body) != e.Body {
		return u.fail(s, errBody)
	}
	u.storage.bodies.put(e.Hash, body) // the next pull need not fetch it again, if this one fails
	u.continuePull(s)
	return nil
}

// RepairBodies fetches from a peer the bodies of entries of one log, oldest first, that this node's disk has lost.
// done is told which bodies are still missing; the others are stored. The log itself does not change.
func (u *puller) RepairBodies(from env.Peer, lost []*Entry, done func(missing []*Entry)) {
	s := u.replicas.byKey[lost[0].Key]
	if s == nil || s.pull != nil || from.ID == u.self {
		done(lost)
		return
	}
	u.stats.Pulls++
	p := &pull{from: from, have: lost[0].Prev, repairs: lost}
	p.then = []func(bool){func(bool) { done(p.repairs) }}
	u.begin(s, p)
}

// wantsBody reports whether a pull wants the body of an entry: all bodies, unless it is a repair.
func (p *pull) wantsBody(e *Entry) bool {
	return p.repairs == nil || slices.ContainsFunc(p.repairs, func(l *Entry) bool { return l.Hash == e.Hash })
}

// storeRepaired stores the bodies that a repair has fetched.
func (u *puller) storeRepaired(s *replica) {
	p := s.pull
	var ops []env.Op
	got := map[Hash]bool{}
	for i, e := range p.entries {
		if p.bodies[i] != nil && p.wantsBody(e) && s.log.find(e.Hash) >= 0 { // the entry may have left the log meanwhile
			ops = append(ops, env.Op{Key: bodyKey(e), Value: p.bodies[i], Body: true})
			got[e.Hash] = true
		}
	}
	if len(ops) == 0 {
		u.end(s, false)
		return
	}
	p.storing = true
	u.storage.store.Commit(ops, func(err error) {
		if s.pull != p {
			return
		}
		if err == nil {
			u.stats.Repaired += uint64(len(ops))
			p.repairs = slices.DeleteFunc(slices.Clone(p.repairs), func(e *Entry) bool { return got[e.Hash] })
		}
		u.end(s, err == nil)
	})
}

// A server answers the pulls of other nodes.
type server struct {
	base
	storage *storage
}

// onPull answers with the entries after the one that the peer has.
func (v *server) onPull(from env.PeerID, m *ownerpb.Pull) {
	s := v.replicas.of(m.Key)
	reply := &ownerpb.Entries{Key: m.Key, Nonce: m.Nonce}
	answer := func() {
		v.send(from, &ownerpb.Message{Body: &ownerpb.Message_Entries{Entries: reply}})
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
		raw := e.Raw()
		size += len(raw) + 16
		if e.Size <= maxInline {
			size += e.Size
		}
		if i > 0 && (size > pageBytes || i >= maxPage) || !v.storage.durable(e.Hash) {
			reply.More = v.storage.durable(e.Hash) // entries that are not durable are not announced
			page = page[:i]
			break
		}
		reply.Entries = append(reply.Entries, &ownerpb.LogEntry{Entry: raw})
	}
	page = slices.Clone(page)
	reply.Committed = at+1+len(page) < len(s.log.chain) || s.log.headCommitted()
	v.storage.Bodies(page, func(bodies [][]byte) {
		for i, of := range reply.Entries {
			of.Body, of.BodyLost = inline(bodies[i]), bodies[i] == nil
		}
		answer()
	})
}

// onChunkRequest answers with a chunk of a body.
func (v *server) onChunkRequest(from env.PeerID, m *ownerpb.ChunkRequest) {
	s := v.replicas.of(m.Key)
	if s == nil {
		return
	}
	at := s.log.find(Hash(m.Hash))
	if at < 0 {
		v.sendChunk(from, m, nil)
		return
	}
	e := s.log.chain[at]
	v.storage.Body(e, func(body []byte) {
		if body != nil {
			v.storage.bodies.put(e.Hash, body) // the next chunk will be requested soon
		}
		start := min(int(m.Offset), len(body))
		v.sendChunk(from, m, body[start:min(start+maxInline, len(body))])
	})
}

func (v *server) sendChunk(to env.PeerID, m *ownerpb.ChunkRequest, b []byte) {
	v.send(to, &ownerpb.Message{Body: &ownerpb.Message_Chunk{Chunk: &ownerpb.Chunk{
		Key: m.Key, Hash: m.Hash, Offset: m.Offset, Bytes: b,
	}}})
}

// inline returns the body if it fits beside its entry, else nil.
func inline(body []byte) []byte {
	if len(body) > maxInline {
		return nil
	}
	return body
}
