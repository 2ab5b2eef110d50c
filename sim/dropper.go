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

// Swallow has a peer keep, from now on and in all its lives, what others should get from it of any
// feed. It is a real node, who routes, keeps its place in trees, takes children and renews their
// leases, but
//
//   - passes no message down a tree, and is content as if it had: it takes each for acknowledged;
//   - answers every digest by saying that nothing differs, and sends no heartbeats;
//   - has nothing to give to who pulls: neither entries beyond those that one has, nor bodies.
//
// What it asks for itself it gets. It is meant for members between owners and readers: as an owner it
// goes on voting and holding, but gives nobody what it holds. A message of feedtree's that is not
// named here is kept back.
func (p *Peer) Swallow() {
	p.withholds = func(to env.Peer, msg []byte) []byte {
		switch layer, body, err := wire.ParseFrame(msg); {
		case err != nil:
		case layer == wire.Scribe:
			return p.swallowDown(to, msg, body)
		case layer == wire.Feed:
			return swallowFeed(msg, body)
		case layer == wire.Owner:
			return swallowLog(msg, body)
		}
		return msg
	}
}

// Swallows says whether a peer swallows what it should pass on.
func (p *Peer) Swallows() bool { return p.withholds != nil }

// contented is after what time a message that was swallowed is taken for acknowledged.
const contented = 50 * time.Millisecond

// swallowDown keeps what should go down a tree. The node hears an acknowledgement, in its child's
// name: it would give up a child that seems to be dead.
func (p *Peer) swallowDown(to env.Peer, msg, body []byte) []byte {
	m := new(scribepb.Message)
	if proto.Unmarshal(body, m) != nil || m.GetMulticast() == nil {
		return msg
	}
	if child := p.world.find(&to); child != nil {
		got := wire.AppendFrame(nil, wire.Scribe, &scribepb.Message{Body: &scribepb.Message_Ack{Ack: &scribepb.Ack{Ids: []uint64{m.GetMulticast().Id}}}})
		p.lane.push(p.lane.now+int64(contented), p.Host, frame, p.lane.frames.Put(transit{msg: got, from: child.index}))
	}
	return nil
}

// swallowFeed keeps all that tells a child of a feed that there is more of it. What has to do with
// publications, and what the node says of itself as somebody's child, goes out.
func swallowFeed(msg, body []byte) []byte {
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

// swallowLog leaves out of answers what a follower asked for.
func swallowLog(msg, body []byte) []byte {
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

// CleanWay says whether none swallows of those whom a message of a group has to pass from its root
// to a peer, both included; false, too, if there is no whole way.
func (s *Swarm) CleanWay(p *Peer, g overlay.ID) bool {
	if p.Swallows() {
		return false
	}
	above, whole := s.way(p, g)
	for _, q := range above {
		if q.Swallows() {
			return false
		}
	}
	return whole
}
