package owner

import (
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"tidings/internal/env"
	"tidings/overlay"
	"tidings/overlay/owner/ownerpb"
)

var (
	errRouted = errors.New("a message that must be routed was sent directly")
	errSigner = errors.New("an entry is not signed by the sequencer of its epoch")
	errAfter  = errors.New("an entry does not continue from the last entry before its epoch")
	errBody   = errors.New("a body does not match the hash in its entry")
	errKey    = errors.New("an epoch's key is not the key of its URL")
)

// Bounds on encoded parts, in bytes. Signed parts are forwarded unchanged, so these bounds leave room in a frame for
// the largest epoch and record beside the largest body.
const (
	maxStatement = 3 << 10
	maxSignature = 160 // the envelope of an epoch's signature
	maxEnvelope  = 1 << 10
)

// parse decodes a message and checks all of its bounds. Signed parts are decoded where they are verified.
func parse(body []byte) (*ownerpb.Message, error) {
	m := new(ownerpb.Message)
	if err := proto.Unmarshal(body, m); err != nil {
		return nil, fmt.Errorf("%w: %w", env.ErrFrame, err)
	}
	if what := brokenBound(m); what != "" {
		return nil, fmt.Errorf("%w: owner message: %s", env.ErrFrame, what)
	}
	return m, nil
}

// brokenBound names the message whose bounds are broken; "" if none are.
func brokenBound(m *ownerpb.Message) string {
	switch b := m.Body.(type) {
	case *ownerpb.Message_RequestOwners:
		return nameUnless(len(b.RequestOwners.Url) > 0 && len(b.RequestOwners.Url) <= maxURL && len(b.RequestOwners.Record) <= overlay.MaxRecord, "request owners")
	case *ownerpb.Message_FindOwners:
		q := b.FindOwners
		return nameUnless(isKey(q.Key) && isSmall(q.Record, overlay.MaxRecord) && len(q.Url) <= maxURL && q.Hops <= maxHops+1, "find owners")
	case *ownerpb.Message_OwnersFound:
		ok := isKey(b.OwnersFound.Key) && len(b.OwnersFound.Records)+len(b.OwnersFound.Followers) <= maxFound && (b.OwnersFound.Epoch == nil || isEpoch(b.OwnersFound.Epoch))
		for _, r := range slices.Concat(b.OwnersFound.Records, b.OwnersFound.Followers) {
			ok = ok && isSmall(r, overlay.MaxRecord)
		}
		return nameUnless(ok, "owners found")
	case *ownerpb.Message_Prepare:
		return nameUnless(isKey(b.Prepare.Key) && b.Prepare.Number > 0 && b.Prepare.Number <= maxNumber, "prepare")
	case *ownerpb.Message_Promise:
		s := b.Promise
		return nameUnless(isKey(s.Key) && s.Refused <= maxNumber && (s.Epoch == nil || isEpoch(s.Epoch)) && areEpochs(s.Undecided) && len(s.Head) <= maxEnvelope, "promise")
	case *ownerpb.Message_Sign:
		return nameUnless(isSmall(b.Sign.Statement, maxStatement), "sign")
	case *ownerpb.Message_Signed:
		return nameUnless(isKey(b.Signed.Key) && isSmall(b.Signed.Signature, maxSignature), "signed")
	case *ownerpb.Message_Commit:
		i := b.Commit
		return nameUnless(isEpoch(i.Epoch) && len(i.Note) <= MaxNote && (len(i.MergedHead) == 0 || isHash(i.MergedHead)), "commit")
	case *ownerpb.Message_Replicate:
		return nameUnless(isSmall(b.Replicate.Entry, maxEnvelope) && len(b.Replicate.Body) <= maxInline, "replicate")
	case *ownerpb.Message_ReplicateAck:
		return nameUnless(isKey(b.ReplicateAck.Key) && isHash(b.ReplicateAck.Hash), "replicate ack")
	case *ownerpb.Message_Note:
		return nameUnless(isKey(b.Note.Key) && len(b.Note.Note) <= MaxNote, "note")
	case *ownerpb.Message_Heartbeat, *ownerpb.Message_HeartbeatAck:
	case *ownerpb.Message_LogList:
		ok := len(b.LogList.States) <= maxListed
		for _, s := range b.LogList.States {
			ok = ok && s != nil && isKey(s.Key)
		}
		return nameUnless(ok, "log list")
	case *ownerpb.Message_WeightReport:
		return nameUnless(isKey(b.WeightReport.Key) && b.WeightReport.Weight < 1<<31, "weight report")
	case *ownerpb.Message_WeightRequest:
		return nameUnless(isKey(b.WeightRequest.Key), "weight request")
	case *ownerpb.Message_Retire:
		return nameUnless(isKey(b.Retire.Key), "retire")
	case *ownerpb.Message_Merge:
		return nameUnless(isEpoch(b.Merge.Epoch) && len(b.Merge.Head) <= maxEnvelope, "merge")
	case *ownerpb.Message_Pull:
		return nameUnless(isKey(b.Pull.Key) && (len(b.Pull.Have) == 0 || isHash(b.Pull.Have)), "pull")
	case *ownerpb.Message_Entries:
		e := b.Entries
		ok := isKey(e.Key) && (e.Epoch == nil || isEpoch(e.Epoch)) && len(e.Entries) <= maxPage+1 && len(e.Note) <= MaxNote
		for _, k := range e.Entries {
			ok = ok && k != nil && isSmall(k.Entry, maxEnvelope) && len(k.Body) <= maxInline
		}
		return nameUnless(ok, "entries")
	case *ownerpb.Message_ChunkRequest:
		return nameUnless(isKey(b.ChunkRequest.Key) && isHash(b.ChunkRequest.Hash) && b.ChunkRequest.Offset <= MaxBody, "chunk request")
	case *ownerpb.Message_Chunk:
		return nameUnless(isKey(b.Chunk.Key) && isHash(b.Chunk.Hash) && b.Chunk.Offset <= MaxBody && len(b.Chunk.Bytes) <= maxInline, "chunk")
	default:
		return "no body"
	}
	return ""
}

func nameUnless(ok bool, what string) string {
	if ok {
		return ""
	}
	return what
}

func isKey(b []byte) bool { return len(b) == len(overlay.ID{}) }

func isSmall(b []byte, most int) bool { return len(b) > 0 && len(b) <= most }

func areEpochs(of []*ownerpb.Epoch) bool {
	return len(of) <= maxUndecided && !slices.ContainsFunc(of, func(e *ownerpb.Epoch) bool { return !isEpoch(e) })
}

func isEpoch(e *ownerpb.Epoch) bool {
	if e == nil || !isSmall(e.Statement, maxStatement) || len(e.Signatures) > maxSignatures {
		return false
	}
	for _, s := range e.Signatures {
		if !isSmall(s, maxSignature) {
			return false
		}
	}
	return true
}
