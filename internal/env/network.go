package env

import "errors"

// PeerID names a peer: its libp2p peer id in binary form, the identity
// multihash of an Ed25519 public key (38 bytes).
type PeerID string

// A Peer is a peer and where it can be dialled.
type Peer struct {
	ID PeerID
	// Addrs are multiaddrs in binary form, without the /p2p part. Only a
	// world reads them. None are needed to answer a peer that has a link.
	Addrs []string
}

// Class says which of a link's two queues a frame waits in.
type Class uint8

const (
	// Control frames keep the network right: small, and sent first.
	Control Class = iota
	// Bulk frames carry content. A world under pressure drops these first.
	Bulk
)

func (c Class) String() string {
	switch c {
	case Control:
		return "control"
	case Bulk:
		return "bulk"
	}
	return "unknown"
}

// MaxFrame is the size of the largest frame in bytes. What is larger is pulled
// by its requester in windows.
const MaxFrame = 64 << 10

// ErrFrame says that a frame breaks the protocol; see [Node.Receive].
var ErrFrame = errors.New("frame breaks the protocol")

// A Network carries frames between peers.
type Network interface {
	// Send queues one frame of at most MaxFrame bytes for a peer, opening a
	// link if there is none; an idle link is closed. It never blocks. The
	// frame may be lost, repeated or overtaken by a later one, and nobody says
	// so; it must not be changed after Send, so that one frame can go to many
	// peers.
	Send(to Peer, class Class, frame []byte)
}
