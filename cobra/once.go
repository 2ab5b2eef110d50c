package cobra

import (
	"hash/fnv"

	"google.golang.org/protobuf/proto"

	"tidings/cobra/cobrapb"
	"tidings/internal/feed"
)

// once knows the articles of late, so that one that comes by several ways is taken once: by
// its channel's tree and by the firehose, or again after a restart.
type once struct {
	known map[uint64]struct{}
	order []uint64 // a ring
	next  int
}

const (
	// maxOnce is how many articles are known: those of twenty minutes at a million feeds
	// (48.5 a second).
	maxOnce = 1 << 16
	// onceAgain is how many of the last ones that were kept are known after a restart.
	onceAgain = 4096
)

// first says whether an article was not known, and knows it from now on. Those without an
// identity, which no channel has, cannot be told apart.
func (o *once) first(channel string, id feed.ID) bool {
	if id == (feed.ID{}) {
		return true
	}
	sum := sumOf(channel, id)
	if _, known := o.known[sum]; known {
		return false
	}
	if o.known == nil {
		o.known = map[uint64]struct{}{}
	}
	if len(o.order) < maxOnce {
		o.order = append(o.order, sum)
	} else {
		delete(o.known, o.order[o.next])
		o.order[o.next] = sum
		o.next = (o.next + 1) % maxOnce
	}
	o.known[sum] = struct{}{}
	return true
}

// forget knows an article no longer: it was not kept after all.
func (o *once) forget(channel string, id feed.ID) { delete(o.known, sumOf(channel, id)) }

func sumOf(channel string, id feed.ID) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(channel))
	_, _ = h.Write(id[:])
	return h.Sum64()
}

// recall knows the articles that were kept last. What cannot be read is missing in feeds,
// too, and may come again.
func (r *Reflector) recall() error {
	first := max(r.stock.first, r.stock.last-min(r.stock.last, onceAgain)+1)
	for n := first; n <= r.stock.last && len(r.stock.sizes) > 0; n++ {
		value, err := r.store.Get(numbered(articlePrefix, n))
		if err := r.damaged(err); err != nil {
			return err
		}
		var m cobrapb.Article
		if value == nil || proto.Unmarshal(value, &m) != nil || len(m.Id) != len(feed.ID{}) {
			continue
		}
		if m.Early { // all others may have missed it
			r.early.add(&Article{Feed: m.Feed, ID: feed.ID(m.Id)}, n)
			continue
		}
		r.once.first(m.Feed, feed.ID(m.Id))
	}
	return nil
}
