package owner

import (
	"fmt"

	"tidings/internal/env"
	"tidings/overlay"
	"tidings/overlay/owner/ownerpb"
)

// Receive handles a message from a peer.
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
	case *ownerpb.Message_FindOwners:
		return o.Resolver.onFindOwners(from, b.FindOwners)
	case *ownerpb.Message_OwnersFound:
		return o.Resolver.onOwnersFound(b.OwnersFound)
	case *ownerpb.Message_Prepare:
		o.acceptor.onPrepare(from, b.Prepare)
	case *ownerpb.Message_Promise:
		return o.proposer.onPromise(from, b.Promise)
	case *ownerpb.Message_Sign:
		return o.acceptor.onSign(from, b.Sign)
	case *ownerpb.Message_Signed:
		o.proposer.onSigned(from, b.Signed)
	case *ownerpb.Message_Commit:
		return o.learner.onCommit(from, b.Commit)
	case *ownerpb.Message_Replicate:
		return o.learner.onReplicate(from, b.Replicate)
	case *ownerpb.Message_ReplicateAck:
		o.sequencer.onReplicateAck(from, b.ReplicateAck)
	case *ownerpb.Message_Note:
		o.learner.onNote(from, b.Note)
	case *ownerpb.Message_Heartbeat:
		o.keeper.onHeartbeat(from, b.Heartbeat)
	case *ownerpb.Message_HeartbeatAck:
		o.keeper.onHeartbeatAck(from, b.HeartbeatAck)
	case *ownerpb.Message_LogList:
		o.keeper.onList(from, b.LogList)
	case *ownerpb.Message_WeightReport:
		o.keeper.onWeightReport(from, b.WeightReport)
	case *ownerpb.Message_Retire:
		o.keeper.onRetire(from, b.Retire)
	case *ownerpb.Message_Merge:
		return o.merger.onMerge(from, b.Merge)
	case *ownerpb.Message_Pull:
		o.server.onPull(from, b.Pull)
	case *ownerpb.Message_Entries:
		return o.puller.onEntries(from, b.Entries)
	case *ownerpb.Message_ChunkRequest:
		o.server.onChunkRequest(from, b.ChunkRequest)
	case *ownerpb.Message_Chunk:
		return o.puller.onChunk(from, b.Chunk)
	default:
		return errRouted
	}
	return nil
}

// Forward tells the overlay whether to stop a routed message here: never, as all go to the root.
func (o *Owners) Forward(*overlay.Message) bool { return false }

// Deliver handles a message that was routed to this node as the root.
func (o *Owners) Deliver(m *overlay.Message) {
	msg, err := parse(m.Payload)
	if err == nil {
		err = o.deliver(m.Key, msg)
	}
	if err != nil {
		o.stats.Garbage++
	}
}

func (o *Owners) deliver(key overlay.ID, m *ownerpb.Message) error {
	switch b := m.Body.(type) {
	case *ownerpb.Message_RequestOwners:
		if o.keyOf(b.RequestOwners.Url) != key {
			return errKey
		}
		var keeper *overlay.Contact
		if len(b.RequestOwners.Record) > 0 {
			var err error
			if keeper, err = o.node.OpenRecord(b.RequestOwners.Record); err != nil {
				return err
			}
		}
		o.proposer.onRequestOwners(key, b.RequestOwners.Url, keeper)
		return nil
	case *ownerpb.Message_FindOwners:
		if overlay.ID(b.FindOwners.Key) != key || b.FindOwners.Hops > 0 {
			return errKey
		}
		return o.Resolver.answer(b.FindOwners)
	}
	return errRouted
}
