package sim

import (
	"google.golang.org/protobuf/proto"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/owner"
	"tidings/overlay/owner/ownerpb"
)

// OwnerLies selects how a host lies to the other owners of a key. The zero value is an honest host.
type OwnerLies struct {
	// Refuse: each promise becomes a refusal with a number far ahead, and no epoch is signed.
	Refuse bool
	// Campaign: OwnerLiar.Prepare asks all owners for promises of ever higher epochs.
	Campaign bool
	// Stall: no entry is acknowledged. The host becomes the sequencer when it can; then it sends no
	// entry and makes no epoch.
	Stall bool
	// Heads: each promise names an entry far ahead, signed by the host, and pulls are not answered.
	Heads bool
	// Ahead: entries that the host sends as the sequencer are dated a year ahead.
	Ahead bool
}

// An OwnerLiar is a host that lies as an owner. It runs a real node, whose messages are changed on
// their way out.
type OwnerLiar struct {
	OwnerLies
	host   *Host
	owners func() *owner.Owners
	signer *wire.Signer
	verify wire.Verifier
	ahead  uint32 // numbers that were prepared
}

// leap is how far a liar goes beyond a number. It is within what owners promise at a time.
const leap = 1 << 20

// NewOwnerLiar makes a host lie from now on. owners returns the host's logs.
func NewOwnerLiar(h *Host, network wire.Hash, owners func() *owner.Owners, lies OwnerLies) *OwnerLiar {
	l := &OwnerLiar{OwnerLies: lies, host: h, owners: owners, signer: wire.NewSigner(h.Key(), network), verify: wire.NewVerifier(network)}
	h.filterOutgoing = l.filter
	return l
}

// LieAsOwner makes a peer lie from now on.
func (p *Peer) LieAsOwner(lies OwnerLies) *OwnerLiar {
	return NewOwnerLiar(p.Host, p.swarm.hash, func() *owner.Owners { return p.node.Owners }, lies)
}

// filter returns what the host sends in place of a frame; nil: nothing.
func (l *OwnerLiar) filter(_ env.Peer, frame []byte) []byte {
	layer, body, err := wire.ParseFrame(frame)
	m := new(ownerpb.Message)
	if err != nil || layer != wire.Owner || proto.Unmarshal(body, m) != nil {
		return frame
	}
	if !l.falsify(m) {
		return nil
	}
	return wire.AppendFrame(nil, wire.Owner, m)
}

// falsify changes a message into a lie. It reports false if the message is not sent.
func (l *OwnerLiar) falsify(m *ownerpb.Message) bool {
	switch b := m.Body.(type) {
	case *ownerpb.Message_Promise:
		if l.Refuse {
			b.Promise.Refused = b.Promise.Number + leap
		}
		if l.Heads && b.Promise.Refused == 0 {
			b.Promise.Head = l.head(b.Promise)
		}
	case *ownerpb.Message_Signed:
		return !l.Refuse
	case *ownerpb.Message_ReplicateAck:
		return !l.Stall || l.leads(b.ReplicateAck.Key)
	case *ownerpb.Message_Replicate:
		if l.Ahead {
			b.Replicate.Entry = l.redate(b.Replicate.Entry)
		}
		return !l.Stall
	case *ownerpb.Message_Prepare:
		return !l.Stall || !l.leads(b.Prepare.Key)
	case *ownerpb.Message_Sign:
		var e ownerpb.EpochStatement
		return !l.Stall || proto.Unmarshal(b.Sign.Statement, &e) != nil || !l.leads(e.Key)
	case *ownerpb.Message_Entries:
		return !l.Heads
	}
	return true
}

func (l *OwnerLiar) leads(key []byte) bool {
	v, _ := l.owners().View(overlay.ID(key))
	return v.Leads
}

// head returns an entry that nobody has: the last of the epoch in force, as far as others can tell
// if the host is its sequencer.
func (l *OwnerLiar) head(p *ownerpb.Promise) []byte {
	v, _ := l.owners().View(overlay.ID(p.Key))
	e := &ownerpb.EntryStatement{
		Key: p.Key, Position: &ownerpb.Position{Branch: p.Branch, Epoch: v.Epoch.Number, Seq: v.Epoch.After.Seq + leap},
		Prev: make([]byte, len(owner.Hash{})), Body: make([]byte, len(owner.Hash{})), Set: make([]byte, len(owner.Hash{})),
		TimeMs: uint64(l.host.world.Now().UnixMilli()), Size: 1, Items: 1,
	}
	e.Prev[0], e.Body[0], e.Set[0] = 1, 1, 1
	return l.signer.Sign(wire.DomainEntry, wire.Encode(e)).Raw
}

// redate returns an entry with a date a year later, if the host has signed it.
func (l *OwnerLiar) redate(raw []byte) []byte {
	of, err := l.verify.Open(wire.DomainEntry, raw)
	e := new(ownerpb.EntryStatement)
	if err != nil || wire.PeerIDOf(of.Key) != l.signer.PeerID() || proto.Unmarshal(of.Payload, e) != nil {
		return raw
	}
	e.TimeMs += 365 * 24 * 3600 * 1000
	return l.signer.Sign(wire.DomainEntry, wire.Encode(e)).Raw
}

// Prepare asks the owners of each key that the host owns for a promise of a higher epoch than before.
func (l *OwnerLiar) Prepare() {
	if !l.Campaign || !l.host.Up() {
		return
	}
	l.ahead += 1 << 10
	for _, key := range l.owners().Keys() {
		v, _ := l.owners().View(key)
		if !v.Owns {
			continue
		}
		m := &ownerpb.Message{Body: &ownerpb.Message_Prepare{Prepare: &ownerpb.Prepare{Key: key[:], Branch: v.Epoch.Branch, Number: v.Epoch.Number + l.ahead}}}
		for _, p := range v.Epoch.Owners {
			if to := l.host.world.byID[p]; to != nil && to != l.host {
				l.host.queueFrame(to.Peer(), env.Control, wire.AppendFrame(nil, wire.Owner, m))
			}
		}
	}
}
