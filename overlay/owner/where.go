package owner

import (
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/owner/ownerpb"
)

// asking is a question who owns a key.
type asking struct {
	then  []func(found []*overlay.Contact)
	tries int
	nonce uint64
	due   time.Time // when it is asked again
}

const (
	// maxAsks is how often it is asked.
	maxAsks = 3
	// maxAskers bounds those who wait for one answer: clients ask their hosts.
	// Who comes later is told at once that nobody is known.
	maxAskers = 64
)

// Where finds the owners of a key, and some who follow it; nil if nobody answers.
func (o *Owners) Where(key overlay.ID, then func(found []*overlay.Contact)) {
	a := o.asking[key]
	if a == nil {
		a = &asking{nonce: o.rand.Uint64()} // only who got the question can answer it
		o.asking[key] = a
		defer o.askWhere(key, a)
	}
	if len(a.then) >= maxAskers {
		then(nil)
		return
	}
	a.then = append(a.then, then)
}

func (o *Owners) askWhere(key overlay.ID, a *asking) {
	a.tries++
	m := &ownerpb.Message{Body: &ownerpb.Message_Where{Where: &ownerpb.Where{Key: key[:], Record: o.node.Self().Raw, Nonce: a.nonce}}}
	if hosts := o.node.Hosts(); o.node.State() == overlay.Attached && len(hosts) > 0 {
		o.sendTo(hosts[a.tries%len(hosts)].Peer, m)
	} else {
		o.node.Route(wire.Owner, key, encode(m), func(overlay.Receipt, bool) {})
	}
	a.due = o.clock.Now().Add(pullTime * time.Duration(a.tries))
	o.cal.Add(a.due, task{kind: taskAsk, key: key})
}

func (o *Owners) askAgain(key overlay.ID, now time.Time) {
	a := o.asking[key]
	if a == nil || now.Before(a.due) {
		return
	}
	if a.tries < maxAsks {
		o.askWhere(key, a)
		return
	}
	o.answered(key, nil)
}

func (o *Owners) answered(key overlay.ID, found []*overlay.Contact) {
	a := o.asking[key]
	if a == nil {
		return
	}
	delete(o.asking, key)
	for _, then := range a.then {
		then(found)
	}
}

// onWhere passes a client's question on.
func (o *Owners) onWhere(from env.PeerID, m *ownerpb.Where) error {
	if !o.node.ActsFor(from) {
		return nil
	}
	key := overlay.ID(m.Key)
	o.Where(key, func(found []*overlay.Contact) {
		o.sendFound(o.peer(from), key, m.Nonce, found)
	})
	return nil
}

// answerWhere answers as the root of a key.
func (o *Owners) answerWhere(m *ownerpb.Where) {
	asker, err := o.node.OpenRecord(m.Record)
	if err != nil {
		o.stats.Garbage++
		return
	}
	key := overlay.ID(m.Key)
	var found []*overlay.Contact
	if s := o.seats[key]; s != nil && s.epoch != nil {
		for _, p := range s.epoch.Owners {
			if c := o.node.Leaf().Has(o.id(p)); c != nil {
				found = append(found, c)
			}
		}
	}
	found = append(found, o.app.Siblings(key)...)
	if asker.Peer.ID == o.self {
		if a := o.asking[key]; a != nil && a.nonce == m.Nonce {
			o.answered(key, found) // the asker is the root: no link leads from it to itself
		}
		return
	}
	o.sendFound(asker.Peer, key, m.Nonce, found)
}

const maxFound = 16

func (o *Owners) sendFound(to env.Peer, key overlay.ID, nonce uint64, found []*overlay.Contact) {
	m := &ownerpb.Found{Key: key[:], Nonce: nonce}
	var had []overlay.ID
	for _, c := range found {
		if len(m.Records) < maxFound && c.Peer.ID != to.ID && !slices.Contains(had, c.ID) {
			had = append(had, c.ID)
			m.Records = append(m.Records, c.Raw)
		}
	}
	o.sendTo(to, &ownerpb.Message{Body: &ownerpb.Message_Found{Found: m}})
}

// onFound takes the answer to a Where.
func (o *Owners) onFound(m *ownerpb.Found) error {
	key := overlay.ID(m.Key)
	if a := o.asking[key]; a == nil || a.nonce != m.Nonce {
		return nil
	}
	var found []*overlay.Contact
	for _, raw := range m.Records {
		c, err := o.node.OpenRecord(raw)
		if err != nil {
			return err
		}
		found = append(found, c)
	}
	o.answered(key, found)
	return nil
}
