package relay

import (
	"fmt"
	"math/rand/v2"
	"time"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/relay/relaypb"
)

// Stats counts what a Relay did since it started.
type Stats struct {
	Circuits  int    // circuits that lead through this node, or end here as their exit
	Guests    int    // guests that have sent this node a frame through another exit
	Tunnels   int    // circuits that this node has opened as a reader
	Opened    uint64 // circuits opened as a reader, successfully
	Failed    uint64 // circuits that did not open, or fell silent
	Declined  uint64 // circuits and guests declined because there was no room for them, or a guest's voucher was too old
	Carried   uint64 // sealed frames passed on as the middle
	Bytes     uint64 // bytes of those
	Exited    uint64 // frames passed on as the exit, in both directions
	Throttled uint64 // sealed frames dropped because a circuit, or all together, had sent too much
	TooLarge  uint64 // frames dropped because they are larger than a circuit carries
	Garbage   uint64 // messages that broke the protocol
}

// common is what the components of a Relay share.
type common struct {
	clock  env.Clock
	net    env.Network
	rand   *rand.Rand
	node   *overlay.Node
	signer *wire.Signer
	verify wire.Verifier
	self   env.PeerID
	stats  Stats
	// receive passes the frame of a guest to the layers of this node.
	receive func(from env.PeerID, frame []byte) error
}

// A Relay is one node's part in all circuits. It is not safe for concurrent use.
type Relay struct {
	*common
	tunnels  *tunnels  // circuits of this node's own guests
	guests   *guests   // guests of others that talk to this node
	circuits *circuits // circuits through this node
	checkAt  time.Time // next check for silence; the zero time before the first
}

// checkInterval is the time between two checks of circuits, guests and tunnels for silence, while there are any.
const checkInterval = 5 * time.Second

// New returns the Relay of a node. receive passes a guest's frame to the layers of the node.
func New(e env.Env, signer *wire.Signer, verify wire.Verifier, receive func(from env.PeerID, frame []byte) error) *Relay {
	c := &common{clock: e.Clock, net: e.Network, rand: e.Rand, signer: signer, verify: wire.NewCachingVerifier(verify, 4*maxGuests), self: signer.PeerID(), receive: receive}
	r := &Relay{common: c, tunnels: &tunnels{common: c}, guests: &guests{common: c, byID: map[env.PeerID]*guest{}}}
	r.circuits = &circuits{common: c, guests: r.guests, byLink: map[link]*circuit{}, byGuest: map[env.PeerID]*circuit{}, openers: map[env.PeerID]*opener{}}
	return r
}

// Serve lets a node carry circuits, and open them, once it has its overlay.
func (r *Relay) Serve(node *overlay.Node) { r.node = node }

// Send implements env.Network. A frame for a guest goes to the guest's exit.
func (r *Relay) Send(to env.Peer, class env.Class, frame []byte) {
	switch {
	case r.circuits.sendGuest(to.ID, frame), r.guests.send(to.ID, class, frame):
	default:
		r.net.Send(to, class, frame)
	}
}

// Next returns the time at which something is due.
func (r *Relay) Next() time.Time {
	switch {
	case len(r.circuits.openers)+len(r.guests.byID)+len(r.tunnels.list) == 0:
		return time.Time{}
	case r.checkAt.IsZero():
		return env.AtOnce
	}
	return env.Sooner(r.checkAt, r.tunnels.nextOpen())
}

// Run does what is due and returns Next.
func (r *Relay) Run(now time.Time) time.Time {
	r.tunnels.openDue(now)
	if !r.checkAt.After(now) {
		r.circuits.expire(now)
		r.guests.expire(now)
		r.tunnels.failSilent(now)
		r.checkAt = now.Add(checkInterval)
	}
	return r.Next()
}

// PeerDown reports that the link to a peer broke. Circuits through it are opened anew.
func (r *Relay) PeerDown(peer env.PeerID) { r.tunnels.peerDown(peer) }

// Partners returns the peers that circuits lead to, and the exits of guests.
func (r *Relay) Partners() map[env.PeerID]bool {
	partners := map[env.PeerID]bool{}
	for l := range r.circuits.byLink {
		partners[l.peer] = true
	}
	for _, g := range r.guests.byID {
		partners[g.exit] = true
	}
	for _, t := range r.tunnels.list {
		if t.middle != nil {
			partners[t.middle.Peer.ID] = true
		}
	}
	return partners
}

// Receive handles one message of this layer from a peer. An error means that the peer broke the protocol.
func (r *Relay) Receive(from env.PeerID, body []byte) error {
	m, err := parse(body)
	if err == nil {
		err = r.handle(from, m)
	}
	if err != nil {
		r.stats.Garbage++
		return fmt.Errorf("%w: %w", env.ErrFrame, err)
	}
	return nil
}

func (r *Relay) handle(from env.PeerID, m *relaypb.Message) error {
	switch b := m.Body.(type) {
	case *relaypb.Message_Open:
		return r.circuits.onOpen(from, b.Open)
	case *relaypb.Message_Opened:
		if !r.tunnels.onOpened(from, b.Opened) {
			r.circuits.onOpened(from, b.Opened)
		}
	case *relaypb.Message_Data:
		if !r.tunnels.onData(from, b.Data) {
			r.circuits.onData(from, b.Data)
		}
	case *relaypb.Message_Close:
		if !r.tunnels.onClose(from, b.Close) {
			r.circuits.onClose(from, b.Close)
		}
	case *relaypb.Message_Forward:
		return r.guests.onForward(from, b.Forward)
	case *relaypb.Message_Return:
		return r.circuits.onReturn(from, b.Return)
	}
	return nil
}

// Stats returns the counters.
func (r *Relay) Stats() Stats {
	s := r.stats
	s.Circuits, s.Guests, s.Tunnels = len(r.circuits.byLink), len(r.guests.byID), len(r.tunnels.list)
	return s
}

// sendMessage sends a message of this layer.
func (c *common) sendMessage(to env.Peer, class env.Class, m *relaypb.Message) {
	c.net.Send(to, class, wire.AppendFrame(nil, wire.Relay, m))
}

// sendData sends a sealed frame.
func (c *common) sendData(to env.Peer, d *relaypb.Data) {
	c.sendMessage(to, classFor(len(d.Sealed)), &relaypb.Message{Body: &relaypb.Message_Data{Data: d}})
}

// classFor returns the class of a frame of n bytes of which no more than the size is known. Large ones make way for
// small ones, as content does on every link.
func classFor(n int) env.Class {
	if n > sizes[1]+overhead {
		return env.Bulk
	}
	return env.Control
}

func (c *common) close(to env.Peer, circuit uint64) {
	c.sendMessage(to, env.Control, &relaypb.Message{Body: &relaypb.Message_Close{Close: &relaypb.Close{Circuit: circuit}}})
}

// peer returns a peer with its address, if that is known.
func (c *common) peer(id env.PeerID) env.Peer {
	if known := c.node.Contact(id); known != nil {
		return known.Peer
	}
	return env.Peer{ID: id}
}
