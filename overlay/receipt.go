package overlay

import (
	"encoding/binary"
	"slices"
	"time"

	"tidings/internal/wire"
	"tidings/overlay/overlaypb"
)

// Receipts, and what their origin believes. A member on the way of a message can swallow it, or acknowledge it in the root's
// place (Castro et al., Secure routing for structured peer-to-peer overlay networks, OSDI 2002, §5). The root signs its
// receipt. The origin judges by the density of ids whether the root is near enough to the key, and makes a lookup if it
// doubts this or if two tries brought no receipt. The message then goes directly to the nearest members that were found.

const (
	// maxNearer is how many members may be expected nearer to a key than the one whose receipt is
	// believed without a lookup. Of true roots, one in 150 is farther away than that.
	maxNearer = 5
	// lookUpFrom is the number of tries, or of messages with the same payload, that are sent along the
	// table before a lookup. A first try is lost now and then without liars.
	lookUpFrom = 2
	// alarmTime is how long a node checks all receipts by lookups after one of them was false. A receipt of
	// a liar that is near enough to the key may be believed before that, so the time is long.
	alarmTime = 24 * time.Hour
	// lookUpAgain is the age from which on the members that a lookup has found are no reason to doubt a receipt, because one
	// of them may have died since, or another one joined. The next receipt that disagrees then waits for another lookup.
	lookUpAgain = 10 * time.Second
	// nearestTried is the number of nearest members to which a message is sent in turn after a lookup.
	nearestTried = 3
)

// receipts signs the receipts of this node, and knows how those of others are judged.
type receipts struct {
	counts       *counts
	lookups      *lookups
	proofs       *proofs
	signer       *wire.Signer
	verify       wire.Verifier
	alarmedUntil time.Time // until when all receipts are checked
}

// routeCheck is what an origin knows of the way of its message.
type routeCheck struct {
	anyTaker bool           // any member on the way may take the message over
	digest   uint64         // of layer, key and payload
	repeats  int            // earlier messages with this digest
	looking  bool           // a lookup is under way
	claim    *overlaypb.Ack // a receipt that waits for the lookup
	claimant *Contact       // whose receipt it is
	nearest  []*Contact     // what the last lookup has found; nil: there was none
	foundAt  time.Time      // when it found that
	direct   int            // times that the message was sent to one of them
}

// receiptBytes returns what the receipt of a message signs.
func receiptBytes(id uint64, key ID) []byte {
	return append(binary.BigEndian.AppendUint64(nil, id), key[:]...)
}

// sign returns this node's receipt of a message. It is not signed if the message came from its origin directly, because
// links are authenticated.
func (rc *receipts) sign(rs *routeState) *overlaypb.Ack {
	self := rc.counts.self
	a := &overlaypb.Ack{Id: rs.id, Try: rs.try, Receipt: true, Root: self.ID[:], Hops: uint32(rs.msg.Hops)}
	if rs.msg.Hops > 1 {
		a.Record, a.Signature = self.Raw, rc.signer.Signature(wire.DomainReceipt, receiptBytes(rs.id, rs.msg.Key))
	}
	return a
}

// signerOf returns the member whose receipt it is, or nil if it is not of the member that it names. A client is no root: its
// id costs nothing in any network.
func (rc *receipts) signerOf(rs *routeState, from *peer, a *overlaypb.Ack) *Contact {
	if c := from.contact; c != nil && c.Member && c.ID == ID(a.Root) {
		return c
	}
	c, err := rc.counts.OpenRecord(a.Record)
	if err != nil || !c.Member || c.ID != ID(a.Root) {
		return nil
	}
	key, err := wire.PublicKeyOf(c.Peer.ID)
	if err == nil {
		_, err = rc.verify.Open(wire.DomainReceipt, wire.Envelope(key, receiptBytes(rs.id, rs.msg.Key), a.Signature))
	}
	if err != nil {
		return nil
	}
	return c
}

// mayBeRoot says whether a member may be the root of a message after the lookup of its key. Only members that have
// proven their addresses are found by lookups, so without a proof it may not be nearer than those.
func (rt *router) mayBeRoot(rs *routeState, c *Contact) bool {
	nearest := rs.nearest[0]
	return c.ID == nearest.ID || Nearer(rs.msg.Key, c.ID, nearest.ID) && !rt.receipts.proofs.needed(c)
}

// judge says whether a receipt ends the tries of one of this node's own messages now. If that takes a lookup, the receipt
// waits for it.
func (rt *router) judge(rs *routeState, from *peer, a *overlaypb.Ack) bool {
	rc, now := rt.receipts, rt.clock.Now()
	root := rc.signerOf(rs, from, a)
	switch {
	case root == nil:
		rt.disbelieve(now)
		return false
	case rs.anyTaker:
		return true
	case rs.nearest != nil && rt.mayBeRoot(rs, root):
		return true
	case rs.nearest != nil && now.Sub(rs.foundAt) < lookUpAgain:
		rt.disbelieve(now)
		return false
	case rs.nearest != nil: // doubted below
	case !now.Before(rc.alarmedUntil) && !rc.proofs.needed(root) &&
		rc.counts.estimateSize()*idSpaceShare(rs.msg.Key, root.ID) <= maxNearer && !rt.knowsNearer(rs.msg.Key, root.ID):
		return true
	}
	if rs.claim == nil || Nearer(rs.msg.Key, root.ID, rs.claimant.ID) {
		rs.claim, rs.claimant = a, root
	}
	rt.lookUp(rs)
	return false
}

// knowsNearer says whether this node knows a live member that is nearer to a key than another one.
func (rt *router) knowsNearer(key, than ID) bool {
	return Nearer(key, rt.self.ID, than) && rt.self.Member || slices.ContainsFunc(rt.peers.all, func(p *peer) bool {
		return p.contact != nil && p.contact.Member && !p.suspect && Nearer(key, p.contact.ID, than)
	})
}

// disbelieve notes a false receipt.
func (rt *router) disbelieve(now time.Time) {
	rt.stats.Unbelieved++
	rt.receipts.alarmedUntil = now.Add(alarmTime)
}

// lookUp finds the members nearest to the key of one of this node's own messages, unless a lookup has found them lately.
func (rt *router) lookUp(rs *routeState) {
	if rs.looking || rs.nearest != nil && rt.clock.Now().Sub(rs.foundAt) < lookUpAgain {
		return
	}
	rs.looking = true
	rt.stats.Checked++
	rt.receipts.lookups.Lookup(rs.msg.Key, nearestTried, func(l Lookup) {
		rs.looking = false
		if rs.done == nil {
			return
		}
		if len(l.Nearest) > 0 {
			rs.nearest, rs.foundAt = l.Nearest, rt.clock.Now()
		}
		if a := rs.claim; a != nil && (rs.nearest == nil || rt.mayBeRoot(rs, rs.claimant)) {
			rs.receipt = a
			rt.finish(rs)
			return
		} else if a != nil {
			rs.claim, rs.claimant = nil, nil
			rt.disbelieve(rt.clock.Now())
		}
		rt.nextTry(rs)
	})
}

// sendToNearest sends a message directly to one of the nearest members, in turn. It returns false if none is known.
func (rt *router) sendToNearest(rs *routeState) bool {
	if len(rs.nearest) == 0 {
		return false
	}
	c := rs.nearest[rs.direct%len(rs.nearest)]
	if rs.direct++; c.ID == rt.self.ID {
		return false
	}
	p := rt.ensureContact(c)
	rt.sendToHop(rs, p)
	rt.forget(p)
	return true
}
