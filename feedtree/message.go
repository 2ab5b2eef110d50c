package feedtree

import (
	"crypto/ed25519"
	"fmt"

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
	// maxMillis is the end of the year 9999. Later times cannot be written in the usual formats.
	maxMillis = 253402300799999
)

// parseNews decodes a message that came down a tree and checks all bounds.
func parseNews(b []byte) (*feedtreepb.News, error) {
	n := new(feedtreepb.News)
	if err := proto.Unmarshal(b, n); err != nil {
		return nil, fmt.Errorf("%w: %w", env.ErrFrame, err)
	}
	switch b := n.News.(type) {
	case *feedtreepb.News_Update:
		if len(b.Update.Entry) == 0 || len(b.Update.Entry) > maxEntry || len(b.Update.Body) > maxInline {
			return nil, fmt.Errorf("%w: update", env.ErrFrame)
		}
	case *feedtreepb.News_Beat:
		if len(b.Beat) == 0 || len(b.Beat) > maxBeat {
			return nil, fmt.Errorf("%w: heartbeat", env.ErrFrame)
		}
	case *feedtreepb.News_Objection:
		if len(b.Objection) == 0 || len(b.Objection) > maxBeat {
			return nil, fmt.Errorf("%w: objection", env.ErrFrame)
		}
	default:
		return nil, fmt.Errorf("%w: no news", env.ErrFrame)
	}
	return n, nil
}

// parse decodes a message and checks all bounds, so that no other code has to.
func parse(body []byte) (*feedtreepb.Message, error) {
	m := new(feedtreepb.Message)
	if err := proto.Unmarshal(body, m); err != nil {
		return nil, fmt.Errorf("%w: %w", env.ErrFrame, err)
	}
	if broken := violation(m); broken != "" {
		return nil, fmt.Errorf("%w: feedtree message: %s", env.ErrFrame, broken)
	}
	return m, nil
}

// violation names the bound that a message breaks, or returns "".
func violation(m *feedtreepb.Message) string {
	switch b := m.Body.(type) {
	case *feedtreepb.Message_Digest, *feedtreepb.Message_DigestAck:
	case *feedtreepb.Message_Heads:
		if len(b.Heads.Heads) > maxHeads {
			return "heads: too many"
		}
		for _, h := range b.Heads.Heads {
			if h == nil || !isKey(h.Key) {
				return "heads: key"
			}
		}
	case *feedtreepb.Message_HeadsReply:
		if len(b.HeadsReply.Different) > maxHeads || len(b.HeadsReply.Unknown) > maxHeads {
			return "heads reply: too many"
		}
		for _, keys := range [][][]byte{b.HeadsReply.Different, b.HeadsReply.Unknown} {
			for _, k := range keys {
				if !isKey(k) {
					return "heads reply: key"
				}
			}
		}
	case *feedtreepb.Message_Beats:
		if len(b.Beats.Beats) > maxBeats {
			return "beats: too many"
		}
		for _, raw := range b.Beats.Beats {
			if len(raw) == 0 || len(raw) > maxBeat {
				return "beats: size"
			}
		}
	case *feedtreepb.Message_Push:
		if len(b.Push.Publication) == 0 || len(b.Push.Publication) > difference.MaxPublication {
			return "push: size"
		}
	case *feedtreepb.Message_PushReply:
		if len(b.PushReply.Hash) != len(feed.Hash{}) || len(b.PushReply.Reason) > maxReason {
			return "push reply: size"
		}
	case *feedtreepb.Message_WitnessRequest:
		if !isKey(b.WitnessRequest.Key) || len(b.WitnessRequest.Publisher) != ed25519.PublicKeySize {
			return "witness request: key"
		}
	case *feedtreepb.Message_WitnessReply:
		if len(b.WitnessReply.Witness) == 0 || len(b.WitnessReply.Witness) > maxBeat {
			return "witness reply: size"
		}
	case *feedtreepb.Message_Objection:
		if len(b.Objection.Witness) == 0 || len(b.Objection.Witness) > maxBeat {
			return "objection: size"
		}
	default:
		return "no body"
	}
	return ""
}

func isKey(b []byte) bool { return len(b) == len(overlay.ID{}) }

func marshal(m proto.Message) []byte {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		panic(fmt.Sprintf("feedtree: encode %T: %v", m, err)) // a URL was let in that is not UTF-8
	}
	return b
}
