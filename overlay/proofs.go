package overlay

import (
	"net/netip"
	"time"

	"tidings/internal/env"
	"tidings/internal/wire"
)

const (
	// proofTime is how long a proof counts. A member that moves to another block signs another record,
	// and has to prove that.
	proofTime = time.Hour
	// maxProofs bounds the members whose proofs are remembered. The oldest half is forgotten, and has to prove its
	// addresses again.
	maxProofs = 2048
	// maxProving bounds the members that are dialled at the same time, besides those that prove the same block again:
	// otherwise liars that nobody can reach would make a node lose its whole leaf. Messages of others are dropped meanwhile;
	// they will be repeated.
	maxProving = 64
)

// proofs knows, in a network of address ids, which members were reached at an address of the block that their id is
// made of. Each node finds this out itself: a proof that others sign would need others to be trusted. A member's messages
// count only with a proof, so a member without one gets no place in leaf or table and answers no lookup.
type proofs struct {
	*base
	prover  env.Prover
	young   map[env.PeerID]proof
	old     map[env.PeerID]proof // the previous content of young, from when it was full
	proving map[env.PeerID][]byte
}

type proof struct {
	block netip.Prefix
	at    time.Time
}

// needed reports whether a member has to prove its addresses before its messages count.
func (ps *proofs) needed(c *Contact) bool {
	if ps.cfg.Network.IDs != wire.AddressIDs || !c.Member {
		return false
	}
	got := ps.last(c)
	return got.block != c.Block || ps.clock.Now().Sub(got.at) > proofTime
}

// last returns the last proof of a member, which may be of another block.
func (ps *proofs) last(c *Contact) proof {
	if got, ok := ps.young[c.Peer.ID]; ok {
		return got
	}
	return ps.old[c.Peer.ID]
}

// prove has a member dialled at its addresses. message is the last message that waits for this; again takes it
// when the member was reached.
func (ps *proofs) prove(c *Contact, message []byte, again func(from env.PeerID, message []byte)) {
	id := c.Peer.ID
	if _, ok := ps.proving[id]; ok {
		ps.proving[id] = message
		return
	}
	if len(ps.proving) >= maxProving && ps.last(c).block != c.Block {
		ps.stats.Unproven++
		return
	}
	ps.proving[id] = message
	ps.prover.Prove(c.Peer, func(addr string) {
		waiting := ps.proving[id]
		delete(ps.proving, id)
		if block := BlockOf(addressOf(addr)); !block.IsValid() || block != c.Block {
			ps.stats.Unproven++
			return
		}
		if len(ps.young) >= maxProofs/2 {
			ps.old, ps.young = ps.young, map[env.PeerID]proof{}
		}
		ps.young[id] = proof{c.Block, ps.clock.Now()}
		again(id, waiting)
	})
}
