package owner

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"tidings/internal/env"
	"tidings/overlay"
	"tidings/overlay/owner/ownerpb"
)

// What others signed is passed on as it is, so these bounds leave room in a frame
// for the largest epoch and record beside the largest body.
const (
	maxRecord    = 1 << 10
	maxStatement = 3 << 10
	maxSignature = 160 // the envelope of an epoch's signature
	maxEnvelope  = 1 << 10
)

// parse reads a message and checks every bound, so that no other code has to.
// What is signed is read where it is verified.
func parse(body []byte) (*ownerpb.Message, error) {
	m := new(ownerpb.Message)
	if err := proto.Unmarshal(body, m); err != nil {
		return nil, fmt.Errorf("%w: %w", env.ErrFrame, err)
	}
	if what := breaks(m); what != "" {
		return nil, fmt.Errorf("%w: owner message: %s", env.ErrFrame, what)
	}
	return m, nil
}

// breaks says which bound a message breaks, if any.
func breaks(m *ownerpb.Message) string {
	switch b := m.Body.(type) {
	case *ownerpb.Message_Want:
		return unless(len(b.Want.Url) > 0 && len(b.Want.Url) <= maxURL && len(b.Want.Record) <= maxRecord, "want")
	case *ownerpb.Message_Where:
		return unless(isKey(b.Where.Key) && isSmall(b.Where.Record, maxRecord), "where")
	case *ownerpb.Message_Found:
		ok := isKey(b.Found.Key) && len(b.Found.Records)+len(b.Found.Followers) <= maxFound
		for _, r := range slices.Concat(b.Found.Records, b.Found.Followers) {
			ok = ok && isSmall(r, maxRecord)
		}
		return unless(ok, "found")
	case *ownerpb.Message_Seal:
		return unless(isKey(b.Seal.Key) && b.Seal.Number > 0 && b.Seal.Number <= maxNumber, "seal")
	case *ownerpb.Message_Sealed:
		s := b.Sealed
		return unless(isKey(s.Key) && s.Refused <= maxNumber && (s.Epoch == nil || isEpoch(s.Epoch)) && areEpochs(s.Open) && len(s.Head) <= maxEnvelope, "sealed")
	case *ownerpb.Message_Sign:
		return unless(isSmall(b.Sign.Statement, maxStatement), "sign")
	case *ownerpb.Message_Signed:
		return unless(isKey(b.Signed.Key) && isSmall(b.Signed.Signature, maxSignature), "signed")
	case *ownerpb.Message_Install:
		i := b.Install
		return unless(isEpoch(i.Epoch) && len(i.Note) <= MaxNote && (len(i.Merged) == 0 || isHash(i.Merged)), "install")
	case *ownerpb.Message_Hold:
		return unless(isSmall(b.Hold.Entry, maxEnvelope) && len(b.Hold.Body) <= maxInline, "hold")
	case *ownerpb.Message_Held:
		return unless(isKey(b.Held.Key) && isHash(b.Held.Hash), "held")
	case *ownerpb.Message_Note:
		return unless(isKey(b.Note.Key) && len(b.Note.Note) <= MaxNote, "note")
	case *ownerpb.Message_Beat, *ownerpb.Message_BeatAck:
	case *ownerpb.Message_List:
		ok := len(b.List.States) <= maxList
		for _, s := range b.List.States {
			ok = ok && s != nil && isKey(s.Key)
		}
		return unless(ok, "list")
	case *ownerpb.Message_Report:
		return unless(isKey(b.Report.Key) && b.Report.Weight < 1<<31, "report")
	case *ownerpb.Message_Retire:
		return unless(isKey(b.Retire.Key), "retire")
	case *ownerpb.Message_Merge:
		return unless(isEpoch(b.Merge.Epoch) && len(b.Merge.Head) <= maxEnvelope, "merge")
	case *ownerpb.Message_Pull:
		return unless(isKey(b.Pull.Key) && (len(b.Pull.Have) == 0 || isHash(b.Pull.Have)), "pull")
	case *ownerpb.Message_Entries:
		e := b.Entries
		ok := isKey(e.Key) && (e.Epoch == nil || isEpoch(e.Epoch)) && len(e.Entries) <= maxPage+1 && len(e.Note) <= MaxNote
		for _, k := range e.Entries {
			ok = ok && k != nil && isSmall(k.Entry, maxEnvelope) && len(k.Body) <= maxInline
		}
		return unless(ok, "entries")
	case *ownerpb.Message_Piece:
		return unless(isKey(b.Piece.Key) && isHash(b.Piece.Hash) && b.Piece.Offset <= MaxBody, "piece")
	case *ownerpb.Message_Part:
		return unless(isKey(b.Part.Key) && isHash(b.Part.Hash) && b.Part.Offset <= MaxBody && len(b.Part.Bytes) <= maxInline, "part")
	default:
		return "no body"
	}
	return ""
}

func unless(ok bool, what string) string {
	if ok {
		return ""
	}
	return what
}

func isKey(b []byte) bool { return len(b) == len(overlay.ID{}) }

func isSmall(b []byte, most int) bool { return len(b) > 0 && len(b) <= most }

func areEpochs(of []*ownerpb.Epoch) bool {
	return len(of) <= maxOpen && !slices.ContainsFunc(of, func(e *ownerpb.Epoch) bool { return !isEpoch(e) })
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

func encode(m *ownerpb.Message) []byte {
	b, err := proto.Marshal(m)
	if err != nil {
		panic(fmt.Sprintf("owner: encode %T: %v", m.Body, err)) // a URL was let in that is no UTF-8
	}
	return b
}
