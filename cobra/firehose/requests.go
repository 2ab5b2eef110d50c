package firehose

import (
	"slices"
	"time"

	"tidings/cobra/firehose/firehosepb"
	"tidings/internal/env"
	"tidings/overlay"
	"tidings/overlay/owner"
)

// requests fetches the entries of one shard that this node lacks, as a filter or as an owner.
type requests struct {
	*place
	missing map[owner.Hash]*missingEntry // at most maxMissing
	// unobtainable are entries that no node could send. An owner does not ask for them again when they are listed again.
	unobtainable map[owner.Hash]bool // at most maxMissing
}

// A missingEntry is an entry that a digest or a list names and that this node lacks.
type missingEntry struct {
	key         overlay.ID // of the channel
	tries       int        // at most maxRequests
	sources     []env.Peer // peers to ask next
	foundOwners bool       // the channel's owners were asked for, after all owners of the shard
}

const (
	// requestDelay is the time between the digest and the first request: the entry may still be on its way.
	requestDelay = 2 * time.Second
	// requestRetry is the time between two requests; it grows by half a second with each.
	requestRetry = 2 * time.Second
	maxRequests  = 10
	// maxMissing bounds the entries of a shard that are requested at a time. The next digest lists the others again.
	maxMissing = 1024
)

func newRequests(p *place) *requests {
	return &requests{place: p, missing: map[owner.Hash]*missingEntry{}, unobtainable: map[owner.Hash]bool{}}
}

// add starts to request an entry. It asks the node that named the entry first, then the other owners of the shard.
func (r *requests) add(ref *firehosepb.EntryRef, by env.PeerID) {
	var sources []env.Peer
	for _, p := range r.tracker.Owners() {
		if p.ID == by {
			sources = slices.Insert(sources, 0, p)
		} else if p.ID != r.self {
			sources = append(sources, p)
		}
	}
	hash := owner.Hash(ref.Entry)
	r.missing[hash] = &missingEntry{key: overlay.ID(ref.Key), sources: sources}
	r.schedule(requestDelay, task{kind: taskRequest, shard: r.number, entry: hash})
}

// retry asks the next node for an entry that is still missing. It returns false if it gives the entry up.
func (r *requests) retry(hash owner.Hash) bool {
	e := r.missing[hash]
	if e == nil {
		return true
	}
	if e.tries++; e.tries > maxRequests {
		delete(r.missing, hash)
		r.stats.Missed++
		r.log.Warn("filter lost an entry that no node could send again", "shard", r.number, "channel", e.key.String())
		return false
	}
	if len(e.sources) == 0 && !e.foundOwners {
		e.foundOwners = true
		r.owners.FindOwners(e.key, func(found owner.Found) {
			for _, c := range found.Peers() {
				e.sources = append(e.sources, c.Peer)
			}
		})
	}
	if len(e.sources) > 0 {
		next := e.sources[0]
		e.sources = e.sources[1:]
		r.send(next, env.Control, &firehosepb.Message{Body: &firehosepb.Message_Request{Request: &firehosepb.Request{
			Shard: uint32(r.number), Key: e.key[:], Entry: hash[:],
		}}})
	}
	r.schedule(requestRetry+time.Duration(e.tries)*time.Second/2, task{kind: taskRequest, shard: r.number, entry: hash})
	return true
}
