package env

import "errors"

// PeerID identifies a peer: its libp2p peer id in binary form, which is the identity multihash of
// an Ed25519 public key (38 bytes).
type PeerID string

// A Peer is the id of a peer with the addresses at which it can be dialled.
type Peer struct {
	ID PeerID
	// Addrs are multiaddrs in binary form, without the /p2p part. Only a world reads them. A peer
	// that has a link can be answered without any.
	Addrs []string
}

// Class selects one of the two queues of a link.
type Class uint8

const (
	// Control frames maintain the network. They are small and are sent first.
	Control Class = iota
	// Bulk frames carry content. A world under pressure drops them first.
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

// MaxFrame is the maximum size of a frame in bytes. The receiver pulls larger data in windows.
const MaxFrame = 64 << 10

// ErrFrame says that a frame breaks the protocol; see [Node.Receive].
var ErrFrame = errors.New("frame breaks the protocol")

// A Network carries frames between peers.
type Network interface {
	// Send queues one frame of at most MaxFrame bytes for a peer, and opens a link if there is
	// none; idle links are closed. Send never blocks. The frame may be lost, repeated or overtaken
	// by a later one without any notice. It must not be changed after Send, so that one frame can
	// go to many peers.
	Send(to Peer, class Class, frame []byte)
}

// MaxTopicFrame is the maximum size of a topic's frame in bytes.
const MaxTopicFrame = 192 << 10

// A Verdict decides what happens to a frame of a topic, as in GossipSub's message validation.
type Verdict uint8

const (
	Accept Verdict = iota // the frame is valid and new: forward it
	Ignore                // do not forward the frame, and do not blame the peer that sent it
	Reject                // the frame can never be valid: blame the peer that forwarded it
)

// Topics carry frames to many nodes at once: a few large groups whose members forward what they
// receive (GossipSub). For many small groups there are the trees of overlay/scribe. Nodes outside
// of a topic carry none of its frames, and nobody reports lost frames.
type Topics interface {
	// Join subscribes to a topic and keeps links to peers, some of which should be in the topic
	// too. A second Join replaces the peers. hear is called, as an event of the node, for each
	// frame of another member, and returns a verdict; whether it is Reject must depend on the
	// frame's bytes alone.
	Join(topic string, peers []Peer, hear func(from PeerID, frame []byte) Verdict)
	// Leave leaves a topic.
	Leave(topic string)
	// Publish sends a frame of at most MaxTopicFrame bytes to the members of a topic that this node
	// has joined. It never blocks, and the frame may be lost.
	Publish(topic string, frame []byte)
}

// A Prover finds out whether peers are where they say.
type Prover interface {
	// Prove finds out whether a peer can be reached at one of its addresses: over a link that was opened to or from such an
	// address, or by dialling the address anew, even if there is another link. It calls done, as an event of the node,
	// with the address, or with an empty one if the peer was not reached.
	Prove(p Peer, done func(addr string))
}
