package sim

import (
	"time"

	"google.golang.org/protobuf/proto"

	"tidings/feedtree/feedtreepb"
	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/owner/ownerpb"
	"tidings/overlay/scribe/scribepb"
)

// DropForwards makes a peer drop, from now on and in all its lives, what it should pass on about any
// feed. It is a real node that routes, keeps its place in trees, accepts children and renews their
// leases, but
//
//   - it sends no messages down a tree, and behaves as if they were acknowledged;
//   - it answers every digest with "no difference", and sends no heartbeats;
//   - it answers pulls with neither entries nor bodies.
//
// Its own requests are not affected. It is meant for members between owners and readers: an owner
// still votes and stores entries, but gives none to others. Feedtree messages that are not named
// here are dropped.
func (p *Peer) DropForwards() {
	p.filterOutgoing = func(to env.Peer, msg []byte) []byte {
		switch layer, body, err := wire.ParseFrame(msg); {
		case err != nil:
		case layer == wire.Scribe:
			return p.dropMulticast(to, msg, body)
		case layer == wire.Feed:
			return filterFeedMessage(msg, body)
		case layer == wire.Owner:
			return emptyLogAnswer(msg, body)
		}
		return msg
	}
}

// DropsForwards reports whether a peer drops what it should forward.
func (p *Peer) DropsForwards() bool { return p.filterOutgoing != nil }

// fakeAckDelay is the time until a dropped message counts as acknowledged at the peer that dropped
// it.
const fakeAckDelay = 50 * time.Millisecond

// dropMulticast drops a message to a child in a tree. The node gets a faked acknowledgement from
// the child, because it would otherwise give up the child as dead.
func (p *Peer) dropMulticast(to env.Peer, msg, body []byte) []byte {
	m := new(scribepb.Message)
	if proto.Unmarshal(body, m) != nil || m.GetMulticast() == nil {
		return msg
	}
	if child := p.world.hostOf(&to); child != nil {
		got := wire.AppendFrame(nil, wire.Scribe, &scribepb.Message{Body: &scribepb.Message_Ack{Ack: &scribepb.Ack{Ids: []uint64{m.GetMulticast().Id}}}})
		p.lane.schedule(p.lane.now+int64(fakeAckDelay), p.Host, eventFrame, p.lane.frames.Put(frameInTransit{msg: got, from: child.index}))
	}
	return nil
}

// filterFeedMessage drops messages by which a child could learn that a feed has more entries.
// Messages about publications, and those that the node sends as a child itself, pass.
func filterFeedMessage(msg, body []byte) []byte {
	m := new(feedtreepb.Message)
	if proto.Unmarshal(body, m) != nil {
		return msg
	}
	switch b := m.Body.(type) {
	case *feedtreepb.Message_Digest, *feedtreepb.Message_Heads, *feedtreepb.Message_Push, *feedtreepb.Message_PushReply,
		*feedtreepb.Message_WitnessRequest, *feedtreepb.Message_WitnessReply:
		return msg
	case *feedtreepb.Message_DigestAck:
		b.DigestAck.Match = true
		return wire.AppendFrame(nil, wire.Feed, m)
	}
	return nil
}

// emptyLogAnswer removes from answers what a follower asked for.
func emptyLogAnswer(msg, body []byte) []byte {
	m := new(ownerpb.Message)
	if proto.Unmarshal(body, m) != nil {
		return msg
	}
	switch b := m.Body.(type) {
	case *ownerpb.Message_Entries:
		b.Entries.Entries, b.Entries.More, b.Entries.Restart = nil, false, false
	case *ownerpb.Message_Chunk:
		b.Chunk.Bytes = nil
	default:
		return msg
	}
	return wire.AppendFrame(nil, wire.Owner, m)
}

// HonestPath reports whether the path of a group's messages from the root to a peer is complete,
// and no node on it drops messages, the two ends included.
func (s *Swarm) HonestPath(p *Peer, g overlay.ID) bool {
	if p.DropsForwards() {
		return false
	}
	above, complete := s.pathToRoot(p, g)
	for _, q := range above {
		if q.DropsForwards() {
			return false
		}
	}
	return complete
}
