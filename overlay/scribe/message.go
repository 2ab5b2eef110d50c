package scribe

import (
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/scribe/scribepb"
)

// parse decodes a message and checks every bound, so that no other code has to.
func parse(body []byte) (*scribepb.Message, error) {
	m := new(scribepb.Message)
	if err := proto.Unmarshal(body, m); err != nil {
		return nil, fmt.Errorf("%w: %w", env.ErrFrame, err)
	}
	if problem := checkMessage(m); problem != "" {
		return nil, fmt.Errorf("%w: scribe message: %s", env.ErrFrame, problem)
	}
	return m, nil
}

// checkMessage returns the bound that a message breaks, or an empty string.
func checkMessage(m *scribepb.Message) string {
	switch b := m.Body.(type) {
	case *scribepb.Message_Join:
		switch {
		case !isID(b.Join.Group):
			return "join: group"
		case !isRecord(b.Join.Record):
			return "join: record"
		case len(b.Join.Have) > maxHave:
			return "join: have"
		case len(b.Join.Avoid) > maxAvoid || !all(b.Join.Avoid, isID):
			return "join: avoid"
		}
	case *scribepb.Message_Publish:
		if !isID(b.Publish.Group) || len(b.Publish.Payload) > MaxPayload {
			return "publish"
		}
	case *scribepb.Message_Accept:
		if !isID(b.Accept.Group) || !isRecord(b.Accept.Record) {
			return "accept"
		}
	case *scribepb.Message_Redirect:
		if !isID(b.Redirect.Group) || !isRecord(b.Redirect.Record) {
			return "redirect"
		}
	case *scribepb.Message_Prune:
		if !isID(b.Prune.Group) {
			return "prune"
		}
	case *scribepb.Message_Multicast:
		if !isID(b.Multicast.Group) || len(b.Multicast.Payload) > MaxPayload {
			return "multicast"
		}
	case *scribepb.Message_Ack:
		if len(b.Ack.Ids) > maxAcks {
			return "ack"
		}
	case *scribepb.Message_Heartbeat, *scribepb.Message_HeartbeatAck:
	case *scribepb.Message_EdgeList:
		return checkEdgeList(b.EdgeList)
	case *scribepb.Message_Reject:
		if len(b.Reject.Groups) > maxList {
			return "reject: too many"
		}
		for _, g := range b.Reject.Groups {
			if !isID(g) {
				return "reject: group"
			}
		}
	case *scribepb.Message_Offer:
		if !isID(b.Offer.Group) {
			return "offer"
		}
	case *scribepb.Message_Batch:
		return checkBatch(b.Batch)
	default:
		return "no body"
	}
	return ""
}

func checkBatch(b *scribepb.Batch) string {
	if len(b.Records) == 0 || len(b.Records) > maxBatch || !all(b.Records, isRecord) {
		return "batch: records"
	}
	entries := 0
	for _, c := range []struct {
		*scribepb.Column
		edges, weights, records bool
	}{
		{b.Prunes, true, false, false},
		{b.Rejects, false, false, false},
		{b.Joins, true, true, false},
		{b.RoutedJoins, true, true, true},
		{b.Accepts, true, false, false},
		{b.Redirects, false, false, true},
	} {
		n := len(c.GetGroups()) / len(overlay.ID{})
		has := func(is bool, values int) bool { return is && values == n || !is && values == 0 }
		if len(c.GetGroups()) != n*len(overlay.ID{}) || !has(c.edges, len(c.GetEdges())) ||
			!has(c.weights, len(c.GetWeights())) || !has(c.records, len(c.GetRecords())) ||
			!all(c.GetRecords(), func(i uint32) bool { return int(i) < len(b.Records) }) {
			return "batch: column"
		}
		entries += n
	}
	if entries > maxBatch {
		return "batch: too many"
	}
	return ""
}

func all[T any](of []T, is func(T) bool) bool {
	return !slices.ContainsFunc(of, func(v T) bool { return !is(v) })
}

func checkEdgeList(l *scribepb.EdgeList) string {
	if len(l.Edges) > maxList || !isID(l.First) || !isID(l.Last) {
		return "edge list"
	}
	for i, e := range l.Edges {
		if e == nil || !isID(e.Group) || string(e.Group) < string(l.First) || string(e.Group) > string(l.Last) {
			return "edge list: group"
		}
		if i > 0 && string(l.Edges[i-1].Group) >= string(e.Group) {
			return "edge list: order"
		}
	}
	return ""
}

func isRecord(b []byte) bool { return len(b) > 0 && len(b) <= overlay.MaxRecord }

func isID(b []byte) bool { return len(b) == len(overlay.ID{}) }

// withAge returns the frame of a Multicast with the age of its message.
func withAge(frame []byte, age time.Duration) []byte {
	_, body, err := wire.ParseFrame(frame)
	if err != nil {
		panic(fmt.Sprintf("scribe: kept frame: %v", err)) // the frame was parsed or made by this node before
	}
	m, err := parse(body)
	if err != nil {
		panic(fmt.Sprintf("scribe: kept frame: %v", err))
	}
	m.GetMulticast().AgeMs = uint32(age.Milliseconds())
	return wire.AppendFrame(nil, wire.Scribe, m)
}
