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

// MaxTopicFrame is the size of the largest frame of a topic in bytes.
const MaxTopicFrame = 192 << 10

// A Verdict is what becomes of a frame that came by a topic.
type Verdict uint8

const (
	Pass  Verdict = iota // it is right and news: others get it from here
	Drop                 // it goes no further, and nobody is to blame
	Blame                // it can never be right: whoever passed it on should have seen that
)

// Topics carry frames to many at once: a few fat groups whose members pass on what
// they hear (GossipSub), for the many thin ones of which overlay/scribe has its trees.
// Nothing crosses nodes that take no part in a topic, and nobody says what was lost.
type Topics interface {
	// Join takes part in a topic from now on, and keeps in touch with peers, of whom
	// somebody should take part too. Joined again, it changes who they are. hear is
	// called, in the node's turn, for each frame of somebody else's, and says what
	// becomes of it; whether a frame is Blamed must depend on its bytes alone.
	Join(topic string, peers []Peer, hear func(from PeerID, frame []byte) Verdict)
	// Leave ends a Join.
	Leave(topic string)
	// Publish sends a frame of at most MaxTopicFrame bytes to those who take part in
	// a topic that this node has joined. It never blocks, and the frame may be lost.
	Publish(topic string, frame []byte)
}
