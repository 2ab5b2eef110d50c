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

// A claim is an epoch that a test forges. A test has the private keys of all members of its world.
type claim struct {
	url       string
	branch    uint64
	number    uint32
	sequencer *member
	owners    []*member
	also      []*member // further signers besides the owners
	unsigned  int       // number of owners, from the first on, that do not sign
	at        time.Time
	after     *owner.Entry // nil: it continues from nothing
}

// epoch encodes and signs a claim.
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
	e := &ownerpb.Epoch{Statement: wire.Encode(m)}
	hash := owner.HashOf(e.Statement)
	for _, o := range slices.Concat(c.owners[c.unsigned:], c.also) {
		e.Signatures = append(e.Signatures, w.signer(o).Sign(wire.DomainEpoch, hash[:]).Raw)
	}
	return e
}

// entry forges an entry of a log and its body, which is a number as append makes them.
func (w *world) entry(url string, by *member, at owner.Position, prev owner.Hash, id byte) (raw, body []byte) {
	key, body := w.key(url), []byte{0, 0, 0, id}
	hash, set := owner.HashOf(body), sum(at.Seq, 1, w.Now())
	m := &ownerpb.EntryStatement{
		Key: key[:], Position: &ownerpb.Position{Branch: at.Branch, Epoch: at.Epoch, Seq: at.Seq}, TimeMs: uint64(w.Now().UnixMilli()),
		Body: hash[:], Size: uint32(len(body)), Items: 1, Set: set[:],
	}
	if prev != (owner.Hash{}) {
		m.Prev = prev[:]
	}
	return w.signer(by).Sign(wire.DomainEntry, wire.Encode(m)).Raw, body
}

func (w *world) signer(m *member) *wire.Signer { return wire.NewSigner(m.Key(), w.hash) }

// hears hands a member a message as if a peer had sent it.
func (m *member) hears(from *sim.Host, msg *ownerpb.Message) {
	m.w.t.Helper()
	m.Do(func() {
		if err := m.owners.Receive(from.ID(), wire.Encode(msg)); err != nil {
			m.w.t.Fatal(err)
		}
	})
}

func commitOf(e *ownerpb.Epoch) *ownerpb.Message {
	return &ownerpb.Message{Body: &ownerpb.Message_Commit{Commit: &ownerpb.Commit{Epoch: e}}}
}

// strangers are hosts that are not members and do nothing by themselves. Members believe that they own a key, as long
// as no node near the key is asked.
func (w *world) strangers(n int) (of []*member) {
	for range n {
		of = append(of, &member{Host: w.Host(sim.HostConfig{Open: true}), w: w})
	}
	return of
}

// claims makes a stranger answer every pull with an epoch.
func (m *member) claims(epoch *ownerpb.Epoch) {
	m.Boot(func(e env.Env) env.Node { return &faker{e.Network, epoch} })
}

// A word is a message that a member has sent.
type word struct {
	to  env.PeerID
	at  time.Time
	msg *ownerpb.Message
}

// overheard collects the messages of this layer that a member sends from now on.
func (m *member) overheard() *[]word {
	words := new([]word)
	m.tap = func(to env.PeerID, msg *ownerpb.Message) { *words = append(*words, word{to, m.w.Now(), msg}) }
	return words
}

// commits counts the messages to a host that tell of an epoch.
func commits(words []word, to *sim.Host, e *ownerpb.Epoch) (n int) {
	for _, w := range words {
		if w.to == to.ID() && bytes.Equal(w.msg.GetCommit().GetEpoch().GetStatement(), e.Statement) {
			n++
		}
	}
	return n
}

// A tap shows a test what a member sends.
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

// A channel is one channel of a world, with the members that take part in its log.
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

// branch is the branch in which a member knows a channel; 0 if it knows none.
func (m *member) branch(key overlay.ID) uint64 {
	if v, _ := m.owners.View(key); v.Epoch != nil {
		return v.Epoch.Branch
	}
	return 0
}

// wire returns an epoch as it is sent.
func (w *world) wire(e *owner.Epoch) *ownerpb.Epoch {
	m := new(ownerpb.Epoch)
	if err := proto.Unmarshal(e.Bytes(), m); err != nil {
		w.t.Fatal(err)
	}
	return m
}
