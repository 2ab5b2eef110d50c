package owner

import (
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/owner/ownerpb"
)

// An ownerQuery is a question under way: who owns a key?
type ownerQuery struct {
	then  []func(f foundOwners)
	tries int // number of times it was sent; at most maxQueryTries
	nonce uint64
	due   time.Time // time of the next try
}

// foundOwners is the answer to an ownerQuery.
type foundOwners struct {
	owners []*overlay.Contact
	// followers keep the key's log for readers. Only a node that follows the key itself is told of them; otherwise
	// anybody could list the readers of a feed.
	followers []*overlay.Contact
}

const (
	// maxQueryTries is how often a question is sent.
	maxQueryTries = 3
	// maxQueryWaiters bounds the callers that wait for one answer, which include clients of this node. At the bound a
	// further caller is told at once that no owner is known.
	maxQueryWaiters = 64
)

// FindOwners finds the owners of a key. If the key's root knows this node as a follower, some other followers come
// after the owners. The list is nil if nobody answers.
func (o *Owners) FindOwners(key overlay.ID, then func(found []*overlay.Contact)) {
	o.findOwners(key, func(f foundOwners) { then(slices.Concat(f.owners, f.followers)) })
}

func (o *Owners) findOwners(key overlay.ID, then func(f foundOwners)) {
	a := o.queries[key]
	if a == nil {
		a = &ownerQuery{nonce: o.rand.Uint64()} // only the peer that got the question can answer it
		o.queries[key] = a
		defer o.sendFindOwners(key, a)
	}
	if len(a.then) >= maxQueryWaiters {
		then(foundOwners{})
		return
	}
	a.then = append(a.then, then)
}

func (o *Owners) sendFindOwners(key overlay.ID, a *ownerQuery) {
	a.tries++
	m := &ownerpb.Message{Body: &ownerpb.Message_FindOwners{FindOwners: &ownerpb.FindOwners{Key: key[:], Record: o.node.Self().Raw, Nonce: a.nonce}}}
	if hosts := o.node.Hosts(); o.node.State() == overlay.Attached && len(hosts) > 0 {
		o.sendTo(hosts[a.tries%len(hosts)].Peer, m)
	} else {
		o.node.Route(wire.Owner, key, encode(m), func(overlay.Receipt, bool) {})
	}
	a.due = o.clock.Now().Add(pullTime * time.Duration(a.tries))
	o.cal.Add(a.due, task{kind: taskRetryQuery, key: key})
}

func (o *Owners) retryQuery(key overlay.ID, now time.Time) {
	a := o.queries[key]
	if a == nil || now.Before(a.due) {
		return
	}
	if a.tries < maxQueryTries {
		o.sendFindOwners(key, a)
		return
	}
	o.finishQuery(key, foundOwners{})
}

func (o *Owners) finishQuery(key overlay.ID, f foundOwners) {
	a := o.queries[key]
	if a == nil {
		return
	}
	delete(o.queries, key)
	for _, then := range a.then {
		then(f)
	}
}

// onFindOwners passes on a client's question. The answer may name followers, because this node follows the key; the
// client is told of them only if it follows the key, too.
func (o *Owners) onFindOwners(from env.PeerID, m *ownerpb.FindOwners) error {
	if !o.node.ActsFor(from) {
		return nil
	}
	key := overlay.ID(m.Key)
	o.findOwners(key, func(f foundOwners) {
		if !containsPeer(o.app.Siblings(key), from) {
			f.followers = nil
		}
		o.sendOwnersFound(o.peer(from), key, m.Nonce, f)
	})
	return nil
}

// containsPeer reports whether a peer is among some contacts.
func containsPeer(of []*overlay.Contact, peer env.PeerID) bool {
	return slices.ContainsFunc(of, func(c *overlay.Contact) bool { return c.Peer.ID == peer })
}

// answerFindOwners answers as the root of a key. The answer is sent to the peer of the signed record only. It names
// followers only while the asker is a child of the root in the key's tree.
func (o *Owners) answerFindOwners(m *ownerpb.FindOwners) {
	asker, err := o.node.OpenRecord(m.Record)
	if err != nil {
		o.stats.Garbage++
		return
	}
	key := overlay.ID(m.Key)
	var f foundOwners
	if s := o.replicas[key]; s != nil && s.epoch != nil {
		for _, p := range s.epoch.Owners {
			if c := o.node.Leaf().Has(o.id(p)); c != nil {
				f.owners = append(f.owners, c)
			}
		}
	}
	if below := o.app.Siblings(key); asker.Peer.ID == o.self || containsPeer(below, asker.Peer.ID) {
		f.followers = below
	}
	if asker.Peer.ID == o.self {
		if a := o.queries[key]; a != nil && a.nonce == m.Nonce {
			o.finishQuery(key, f) // this node is both asker and root
		}
		return
	}
	o.sendOwnersFound(asker.Peer, key, m.Nonce, f)
}

const maxFound = 16

func (o *Owners) sendOwnersFound(to env.Peer, key overlay.ID, nonce uint64, f foundOwners) {
	m := &ownerpb.OwnersFound{Key: key[:], Nonce: nonce}
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
	m.Records = records(f.owners)
	m.Followers = records(f.followers)
	o.sendTo(to, &ownerpb.Message{Body: &ownerpb.Message_OwnersFound{OwnersFound: m}})
}

// onOwnersFound handles the answer to a FindOwners message.
func (o *Owners) onOwnersFound(m *ownerpb.OwnersFound) error {
	key := overlay.ID(m.Key)
	if a := o.queries[key]; a == nil || a.nonce != m.Nonce {
		return nil
	}
	owners, err := o.contacts(m.Records)
	if err != nil {
		return err
	}
	followers, err := o.contacts(m.Followers)
	if err != nil {
		return err
	}
	o.finishQuery(key, foundOwners{owners, followers})
	return nil
}

// contacts verifies records.
func (o *Owners) contacts(records [][]byte) (of []*overlay.Contact, err error) {
	for _, raw := range records {
		c, err := o.node.OpenRecord(raw)
		if err != nil {
			return nil, err
		}
		of = append(of, c)
	}
	return of, nil
}
