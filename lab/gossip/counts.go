package gossip

import (
	"sync/atomic"

	pubsub "github.com/libp2p/go-libp2p-pubsub"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"google.golang.org/protobuf/proto"
)

// Stats counts a peer's events since it was created.
type Stats struct {
	Connections int // connected peers
	Partners    int // connected peers that speak GossipSub
	Mesh        int // mesh peers of all topics together

	// Messages put into send queues, and their bytes: those that carry items, and all others.
	Items, ItemBytes   int
	Others, OtherBytes int

	Dropped   int // messages whose queue was full; GossipSub repeats announcements
	Announced int // times that another peer announced a topic
	Repeated  int // duplicate items received
}

// counts implements pubsub.RawTracer.
type counts struct {
	items, itemBytes, others, otherBytes atomic.Int64
	dropped, announced, repeated         atomic.Int64
	partners, mesh                       atomic.Int64
}

var _ pubsub.RawTracer = (*counts)(nil)

// Stats returns the peer's counters.
func (p *Peer) Stats() Stats {
	c := &p.counts
	return Stats{
		Connections: len(p.host.Network().Peers()), Partners: int(c.partners.Load()), Mesh: int(c.mesh.Load()),
		Items: int(c.items.Load()), ItemBytes: int(c.itemBytes.Load()),
		Others: int(c.others.Load()), OtherBytes: int(c.otherBytes.Load()),
		Dropped: int(c.dropped.Load()), Announced: int(c.announced.Load()), Repeated: int(c.repeated.Load()),
	}
}

// SendRPC counts sent messages.
func (c *counts) SendRPC(rpc *pubsub.RPC, _ peer.ID) {
	messages, bytes := &c.others, &c.otherBytes
	if len(rpc.GetPublish()) > 0 {
		messages, bytes = &c.items, &c.itemBytes
	}
	messages.Add(1)
	bytes.Add(int64(proto.Size(&rpc.RPC)))
}

// RecvRPC counts announcements.
func (c *counts) RecvRPC(rpc *pubsub.RPC) {
	for _, s := range rpc.GetSubscriptions() {
		if s.GetSubscribe() {
			c.announced.Add(1)
		}
	}
}

// DropRPC counts messages that were not sent.
func (c *counts) DropRPC(*pubsub.RPC, peer.ID) { c.dropped.Add(1) }

// DuplicateMessage counts items that were received before.
func (c *counts) DuplicateMessage(*pubsub.Message) { c.repeated.Add(1) }

// OnNewOutboundStream counts peers that speak GossipSub.
func (c *counts) OnNewOutboundStream(peer.ID, protocol.ID) { c.partners.Add(1) }

// OnClosedOutboundStream counts peers that speak GossipSub.
func (c *counts) OnClosedOutboundStream(peer.ID) { c.partners.Add(-1) }

// Graft counts mesh peers.
func (c *counts) Graft(peer.ID, string) { c.mesh.Add(1) }

// Prune counts mesh peers.
func (c *counts) Prune(peer.ID, string) { c.mesh.Add(-1) }

// Join and the methods below count nothing.
func (c *counts) Join(string)                           {}
func (c *counts) Leave(string)                          {}
func (c *counts) ValidateMessage(*pubsub.Message)       {}
func (c *counts) DeliverMessage(*pubsub.Message)        {}
func (c *counts) RejectMessage(*pubsub.Message, string) {}
func (c *counts) ThrottlePeer(peer.ID)                  {}
func (c *counts) UndeliverableMessage(*pubsub.Message)  {}
