package overlay

import (
	"slices"
	"time"

	"tidings/internal/env"
)

// neighbours are the peers that a node knows, and the places that they have: in its leaf, in its
// table, or as members that act for it while it is a client.
type neighbours struct {
	*base
	peers       peerList
	unplaced    []env.PeerID // peers without a place, the oldest first
	leaf        *LeafSet
	leafChanged bool // LeafChanged has to be called
	table       table
	hosts       []*peer // members that act for this client
	hasClients  bool    // there may be clients that this member acts for
}

func newNeighbours(b *base) *neighbours {
	return &neighbours{
		base:  b,
		leaf:  newLeafSet(b.self, b.cfg.Network.LeafSplit, b.cfg.Network.LeafMerge),
		table: table{self: b.self.ID},
	}
}

// ensurePeer returns the state of a peer, and creates it if there is none.
func (ns *neighbours) ensurePeer(id env.PeerID) *peer {
	p := ns.peers.get(id)
	if p == nil {
		p = &peer{id: id}
		ns.peers.add(p)
	}
	return p
}

// ensureContact updates the state of a node with a verified record. A member that has become a
// client keeps its places; Node.meet removes it from them.
func (ns *neighbours) ensureContact(c *Contact) *peer {
	p, was := ns.ensurePeer(c.Peer.ID), ns.IDOf(c.Peer.ID)
	if p.contact != nil && c.Issued <= p.contact.Issued {
		return p
	}
	if was != c.ID {
		p.lastHeard = env.Never // it spoke under another id, which is no proof of this one
	}
	switch {
	case p.contact == nil:
		p.contact = c
	default:
		wasMember := p.contact.Member
		if was != c.ID && ns.leaf.Remove(was) {
			ns.leafChanged = true
		}
		if was != c.ID {
			ns.table.remove(p)
		}
		p.contact = c
		p.knowsMe = false // after a restart it has forgotten this node
		if wasMember && !c.Member {
			break
		}
		if c.Member {
			p.attached = env.Never // a member is nobody's client
		}
		if ns.leaf.Has(c.ID) != nil {
			ns.leaf.Add(c)
			ns.leafChanged = true
		}
	}
	return p
}

// tooManyCandidates reports whether the node waits for maxCandidates members.
func (ns *neighbours) tooManyCandidates() bool {
	if len(ns.peers.all) < maxCandidates {
		return false
	}
	count := 0
	for _, p := range ns.peers.all {
		if p.candidate {
			count++
		}
	}
	return count >= maxCandidates
}

// randomMember returns a random member of the leaf, or nil if that is the node itself.
func (ns *neighbours) randomMember() *peer {
	members := ns.leaf.Members()
	c := members[ns.rand.IntN(len(members))]
	if c == ns.self {
		return nil
	}
	return ns.peers.get(c.Peer.ID)
}

// hasPlace reports whether a peer has a place: in leaf or table, as a client, as a member that
// acts for this client, or as a neighbour of a layer above.
func (ns *neighbours) hasPlace(p *peer) bool {
	return p.isHost || p.watchCount > 0 || p.attached != env.Never ||
		p.contact != nil && (ns.leaf.Has(p.contact.ID) != nil || ns.table.has(p))
}

// inUse reports whether the node has any present use for a peer.
func (ns *neighbours) inUse(p *peer) bool {
	return p.candidate || p.probing || ns.hasPlace(p)
}

// forget drops the state of a peer that is not in use. It keeps the last maxUnplaced of these.
func (ns *neighbours) forget(p *peer) {
	if ns.inUse(p) {
		return
	}
	ns.unplaced = append(ns.unplaced, p.id)
	if len(ns.unplaced) <= maxUnplaced {
		return
	}
	id := ns.unplaced[0]
	ns.unplaced = ns.unplaced[1:]
	if slices.Contains(ns.unplaced, id) {
		return
	}
	if q := ns.peers.get(id); q != nil && !ns.inUse(q) {
		ns.peers.remove(id)
	}
}

// maxUnplaced is the number of peers without a place that are remembered, so that their record
// and round-trip time need not be learned again with each message.
const maxUnplaced = 8

// Contact returns the record of a peer that the node knows, or nil.
func (ns *neighbours) Contact(id env.PeerID) *Contact {
	if p := ns.peers.get(id); p != nil {
		return p.contact
	}
	return nil
}

// IDOf returns the id of a peer as its last record gives it. For a peer whose record the node does not have, it is the hash of the
// peer's key, which is its id only in a network of key ids, or if it is a client.
func (ns *neighbours) IDOf(peer env.PeerID) ID {
	if peer == ns.self.Peer.ID {
		return ns.self.ID
	}
	if c := ns.Contact(peer); c != nil {
		return c.ID
	}
	return NodeID(ns.cfg.Network.Name, peer)
}

// Proof returns the node's record in a network whose ids do not follow from keys, for a message to a node that may not have
// it; otherwise nil.
func (ns *neighbours) Proof() []byte {
	if !ns.IDsCost() {
		return nil
	}
	return ns.self.Raw
}

// IDWith returns the id of a member, whose message came with its Proof.
func (b *base) IDWith(peer env.PeerID, proof []byte) (ID, error) {
	if !b.IDsCost() && len(proof) == 0 {
		return NodeID(b.cfg.Network.Name, peer), nil
	}
	c, err := b.OpenMember(proof)
	if err == nil && c.Peer.ID != peer {
		err = ErrRecord
	}
	if err != nil {
		return ID{}, err
	}
	return c.ID, nil
}

// RTO returns the time after which an answer of a peer counts as missing.
func (ns *neighbours) RTO(id env.PeerID) time.Duration {
	if p := ns.peers.get(id); p != nil {
		return p.rto()
	}
	return initialRTO
}

// Hosts returns the members that act for this node while it is a client.
func (ns *neighbours) Hosts() []*Contact {
	var contacts []*Contact
	for _, p := range ns.hosts {
		contacts = append(contacts, p.contact)
	}
	return contacts
}

// Leaf returns the node's leaf. The caller must neither change nor keep it.
func (ns *neighbours) Leaf() *LeafSet { return ns.leaf }

// nearestKnown returns the k members nearest to a key among leaf and table.
func (ns *neighbours) nearestKnown(key ID, k int) []*Contact {
	return nearestN(slices.Concat(ns.leaf.Members(), ns.Contacts()), key, k)
}

// Contacts returns one contact of each slot of the table beyond the leaf.
func (ns *neighbours) Contacts() (contacts []*Contact) {
	ns.table.each(ns.leaf.Depth(), func(_, _ int, s *slot) {
		if s.contact != nil {
			contacts = append(contacts, s.contact.contact)
		}
	})
	return contacts
}

// Partners returns the peers that this node needs: the members of its leaf and table, and its
// hosts and clients.
func (ns *neighbours) Partners() map[env.PeerID]bool {
	partners := map[env.PeerID]bool{}
	for _, contacts := range [][]*Contact{ns.Contacts(), ns.leaf.Members(), ns.Hosts()} {
		for _, c := range contacts {
			partners[c.Peer.ID] = true
		}
	}
	for _, p := range ns.clientList() {
		partners[p.contact.Peer.ID] = true
	}
	return partners
}

// Slots returns the slots beyond the leaf, from the first row on.
func (ns *neighbours) Slots() (slots []Slot) {
	ns.table.each(ns.leaf.Depth(), func(row, col int, s *slot) {
		slot := Slot{Row: row, Column: col}
		if s.contact != nil {
			slot.Contact = s.contact.contact.ID
		}
		slots = append(slots, slot)
	})
	return slots
}

// A Slot describes a slot of the routing table, which is for members that share Row digits
// with the node and have digit Column next.
type Slot struct {
	Row, Column int
	Contact     ID // zero: no contact is known
}

// memberInSlot returns a member in slot (row, col). If there are two it returns the one nearer
// to the point of the asking node's slot. empty says that no member exists there, which is
// known only if the leaf holds the slot.
func (ns *neighbours) memberInSlot(row, col int, asker ID) (c *Contact, empty bool) {
	if ns.table.beyond(row, col, ns.leaf.Depth()) {
		s := &ns.table.rows[row][col]
		point := ns.table.prefix(row, col, asker)
		switch {
		case s.contact == nil:
			return nil, false
		case s.spare != nil && Nearer(point, s.spare.contact.ID, s.contact.contact.ID):
			return s.spare.contact, false
		}
		return s.contact.contact, false
	}
	for _, c := range ns.leaf.Members() { // the slot lies inside the leaf
		if c.ID.Common(ns.self.ID) >= 4*row && c.ID.Digit(row) == col {
			return c, false
		}
	}
	return nil, true
}

func contactOf(p *peer) *Contact {
	if p == nil {
		return nil
	}
	return p.contact
}

// Across returns a live member on the other side of bit d: one whose id shares exactly the
// first d bits with the node's id. The candidates are the members of the leaf, or, beyond the
// leaf, the contacts and spares of all slots of that half. The same pick returns the same
// member as long as that member is known, and rendezvous hashing spreads different picks
// evenly over the candidates. Members in except are skipped, and suspects are returned only if
// there is nobody else. Across returns nil if it knows no candidate.
func (ns *neighbours) Across(d int, pick uint64, except ...env.PeerID) *Contact {
	var best *peer
	var most uint64
	consider := func(p *peer) {
		if p == nil || p.contact == nil || slices.Contains(except, p.id) {
			return
		}
		score := env.Mix(pick ^ env.Mix(p.contact.ID.prefix64()))
		if best == nil || best.suspect && !p.suspect || best.suspect == p.suspect && score > most {
			best, most = p, score
		}
	}
	switch {
	case ns.state != Active || d < 0 || d >= Bits:
		return nil
	case d >= ns.leaf.Depth():
		for _, c := range ns.leaf.Members() {
			if ns.self.ID.Common(c.ID) == d {
				consider(ns.peers.get(c.Peer.ID))
			}
		}
	default:
		row := d / 4
		for col := range ns.table.rows[row] {
			if ns.table.beyond(row, col, ns.leaf.Depth()) && ns.table.common(row, col) == d {
				s := &ns.table.rows[row][col]
				consider(s.contact)
				consider(s.spare)
			}
		}
	}
	if best == nil {
		return nil
	}
	return best.contact
}

// RTT returns the smoothed round-trip time to a peer, or zero if it was never measured.
func (ns *neighbours) RTT(id env.PeerID) time.Duration {
	if p := ns.peers.get(id); p != nil {
		return p.rtt.duration()
	}
	return 0
}
