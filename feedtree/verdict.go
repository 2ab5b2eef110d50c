package feedtree

import (
	"fmt"
	"time"

	"tidings/difference"
	"tidings/feedtree/feedtreepb"
	"tidings/internal/feed"
)

// A verdict is what a sequencer decides about a publication. The zero value accepts it.
type verdict struct {
	answer    feedtreepb.PushReply_Verdict
	reason    string // of a refusal; "": the publication is not refused
	askOrigin bool   // the origin is to be asked for the publisher's key
	newKey    bool   // the publication is the first one of a key that the former key has named
	repeated  bool   // the publication was accepted before
}

// originLag is how long a mirror or cache of an origin may still name a former key. If the origin names the former
// key for longer, that is a change of the key like any other: the owners of that time may have lied.
const originLag = time.Hour

// judge decides about a publication from the feed's pin and the publications that were accepted before, by number.
func judge(pin *difference.Pin, receipts map[uint64]receipt, p *difference.Publication, now time.Time) (v verdict) {
	why := outOfOrder(pin, p)
	switch {
	case pin.Revoked(p.Key):
		// Earlier owners may have lied about the key.
		return verdict{answer: feedtreepb.PushReply_REVOKED, reason: "the feed has withdrawn this key", askOrigin: true}
	case pin.Had(p.Key) && now.Sub(pin.Since) < originLag:
		return verdict{answer: feedtreepb.PushReply_REVOKED, reason: "another key has replaced this one: publish with the file of the new key"}
	case pin != nil && p.By(pin.Key):
	case pin == nil || pin.Next == (feed.Hash{}) || difference.KeyHash(p.Key) != pin.Next:
		return verdict{answer: feedtreepb.PushReply_UNKNOWN, askOrigin: true,
			reason: "the feed's document does not name this key yet: the document is being fetched, and counts only over HTTPS or from a private address"}
	default:
		v.newKey = why == ""
	}
	if was, known := receipts[p.Seq]; known && was.hash == p.Hash {
		v.repeated = true
		return v
	}
	if v.reason = why; why != "" {
		v.answer = feedtreepb.PushReply_CONFLICT
		if p.Seq > pin.Seq+1 {
			v.answer = feedtreepb.PushReply_GAP
		}
	}
	return v
}

// outOfOrder returns the reason why a publication is not the next one, or "" if it is. The first known publication
// of a feed may have any number.
func outOfOrder(pin *difference.Pin, p *difference.Publication) string {
	if pin == nil || pin.Seq == 0 {
		return ""
	}
	last := pin.Seq
	switch {
	case p.Item == nil && p.Seq == last && p.Prev == pin.Head:
	case p.Item == nil && p.Seq <= last:
		return fmt.Sprintf("the heartbeat says that number %d is the last one, but the network has number %d: this publisher's record is old, or somebody else has its key", p.Seq, last)
	case p.Seq <= last:
		return fmt.Sprintf("number %d was used before, and the network has number %d: this publisher's record is old, or somebody else has its key", p.Seq, last)
	case p.Item == nil && p.Seq == last+1, p.Seq > last+1:
		return fmt.Sprintf("the network has number %d and this is number %d: items are missing", last, p.Seq)
	case p.Prev != pin.Head:
		return fmt.Sprintf("this does not continue number %d as the network has it: somebody else has this key, or the publisher's record was lost", last)
	}
	return ""
}
