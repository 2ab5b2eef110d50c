package overlay

import (
	"crypto/ed25519"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay/overlaypb"
)

// These are the bounds of messages that overlay.proto states.
const (
	maxRecords = 256
	maxLeafIDs = 1024
	maxDepth   = 255
	maxHops    = 64
	// maxRecordBytes bounds the bytes of records in one message, so that the message fits into
	// a frame even if the records, which other nodes made, are long. A receiver that lacks
	// more asks again.
	maxRecordBytes = 48 << 10
	// MaxPayload is the size of the largest routed payload in bytes. The rest of the frame is
	// for the record, the key and other fields.
	MaxPayload = env.MaxFrame - 4<<10
)

// parse decodes a message and checks every bound, so that no other code has to.
func parse(body []byte) (*overlaypb.Message, error) {
	m := new(overlaypb.Message)
	if err := proto.Unmarshal(body, m); err != nil {
		return nil, fmt.Errorf("%w: %w", env.ErrFrame, err)
	}
	if broken := violation(m); broken != "" {
		return nil, fmt.Errorf("%w: overlay message: %s", env.ErrFrame, broken)
	}
	return m, nil
}

// frame encodes a message.
func frame(m *overlaypb.Message) []byte { return wire.AppendFrame(nil, wire.Overlay, m) }

// These are the field numbers, in overlay.proto, of messages that are not urgent.
const routeField, ackField, leaveField = 3, 4, 11

// Urgent reports whether a frame maintains membership: a probe or its reply, a step of a join,
// a comparison of leaves. There are few of these, and an overloaded node handles and sends
// them first; otherwise it would be declared dead, and would declare others dead. Routed
// messages are not urgent. Neither is a leave, because an older message that is delivered
// after it would bring the node back.
func Urgent(frame []byte) bool {
	layer, body, err := wire.ParseFrame(frame)
	if err != nil || layer != wire.Overlay {
		return false
	}
	for len(body) > 0 {
		field, kind, n := protowire.ConsumeTag(body)
		if n < 0 || field == routeField || field == ackField || field == leaveField {
			return false
		}
		m := protowire.ConsumeFieldValue(field, kind, body[n:])
		if m < 0 {
			return false
		}
		body = body[n+m:]
	}
	return true
}

// violation returns the bound that a message violates, or an empty string.
func violation(m *overlaypb.Message) string {
	if len(m.Record) > MaxRecord {
		return "record too long"
	}
	switch b := m.Body.(type) {
	case *overlaypb.Message_Probe:
		if b.Probe.Depth > maxDepth {
			return "probe: depth"
		}
	case *overlaypb.Message_Route:
		r := b.Route
		switch {
		case len(r.Key) != len(ID{}):
			return "route: key"
		case r.Hops > maxHops:
			return "route: hops"
		case r.Layer == 0 || r.Layer > 255:
			return "route: layer"
		case len(r.Payload) > MaxPayload:
			return "route: payload"
		}
	case *overlaypb.Message_Ack:
		switch a := b.Ack; {
		case a.Receipt && len(a.Root) != len(ID{}):
			return "receipt: root"
		case len(a.Record) > MaxRecord || len(a.Signature) > 0 && len(a.Signature) != ed25519.SignatureSize:
			return "receipt: signature"
		}
	case *overlaypb.Message_Find:
		if len(b.Find.Key) != len(ID{}) || b.Find.Limit > maxRecords {
			return "find"
		}
	case *overlaypb.Message_Nearby:
		return recordsViolation(b.Nearby.Records, b.Nearby.Depth, maxRecords)
	case *overlaypb.Message_Leaf:
		if len(b.Leaf.IdPrefixes) > maxLeafIDs {
			return "leaf: ids"
		}
		return recordsViolation(b.Leaf.Records, b.Leaf.Depth, maxRecords)
	case *overlaypb.Message_RowRequest:
		if b.RowRequest.Row >= Digits || b.RowRequest.Columns > 1<<16-1 {
			return "row request"
		}
	case *overlaypb.Message_RowReply:
		if b.RowReply.Row >= Digits || b.RowReply.EmptyColumns > 1<<16-1 {
			return "row reply"
		}
		return recordsViolation(b.RowReply.Records, 0, 16)
	case *overlaypb.Message_Dead:
		if len(b.Dead.Id) != len(ID{}) {
			return "dead: id"
		}
	case *overlaypb.Message_Leave:
	case *overlaypb.Message_AuthorityNews:
		if len(b.AuthorityNews.Revocations) > maxRevocations {
			return "list of revocations too long"
		}
	case *overlaypb.Message_Renew:
		if len(b.Renew.Certificate) > maxCertificate {
			return "certificate too long"
		}
	default:
		return "no body"
	}
	return ""
}

func recordsViolation(records [][]byte, depth uint32, limit int) string {
	if len(records) > limit {
		return "too many records"
	}
	if depth > maxDepth {
		return "depth"
	}
	for _, r := range records {
		if len(r) > MaxRecord {
			return "record too long"
		}
	}
	return ""
}

// rawRecords returns the encoded records of contacts, only the first ones if not all of them
// fit into one message.
func rawRecords(contacts []*Contact) [][]byte {
	out := make([][]byte, 0, min(len(contacts), maxRecords))
	size := 0
	for _, c := range contacts {
		if size += len(c.Raw) + 4; size > maxRecordBytes || len(out) == maxRecords {
			break
		}
		out = append(out, c.Raw)
	}
	return out
}
