package feedtree

import (
	"crypto/ed25519"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"tidings/difference"
	"tidings/feedtree/feedtreepb"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/overlay"
)

const (
	maxHeads = 512
	maxBeats = 64
	// maxBeat is the largest size of a heartbeat or a witness in bytes, envelope included. Half of maxBeats of them
	// fit into a frame.
	maxBeat = 3 << 9
	// maxState is the largest size of the state of a feed's polls in bytes.
	maxState = 1 << 10
	// maxInline is the size in bytes of the largest body that goes down the tree with its entry. Nodes pull larger
	// ones.
	maxInline = 48 << 10
	maxEntry  = 1 << 10
	// maxReason bounds the reason of a refusal, in bytes.
	maxReason = 256
)

// parseNews decodes a message that came down a tree and checks all bounds.
func parseNews(b []byte) (*feedtreepb.News, error) {
	n := new(feedtreepb.News)
	if err := proto.Unmarshal(b, n); err != nil {
		return nil, fmt.Errorf("%w: %w", env.ErrFrame, err)
	}
	valid := false
	switch b := n.News.(type) {
	case *feedtreepb.News_Update:
		valid = within(b.Update.Entry, maxEntry) && len(b.Update.Body) <= maxInline
	case *feedtreepb.News_Beat:
		valid = within(b.Beat, maxBeat)
	case *feedtreepb.News_Statement:
		valid = within(b.Statement, maxStatement)
	case *feedtreepb.News_Objection:
		valid = within(b.Objection, maxBeat)
	}
	if !valid {
		return nil, fmt.Errorf("%w: %T is out of bounds", env.ErrFrame, n.News)
	}
	return n, nil
}

// parse decodes a message and checks all bounds, so that no other code has to.
func parse(body []byte) (*feedtreepb.Message, error) {
	m := new(feedtreepb.Message)
	if err := proto.Unmarshal(body, m); err != nil {
		return nil, fmt.Errorf("%w: %w", env.ErrFrame, err)
	}
	valid := false
	switch b := m.Body.(type) {
	case *feedtreepb.Message_Digest, *feedtreepb.Message_DigestAck:
		valid = true
	case *feedtreepb.Message_Heads:
		valid = each(b.Heads.Heads, maxHeads, func(h *feedtreepb.Head) bool { return h != nil && isKey(h.Key) })
	case *feedtreepb.Message_HeadsReply:
		valid = each(b.HeadsReply.Different, maxHeads, isKey) && each(b.HeadsReply.Unknown, maxHeads, isKey)
	case *feedtreepb.Message_Beats:
		valid = each(b.Beats.Beats, maxBeats, func(raw []byte) bool { return within(raw, maxBeat) }) &&
			each(b.Beats.Statements, maxStatements, func(raw []byte) bool { return within(raw, maxStatement) })
	case *feedtreepb.Message_Push:
		valid = within(b.Push.Publication, difference.MaxEnvelope) &&
			each(b.Push.More, maxPushes-1, func(raw []byte) bool { return within(raw, difference.MaxEnvelope) })
	case *feedtreepb.Message_PushReply:
		valid = isHash(b.PushReply.Hash) && len(b.PushReply.Reason) <= maxReason && each(b.PushReply.More, maxPushes-1, isHash)
	case *feedtreepb.Message_ContentRequest:
		valid = isHash(b.ContentRequest.Hash)
	case *feedtreepb.Message_Content:
		valid = isHash(b.Content.Hash) && within(b.Content.Bytes, maxContentPart)
	case *feedtreepb.Message_WitnessRequest:
		valid = isKey(b.WitnessRequest.Key) && len(b.WitnessRequest.Publisher) == ed25519.PublicKeySize
	case *feedtreepb.Message_WitnessReply:
		valid = within(b.WitnessReply.Witness, maxBeat)
	case *feedtreepb.Message_SightRequest:
		valid = isKey(b.SightRequest.Key) && len(b.SightRequest.Items) > 0 && len(b.SightRequest.Items) <= difference.MaxSeen
	case *feedtreepb.Message_Sight:
		valid = within(b.Sight.Sighting, difference.MaxSighting)
	case *feedtreepb.Message_Contest:
		valid = isKey(b.Contest.Key) && len(b.Contest.Sightings) > 0 &&
			each(b.Contest.Sightings, difference.MaxSightings, func(raw []byte) bool { return within(raw, difference.MaxSighting) })
	case *feedtreepb.Message_Audit:
		valid = within(b.Audit.Sighting, difference.MaxSighting)
	case *feedtreepb.Message_Objection:
		valid = within(b.Objection.Witness, maxBeat)
	}
	if !valid {
		return nil, fmt.Errorf("%w: %T is out of bounds", env.ErrFrame, m.Body)
	}
	return m, nil
}

// within reports whether b has 1 to most bytes.
func within(b []byte, most int) bool { return len(b) > 0 && len(b) <= most }

// each reports whether there are at most a given number of values and all are valid.
func each[T any](of []T, most int, valid func(T) bool) bool {
	return len(of) <= most && !slices.ContainsFunc(of, func(v T) bool { return !valid(v) })
}

func isHash(b []byte) bool { return len(b) == len(feed.Hash{}) }

func isKey(b []byte) bool { return len(b) == len(overlay.ID{}) }
