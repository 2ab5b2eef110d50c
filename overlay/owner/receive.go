package owner

import (
	"fmt"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/owner/ownerpb"
)

// send sends a message to a peer. Who is an owner's neighbour knows where it is.
func (o *Owners) send(to env.PeerID, m *ownerpb.Message) { o.sendTo(o.peer(to), m) }

func (o *Owners) sendTo(to env.Peer, m *ownerpb.Message) {
	class := env.Control
	switch m.Body.(type) {
	case *ownerpb.Message_Entries, *ownerpb.Message_Part:
		class = env.Bulk
	}
	o.stats.Control++
	o.net.Send(to, class, wire.AppendFrame(nil, wire.Owner, m))
}

// peer returns a peer with the addresses that are known of it.
func (o *Owners) peer(id env.PeerID) env.Peer {
	if c := o.node.Contact(id); c != nil {
		return c.Peer
	}
	if c := o.node.Leaf().Has(o.id(id)); c != nil {
		return c.Peer
	}
	return env.Peer{ID: id}
}

// id is the overlay's id of a peer.
func (o *Owners) id(peer env.PeerID) overlay.ID {
	return overlay.NodeID(o.node.Network(), peer)
}

// at is the seat of a key, nil if there is none.
func (o *Owners) at(key []byte) *seat { return o.seats[overlay.ID(key)] }

// Receive takes one message of owner's from a peer.
func (o *Owners) Receive(from env.PeerID, body []byte) error {
	m, err := parse(body)
	if err != nil {
		o.stats.Garbage++
		return err
	}
	if err := o.receive(from, m); err != nil {
		o.stats.Garbage++
		return fmt.Errorf("%w: %w", env.ErrFrame, err)
	}
	return nil
}

func (o *Owners) receive(from env.PeerID, m *ownerpb.Message) error {
	switch b := m.Body.(type) {
	case *ownerpb.Message_Where:
		return o.onWhere(from, b.Where)
	case *ownerpb.Message_Found:
		return o.onFound(b.Found)
	case *ownerpb.Message_Seal:
		o.onSeal(from, b.Seal)
	case *ownerpb.Message_Sealed:
		return o.onSealed(from, b.Sealed)
	case *ownerpb.Message_Sign:
		return o.onSign(from, b.Sign)
	case *ownerpb.Message_Signed:
		o.onSigned(from, b.Signed)
	case *ownerpb.Message_Install:
		return o.onInstall(from, b.Install)
	case *ownerpb.Message_Hold:
		return o.onHold(from, b.Hold)
	case *ownerpb.Message_Held:
		o.onHeld(from, b.Held)
	case *ownerpb.Message_Note:
		o.onNote(from, b.Note)
	case *ownerpb.Message_Beat:
		o.onBeat(from, b.Beat)
	case *ownerpb.Message_BeatAck:
		o.onBeatAck(from, b.BeatAck)
	case *ownerpb.Message_List:
		o.onList(from, b.List)
	case *ownerpb.Message_Report:
		o.onReport(from, b.Report)
	case *ownerpb.Message_Retire:
		o.onRetire(from, b.Retire)
	case *ownerpb.Message_Merge:
		return o.onMerge(from, b.Merge)
	case *ownerpb.Message_Pull:
		o.onPull(from, b.Pull)
	case *ownerpb.Message_Entries:
		return o.onEntries(from, b.Entries)
	case *ownerpb.Message_Piece:
		o.onPiece(from, b.Piece)
	case *ownerpb.Message_Part:
		return o.onPart(from, b.Part)
	default:
		return errRouted
	}
	return nil
}

// Forward is the overlay's question about a message that passes: owner's go to
// the root.
func (o *Owners) Forward(*overlay.Message) bool { return false }

// Deliver takes what was routed to this node as the root.
func (o *Owners) Deliver(m *overlay.Message) {
	msg, err := parse(m.Payload)
	if err != nil {
		o.stats.Garbage++
		return
	}
	switch b := msg.Body.(type) {
	case *ownerpb.Message_Want:
		if overlay.Key(o.node.Network(), b.Want.Url) != m.Key {
			o.stats.Garbage++
			return
		}
		var keeper *overlay.Contact
		if len(b.Want.Record) > 0 {
			if keeper, err = o.node.OpenRecord(b.Want.Record); err != nil {
				o.stats.Garbage++
				return
			}
		}
		o.onWant(m.Key, b.Want.Url, keeper)
	case *ownerpb.Message_Where:
		if overlay.ID(b.Where.Key) != m.Key {
			o.stats.Garbage++
			return
		}
		o.answerWhere(b.Where)
	default:
		o.stats.Garbage++
	}
}
