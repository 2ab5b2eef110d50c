package owner_test

import (
	"bytes"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/owner"
	"tidings/overlay/owner/ownerpb"
	"tidings/sim"
)

// A test has the private keys of all members of its world: it can make up what they sign.

// A claim is an epoch that a test makes up.
type claim struct {
	url       string
	branch    uint64
	number    uint32
	sequencer *member
	owners    []*member
	also      []*member // who signs besides the owners
	unsigned  int       // the first so many owners do not sign
	at        time.Time
	after     *owner.Entry // nil: it goes on from nothing
}

// epoch makes a claim an epoch with its signatures.
func (w *world) epoch(c claim) *ownerpb.Epoch {
	key := w.key(c.url)
	m := &ownerpb.EpochStatement{
		Key: key[:], Url: c.url, Branch: c.branch, Number: c.number,
		Sequencer: w.signer(c.sequencer).Public(), TimeMs: uint64(c.at.UnixMilli()),
	}
	for _, o := range c.owners {
		m.Owners = append(m.Owners, w.signer(o).Public())
	}
	if c.after != nil {
		m.After, m.AfterHash = &ownerpb.Position{Branch: c.after.At.Branch, Epoch: c.after.At.Epoch, Seq: c.after.At.Seq}, c.after.Hash[:]
	}
	e := &ownerpb.Epoch{Statement: w.encoded(m)}
	hash := owner.HashOf(e.Statement)
	for _, o := range slices.Concat(c.owners[c.unsigned:], c.also) {
		e.Signatures = append(e.Signatures, w.signer(o).Sign(wire.DomainEpoch, hash[:]).Raw)
	}
	return e
}

// entry makes up an entry of a log and its body, a number as append makes them.
func (w *world) entry(url string, by *member, at owner.Position, prev owner.Hash, id byte) (raw, body []byte) {
	key, body := w.key(url), []byte{0, 0, 0, id}
	hash, set := owner.HashOf(body), sum(at.Seq, 1)
	m := &ownerpb.EntryStatement{
		Key: key[:], Position: &ownerpb.Position{Branch: at.Branch, Epoch: at.Epoch, Seq: at.Seq}, TimeMs: uint64(w.Now().UnixMilli()),
		Body: hash[:], Size: uint32(len(body)), Items: 1, Set: set[:],
	}
	if prev != (owner.Hash{}) {
		m.Prev = prev[:]
	}
	return w.signer(by).Sign(wire.DomainEntry, w.encoded(m)).Raw, body
}

func (w *world) signer(m *member) *wire.Signer { return wire.NewSigner(m.Key(), w.hash) }

func (w *world) encoded(m proto.Message) []byte {
	b, err := proto.Marshal(m)
	if err != nil {
		w.t.Fatal(err)
	}
	return b
}

// hears hands a member a message as if a peer had sent it.
func (m *member) hears(from *sim.Host, msg *ownerpb.Message) {
	m.w.t.Helper()
	m.Do(func() {
		if err := m.owners.Receive(from.ID(), m.w.encoded(msg)); err != nil {
			m.w.t.Fatal(err)
		}
	})
}

func install(e *ownerpb.Epoch) *ownerpb.Message {
	return &ownerpb.Message{Body: &ownerpb.Message_Commit{Commit: &ownerpb.Commit{Epoch: e}}}
}

// strangers are hosts who are no members and do nothing by themselves. Members believe that they
// own a key, as long as nobody looks who is near it.
func (w *world) strangers(n int) (of []*member) {
	for range n {
		of = append(of, &member{Host: w.Host(sim.HostConfig{Open: true}), w: w})
	}
	return of
}

// claims makes a stranger say of an epoch, to all who pull, that it is in force.
func (m *member) claims(epoch *ownerpb.Epoch) {
	m.Boot(func(e env.Env) env.Node { return &faker{e.Network, epoch} })
}

// A word is what a member says to another.
type word struct {
	to  env.PeerID
	at  time.Time
	msg *ownerpb.Message
}

// overheard are the words of owner's that a member says from now on.
func (m *member) overheard() *[]word {
	words := new([]word)
	m.tap = func(to env.PeerID, msg *ownerpb.Message) { *words = append(*words, word{to, m.w.Now(), msg}) }
	return words
}

// installs counts the words that tell somebody of an epoch.
func installs(words []word, to *sim.Host, e *ownerpb.Epoch) (n int) {
	for _, w := range words {
		if w.to == to.ID() && bytes.Equal(w.msg.GetCommit().GetEpoch().GetStatement(), e.Statement) {
			n++
		}
	}
	return n
}

// A tap lets a test hear what a member sends.
type tap struct {
	env.Network
	m *member
}

// Send implements env.Network.
func (n tap) Send(to env.Peer, class env.Class, frame []byte) {
	if layer, body, err := wire.ParseFrame(frame); n.m.tap != nil && err == nil && layer == wire.Owner {
		msg := new(ownerpb.Message)
		if err := proto.Unmarshal(body, msg); err != nil {
			n.m.w.t.Fatal(err)
		}
		n.m.tap(to.ID, msg)
	}
	n.Network.Send(to, class, frame)
}

// A channel is one of a world's, with who has to do with it.
type channel struct {
	url   string
	key   overlay.ID
	epoch *owner.Epoch // in force
	lead  *member
	also  []*member // the other owners, nearest first
	other []*member // the other members, nearest first
}

func (w *world) channel(i int) channel {
	c := channel{url: w.urls[i], key: w.key(w.urls[i])}
	if c.lead = w.leader(c.key); c.lead == nil {
		w.t.Fatalf("%s: nobody leads it", c.url)
	}
	v, _ := c.lead.owners.View(c.key)
	c.epoch = v.Epoch
	for _, m := range w.sorted(c.key) {
		switch {
		case m == c.lead:
		case slices.Contains(v.Epoch.Owners, m.ID()):
			c.also = append(c.also, m)
		default:
			c.other = append(c.other, m)
		}
	}
	return c
}

// lineage is the one in which a member knows a channel, 0 if it knows none.
func (m *member) lineage(key overlay.ID) uint64 {
	if v, _ := m.owners.View(key); v.Epoch != nil {
		return v.Epoch.Branch
	}
	return 0
}

// wire is an epoch as it is sent.
func (w *world) wire(e *owner.Epoch) *ownerpb.Epoch {
	m := new(ownerpb.Epoch)
	if err := proto.Unmarshal(e.Bytes(), m); err != nil {
		w.t.Fatal(err)
	}
	return m
}
