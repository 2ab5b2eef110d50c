package firehose

import (
	"bytes"
	"slices"
	"time"

	"tidings/cobra/firehose/firehosepb"
	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/owner"
)

// A charter is what a node knows of a shard's owners.
type charter struct {
	epochs  []*owner.Epoch // the latest last; a filter has vouched for each
	owners  []env.Peer     // of the latest, the sequencer first
	doubted *owner.Epoch   // a look-up is under way
	nonce   uint64         // of the question that is open; 0: none
	asked   time.Time
	tries   int // since the last answer
}

const (
	// maxEpochs bounds the epochs of a shard by which broadcasts are believed: those of
	// the one before last are on their way while the last one is made known.
	maxEpochs = 3
	// askAgain is waited before owners are asked for again, twice as long each time up
	// to askSeldom.
	askAgain, askSeldom = 2 * time.Second, time.Minute
	// maxRelayed bounds the questions of clients that a member has asked for them.
	maxRelayed = 256
	relayTime  = 30 * time.Second
	// maxHops is how many members near the key are asked beside its root.
	maxHops = 3
)

// latest is the last epoch known, nil if none is.
func (c *charter) latest() *owner.Epoch {
	if len(c.epochs) == 0 {
		return nil
	}
	return c.epochs[len(c.epochs)-1]
}

// owns says whether a peer owned the shard of late.
func (c *charter) owns(p env.PeerID) bool {
	return slices.ContainsFunc(c.epochs, func(e *owner.Epoch) bool { return slices.Contains(e.Owners, p) })
}

// owned says whether a peer owns it now.
func (c *charter) owned(p env.PeerID) bool {
	e := c.latest()
	return e != nil && slices.Contains(e.Owners, p)
}

// inOrder are an epoch's owners, the sequencer first: the order in which they broadcast.
func inOrder(e *owner.Epoch) []env.PeerID {
	of := []env.PeerID{e.Sequencer}
	for _, p := range e.Owners {
		if p != e.Sequencer {
			of = append(of, p)
		}
	}
	return of
}

// A relay is a client's question.
type relay struct {
	client env.PeerID
	at     time.Time
}

// ask asks who owns a shard, unless it was asked a moment ago.
func (f *Firehose) ask(s *shard, now time.Time) {
	c := &s.charter
	if now.Sub(c.asked) < min(askAgain<<min(c.tries, 8), askSeldom) {
		return
	}
	c.asked, c.nonce = now, f.rand.Uint64()
	c.tries++
	m := &firehosepb.Message{Body: &firehosepb.Message_Who{Who: &firehosepb.Who{
		Shard: uint32(s.n), Record: f.node.Self().Raw, Nonce: c.nonce, Filter: f.cfg.Filter,
	}}}
	if hosts := f.node.Hosts(); f.node.State() == overlay.Attached && len(hosts) > 0 {
		f.send(hosts[c.tries%len(hosts)].Peer, env.Control, m)
		return
	}
	f.node.Route(wire.Cobra, s.key, marshal(m), func(overlay.Receipt, bool) {})
}

// onWho answers what the root did not know, or asks for a client, whom nobody but its hosts
// can answer.
func (f *Firehose) onWho(from env.PeerID, m *firehosepb.Who) {
	if m.Hops > 0 {
		f.answerWho(f.shards[m.Shard], m)
		return
	}
	if !f.node.ActsFor(from) || len(f.relayed) >= maxRelayed {
		return
	}
	f.relayed[m.Nonce] = relay{from, f.clock.Now()}
	m.Record = f.node.Self().Raw
	f.node.Route(wire.Cobra, f.shards[m.Shard].key, marshal(&firehosepb.Message{Body: &firehosepb.Message_Who{Who: m}}), func(overlay.Receipt, bool) {})
}

// answerWho answers as the root of a shard's key. One that has just come is told by the other
// owners, a little later, that it is one: until then it asks those who are next. Filters have the
// key owned.
func (f *Firehose) answerWho(s *shard, m *firehosepb.Who) {
	asker, err := f.node.OpenRecord(m.Record)
	if err != nil {
		f.stats.Garbage++
		return
	}
	v, _ := f.owners.View(s.key)
	if m.Filter && m.Hops == 0 {
		s.called = f.clock.Now()
	}
	if v.Epoch == nil && m.Hops < maxHops {
		near := f.node.Leaf().NearestN(s.key, maxHops+2)
		for _, c := range near[min(int(m.Hops)+1, len(near)):] {
			if c.Peer.ID != f.self && c.Peer.ID != asker.Peer.ID {
				m.Hops++
				f.send(c.Peer, env.Control, &firehosepb.Message{Body: &firehosepb.Message_Who{Who: m}})
				return
			}
		}
	}
	if v.Epoch == nil && m.Filter {
		f.owners.RequestOwners(s.key, s.url, func(bool) {})
	}
	answer := &firehosepb.Charter{Shard: m.Shard, Nonce: m.Nonce}
	if v.Epoch != nil {
		answer.Epoch = v.Epoch.Bytes()
		for _, p := range inOrder(v.Epoch) {
			if p == f.self {
				answer.Records = append(answer.Records, f.node.Self().Raw)
			} else if c := f.node.Contact(p); c != nil {
				answer.Records = append(answer.Records, c.Raw)
			}
		}
	}
	if asker.Peer.ID == f.self {
		f.onCharter(answer) // no link leads from a node to itself
		return
	}
	f.send(asker.Peer, env.Control, &firehosepb.Message{Body: &firehosepb.Message_Charter{Charter: answer}})
}

// onCharter takes the answer: only who got the question can give it.
func (f *Firehose) onCharter(m *firehosepb.Charter) {
	if r, ok := f.relayed[m.Nonce]; ok {
		delete(f.relayed, m.Nonce)
		f.send(f.peer(r.client), env.Control, &firehosepb.Message{Body: &firehosepb.Message_Charter{Charter: m}})
		return
	}
	s := f.shards[m.Shard]
	c := &s.charter
	if m.Nonce == 0 || m.Nonce != c.nonce {
		return
	}
	now := f.clock.Now()
	c.nonce, c.tries = 0, 0
	if len(m.Epoch) == 0 {
		if f.cfg.Filter {
			return // owners are being found; asked again soon
		}
		c.epochs, c.owners = nil, nil
		f.rest(s, now)
		return
	}
	e, err := f.owners.OpenEpoch(m.Epoch)
	if err != nil || e.Key != s.key {
		f.stats.Garbage++
		return
	}
	var contacts []*overlay.Contact
	for _, raw := range m.Records {
		if k, err := f.node.OpenRecord(raw); err == nil {
			contacts = append(contacts, k)
		}
	}
	last := c.latest()
	switch {
	case !f.cfg.Filter, last != nil && (e.Hash == last.Hash || e.Succeeds(last)):
		f.believe(s, e, contacts)
	case c.doubted == nil:
		c.doubted = e
		f.owners.VerifyOwners(e, func(ok bool) {
			c.doubted = nil
			if !ok {
				f.stats.Forged++
				return
			}
			f.believe(s, e, contacts)
		})
	}
}

// believe takes an epoch for the one in force.
func (f *Firehose) believe(s *shard, e *owner.Epoch, contacts []*overlay.Contact) {
	c := &s.charter
	// One of before may be in force again: where two lineages met.
	c.epochs = slices.DeleteFunc(c.epochs, func(old *owner.Epoch) bool { return old.Hash == e.Hash })
	if c.epochs = append(c.epochs, e); len(c.epochs) > maxEpochs {
		c.epochs = slices.Clone(c.epochs[1:])
	}
	c.owners = nil
	for _, p := range inOrder(e) {
		peer := f.peer(p)
		if i := slices.IndexFunc(contacts, func(k *overlay.Contact) bool { return k.Peer.ID == p }); i >= 0 {
			peer = contacts[i].Peer
		}
		c.owners = append(c.owners, peer)
	}
	now := f.clock.Now()
	if f.cfg.Filter {
		s.goOver(e.Branch, now)
		f.listen(s, now)
		f.keepTopic(s)
	}
	f.sendReports(s, now)
}

// mates are those with whom a node keeps in touch for a shard's topic.
func (s *shard) mates(self env.PeerID) (of []env.Peer) {
	for _, p := range s.charter.owners {
		if p.ID != self {
			of = append(of, p)
		}
	}
	for _, p := range s.met {
		of = append(of, p)
	}
	slices.SortFunc(of, func(a, b env.Peer) int { return bytes.Compare([]byte(a.ID), []byte(b.ID)) })
	return slices.CompactFunc(of, func(a, b env.Peer) bool { return a.ID == b.ID })
}

func samePeers(a, b []env.Peer) bool {
	return slices.EqualFunc(a, b, func(a, b env.Peer) bool { return a.ID == b.ID && slices.Equal(a.Addrs, b.Addrs) })
}
