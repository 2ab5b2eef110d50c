package owner

import (
	"math/rand/v2"
	"time"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/owner/ownerpb"
)

// A base is what all components build on.
type base struct {
	*timers
	*peers
	replicas *replicas
}

// A timers holds what the components of an Owners plan. They share one calendar, so that tasks that are due at the same
// time run in the order in which they were planned, whichever component planned them.
type timers struct {
	clock env.Clock
	rand  *rand.Rand
	cal   env.Calendar[task]
	ahead map[env.PeerID]time.Duration // how far the clocks of other members are ahead of this one, as they have told it
}

type task struct {
	kind taskKind
	key  overlay.ID
}

type taskKind uint8

const (
	taskCampaign        taskKind = iota // start a candidacy
	taskRetryCandidacy                  // repeat a candidacy's requests
	taskStartWaiting                    // start campaigns that wait for a slot
	taskRetryReplicate                  // send an entry again
	taskRetryPull                       // repeat a pull's request
	taskHeartbeat                       // send heartbeats
	taskContactRival                    // contact another branch again
	taskLookUpAgain                     // a lookup has expired; pull from the informant
	taskCheckAllOwners                  // check all owners after a change of the leaf
	taskCheckOwners                     // check the owners of a key after an epoch was committed
	taskHandOverTimeout                 // end a hand-over without progress
	taskResume                          // lead the next keys that a former run led
)

// after plans a task and returns its time.
func (t *timers) after(d time.Duration, what task) time.Time {
	at := t.clock.Now().Add(d)
	t.cal.Add(at, what)
	return at
}

// A peers knows the other nodes: it sends messages to them, and tells which members are near a key.
type peers struct {
	node   *overlay.Node
	net    env.Network
	self   env.PeerID
	owners int // number of owners of a key
	nonce  uint64
	stats  *Stats
}

// send sends a message to a peer, whose addresses the overlay knows.
func (p *peers) send(to env.PeerID, m *ownerpb.Message) { p.sendTo(p.peer(to), m) }

func (p *peers) sendTo(to env.Peer, m *ownerpb.Message) {
	class := env.Control
	switch m.Body.(type) {
	case *ownerpb.Message_Entries, *ownerpb.Message_Chunk:
		class = env.Bulk
	}
	p.stats.Control++
	p.net.Send(to, class, wire.AppendFrame(nil, wire.Owner, m))
}

// sendOthers sends a message to those of some peers that are not this node.
func (p *peers) sendOthers(to []env.PeerID, m *ownerpb.Message) {
	for _, id := range to {
		if id != p.self {
			p.send(id, m)
		}
	}
}

func (p *peers) sendReplicateAck(e *Entry, to ...env.PeerID) {
	p.sendOthers(to, &ownerpb.Message{Body: &ownerpb.Message_ReplicateAck{ReplicateAck: &ownerpb.ReplicateAck{Key: e.Key[:], Hash: e.Hash[:]}}})
}

// sendCommit tells a peer of the epoch in force.
func (p *peers) sendCommit(to env.PeerID, s *replica) {
	p.send(to, &ownerpb.Message{Body: &ownerpb.Message_Commit{Commit: s.commit()}})
}

// nextNonce returns a number for a request that no earlier one has.
func (p *peers) nextNonce() uint64 {
	p.nonce++
	return p.nonce
}

// peer returns a peer with its known addresses.
func (p *peers) peer(id env.PeerID) env.Peer {
	if c := p.contact(id); c != nil {
		return c.Peer
	}
	return env.Peer{ID: id}
}

// contact returns the known record of a peer; nil if there is none.
func (p *peers) contact(id env.PeerID) *overlay.Contact {
	if id == p.self {
		return p.node.Self()
	}
	if c := p.node.Contact(id); c != nil {
		return c
	}
	return p.node.Leaf().Has(p.id(id))
}

// id returns the overlay id of a peer.
func (p *peers) id(peer env.PeerID) overlay.ID { return p.node.IDOf(peer) }

// keyOf returns the key of a URL.
func (p *peers) keyOf(url string) overlay.ID { return overlay.Key(p.node.Network(), url) }

// alive reports whether a peer is a member of the leaf.
func (p *peers) alive(id env.PeerID) bool { return p.node.Leaf().Has(p.id(id)) != nil }

// living counts the owners that are alive, including this node.
func (p *peers) living(owners []env.PeerID) (n int) {
	for _, id := range owners {
		if id == p.self || p.alive(id) {
			n++
		}
	}
	return n
}

// outsideLeaf reports whether a key lies outside this node's leaf, so that this node does not know its owners.
func (p *peers) outsideLeaf(key overlay.ID) bool {
	return p.node.State() != overlay.Active || !p.node.Leaf().Covers(key)
}

// nearest returns the members nearest to a key that are not passed over, as many as own a key; nil if the key lies
// outside the leaf.
func (p *peers) nearest(key overlay.ID, passOver func(env.PeerID) bool) (of []env.PeerID) {
	if p.outsideLeaf(key) {
		return nil
	}
	for _, c := range p.node.NearestOwners(key, p.owners, passOver) {
		of = append(of, c.Peer.ID)
	}
	return of
}

// ownersNearKey reports whether the owners of an epoch are as near to the key as owners in a network of this size
// are. To forge one owner, an attacker has to generate about as many keys as there are members. Where ids do not follow from
// keys, only the members of the leaf have ids that this node knows; for a key outside it, only a lookup tells.
func (p *peers) ownersNearKey(e *Epoch) bool { return p.ownersNear(e, p.node.Stats().EstimatedN) }

// ownersNear is ownersNearKey in a network of n members.
func (p *peers) ownersNear(e *Epoch, n int) bool {
	costly := p.node.IDsCost()
	if n < 64 || costly && p.outsideLeaf(e.Key) {
		return true // in a small network owners can be nearly anywhere
	}
	// The nearest eight of n members share about log2(n)-3 bits with the key. A set that shares five bits less
	// than that was not the nearest.
	want := -8
	for ; n > 1; n /= 2 {
		want++
	}
	return majority(e.Owners, func(id env.PeerID) bool {
		return (!costly || p.alive(id)) && p.id(id).Common(e.Key) >= want
	})
}
