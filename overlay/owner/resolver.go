package owner

import (
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/owner/ownerpb"
)

// A Resolver finds the owners of keys of which this node keeps no log. FindOwners asks once; a Tracker asks again and
// again, and remembers which epochs this node accepts.
//
// The question is routed to the root of the key, so that nobody else has an influence on the answer. The root answers
// from its replica. A root that has just come and has no replica yet passes the question on to the next nearest members.
// The answer is one member's word: its epoch is signed by a quorum of the owners it names, but only VerifyOwners tells
// whether these are the members near the key.
type Resolver struct {
	base
	epochs *epochs
	logs   logs
	app    Application

	queries    map[overlay.ID]*query    // questions under way
	forClients int                      // questions that clients wait for; at most maxClientQueries
	due        env.Calendar[overlay.ID] // next tries of questions
}

// logs is what a Resolver needs of the replicas that this node keeps.
type logs interface {
	View(key overlay.ID) (View, bool)
	RequestOwners(key overlay.ID, url string, done func(ok bool))
}

// A query is a question under way: who owns a key?
type query struct {
	url   string // not empty: the key is to have owners
	then  []func(f Found)
	tries int       // number of times the question was sent; at most maxQueryTries
	nonce uint64    // known only to the nodes on the way to the one that answers
	due   time.Time // time of the next try
}

// Found is the answer to FindOwners.
type Found struct {
	// Answered is false if no node has answered.
	Answered bool
	// Epoch is the epoch in force, as the answering node knows it. A quorum of its owners has signed it, and they are as
	// near to the key as owners in a network of this size are. Nil: the key has no owners, or the epoch is invalid.
	Epoch *Epoch
	// Owners are the key's owners whose addresses the answering node knows, the sequencer first.
	Owners []*overlay.Contact
	// Followers keep the key's log for readers. Only a node that follows the key itself is told of them; otherwise
	// anybody could list the readers of a feed.
	Followers []*overlay.Contact
}

// Peers returns the owners, then the followers.
func (f Found) Peers() []*overlay.Contact { return slices.Concat(f.Owners, f.Followers) }

const (
	// queryTime is how long an answer may take before the question is sent again; each further answer may take this much longer.
	queryTime = 2 * time.Second
	// maxQueryTries is how often a question is sent.
	maxQueryTries = 3
	// maxQueryWaiters bounds the callers that wait for one answer, which include clients of this node. At the bound a
	// further caller is told at once that nobody answers.
	maxQueryWaiters = 64
	// maxClientQueries bounds the questions that this node is asking for its clients. Further ones are dropped, and
	// the clients ask another host.
	maxClientQueries = 256
	// maxHops is how many members near the key are asked after its root.
	maxHops = 3
	// maxFound bounds the contacts in one answer.
	maxFound = 16
)

func newResolver(b base, epochs *epochs, logs logs, app Application) *Resolver {
	return &Resolver{base: b, epochs: epochs, logs: logs, app: app, queries: map[overlay.ID]*query{}}
}

// FindOwners calls then with the owners of a key, once, within some twelve seconds.
func (r *Resolver) FindOwners(key overlay.ID, then func(f Found)) { r.find(key, "", then) }

// find is FindOwners. If url, the key's URL, is not empty, the root founds a log for a key without owners.
func (r *Resolver) find(key overlay.ID, url string, then func(f Found)) {
	q := r.queries[key]
	if q == nil {
		q = &query{nonce: r.rand.Uint64()}
		r.queries[key] = q
		defer r.ask(key, q)
	}
	if len(q.then) >= maxQueryWaiters {
		then(Found{})
		return
	}
	if url != "" {
		q.url = url
	}
	q.then = append(q.then, then)
}

func (r *Resolver) ask(key overlay.ID, q *query) {
	q.tries++
	m := &ownerpb.Message{Body: &ownerpb.Message_FindOwners{FindOwners: &ownerpb.FindOwners{
		Key: key[:], Record: r.node.Self().Raw, Nonce: q.nonce, Url: q.url,
	}}}
	q.due = r.clock.Now().Add(queryTime * time.Duration(q.tries))
	r.due.Add(q.due, key)
	if hosts := r.node.Hosts(); r.node.State() == overlay.Attached && len(hosts) > 0 {
		r.sendTo(hosts[q.tries%len(hosts)].Peer, m)
	} else {
		r.node.Route(wire.Owner, key, wire.Encode(m), func(overlay.Receipt, bool) {})
	}
}

// run repeats the questions that are due.
func (r *Resolver) run(now time.Time) {
	for key, _, ok := r.due.Pop(now); ok; key, _, ok = r.due.Pop(now) {
		switch q := r.queries[key]; {
		case q == nil || now.Before(q.due):
		case q.tries < maxQueryTries:
			r.ask(key, q)
		default:
			r.finish(key, Found{})
		}
	}
}

func (r *Resolver) finish(key overlay.ID, f Found) {
	q := r.queries[key]
	delete(r.queries, key)
	for _, then := range q.then {
		then(f)
	}
}

// onFindOwners handles a question that was sent to this node directly: from the root of the key, which knows no owners,
// or from a client, for whom this node asks. This node may follow the key and be told of other followers; the client
// is told of them only if it follows the key, too.
func (r *Resolver) onFindOwners(from env.PeerID, m *ownerpb.FindOwners) error {
	if m.Hops > 0 {
		return r.answer(m)
	}
	if !r.node.ActsFor(from) || r.forClients >= maxClientQueries {
		return nil
	}
	key := overlay.ID(m.Key)
	r.forClients++
	r.find(key, m.Url, func(f Found) {
		r.forClients--
		if !containsPeer(r.app.Siblings(key), from) {
			f.Followers = nil
		}
		if f.Answered {
			r.sendFound(env.Peer{ID: from}, key, m.Nonce, f)
		}
	})
	return nil
}

// containsPeer reports whether a peer is among some contacts.
func containsPeer(of []*overlay.Contact, peer env.PeerID) bool {
	return slices.ContainsFunc(of, func(c *overlay.Contact) bool { return c.Peer.ID == peer })
}

// answer answers a question as the root of the key, or as one of the members that are asked after the root. The answer
// is sent to the peer of the signed record only. It names followers only while the asker is a child of the root in the
// key's tree.
func (r *Resolver) answer(m *ownerpb.FindOwners) error {
	key := overlay.ID(m.Key)
	asker, err := r.node.OpenRecord(m.Record)
	if err != nil {
		return err
	}
	if m.Url != "" {
		if r.keyOf(m.Url) != key {
			return errKey
		}
		if m.Hops == 0 {
			r.app.Emit(Wanted{key})
		}
	}
	v, _ := r.logs.View(key)
	if v.Epoch == nil && r.passOn(m, asker.Peer.ID) {
		return nil
	}
	if v.Epoch == nil && m.Url != "" {
		r.logs.RequestOwners(key, m.Url, func(bool) {}) // the asker repeats its question
	}
	f := Found{Answered: true, Epoch: v.Epoch}
	if v.Epoch != nil {
		for _, p := range v.Epoch.inOrder() {
			if c := r.contact(p); c != nil {
				f.Owners = append(f.Owners, c)
			}
		}
	}
	if below := r.app.Siblings(key); asker.Peer.ID == r.self || containsPeer(below, asker.Peer.ID) {
		f.Followers = below
	}
	if asker.Peer.ID != r.self {
		r.sendFound(asker.Peer, key, m.Nonce, f)
	} else if q := r.queries[key]; q != nil && q.nonce == m.Nonce {
		r.finish(key, f) // this node is both asker and root
	}
	return nil
}

// passOn sends a question that this node cannot answer to the next nearest member, and reports whether there was one.
// The other owners tell a new root only some seconds later that it is an owner.
func (r *Resolver) passOn(m *ownerpb.FindOwners, asker env.PeerID) bool {
	if m.Hops >= maxHops {
		return false
	}
	near := r.node.Leaf().NearestN(overlay.ID(m.Key), maxHops+2)
	for _, c := range near[min(int(m.Hops)+1, len(near)):] {
		if m.Hops++; c.Peer.ID != r.self && c.Peer.ID != asker {
			r.sendTo(c.Peer, &ownerpb.Message{Body: &ownerpb.Message_FindOwners{FindOwners: m}})
			return true
		}
	}
	return false
}

func (r *Resolver) sendFound(to env.Peer, key overlay.ID, nonce uint64, f Found) {
	m := &ownerpb.OwnersFound{Key: key[:], Nonce: nonce, Epoch: f.Epoch.proto()}
	var had []overlay.ID
	records := func(of []*overlay.Contact) (records [][]byte) {
		for _, c := range of {
			if len(had) < maxFound && c.Peer.ID != to.ID && !slices.Contains(had, c.ID) {
				had = append(had, c.ID)
				records = append(records, c.Raw)
			}
		}
		return records
	}
	m.Records = records(f.Owners)
	m.Followers = records(f.Followers)
	r.sendTo(to, &ownerpb.Message{Body: &ownerpb.Message_OwnersFound{OwnersFound: m}})
}

// onOwnersFound handles the answer to a question.
func (r *Resolver) onOwnersFound(m *ownerpb.OwnersFound) error {
	key := overlay.ID(m.Key)
	if q := r.queries[key]; q == nil || q.nonce != m.Nonce {
		return nil
	}
	f := Found{Answered: true}
	var err error
	if f.Owners, err = r.contacts(m.Records); err != nil {
		return err
	}
	if f.Followers, err = r.contacts(m.Followers); err != nil {
		return err
	}
	if m.Epoch != nil {
		// The contacts can be used even if the epoch is invalid: entries are verified on their own.
		if e, err := r.epochs.open(m.Epoch); err == nil && e.Key == key && r.epochs.check(e) == nil {
			f.Epoch = e
		} else {
			r.stats.Untrusted++
		}
	}
	r.finish(key, f)
	return nil
}

// contacts verifies records.
func (r *Resolver) contacts(records [][]byte) (of []*overlay.Contact, err error) {
	for _, raw := range records {
		c, err := r.node.OpenRecord(raw)
		if err != nil {
			return nil, err
		}
		of = append(of, c)
	}
	return of, nil
}

// VerifyOwners calls then with whether a quorum of an epoch's owners are live members near its key. For a key in the
// leaf it does so at once; otherwise after a lookup by disjoint routes, which takes about twenty messages and seconds,
// half a minute at most.
func (r *Resolver) VerifyOwners(e *Epoch, then func(ok bool)) {
	live := func(near []*overlay.Contact) bool {
		return majority(e.Owners, func(p env.PeerID) bool { return containsPeer(near, p) })
	}
	if r.node.State() == overlay.Active && r.node.Leaf().Covers(e.Key) {
		then(live(r.node.NearestOwners(e.Key, 2*r.owners, nil)))
		return
	}
	r.stats.Lookups++
	r.node.Lookup(e.Key, 2*r.owners, func(found overlay.Lookup) { then(live(found.Nearest)) })
}
