package cobra

import (
	"hash/fnv"

	"google.golang.org/protobuf/proto"

	"tidings/cobra/cobrapb"
	"tidings/internal/feed"
)

// recentArticles remembers recently received articles, so that an article that arrives twice is
// handled once. An article may arrive through its channel's tree and the firehose, or again
// after a restart.
type recentArticles struct {
	hashes map[uint64]struct{} // by articleHash
	order  []uint64            // ring buffer
	next   int                 // place in the ring buffer of the next hash
}

const (
	// maxRecent bounds the articles: about twenty minutes at a million feeds (48.5 articles a
	// second).
	maxRecent = 1 << 16
	// reloadedRecent is the number of last stored articles that are remembered after a restart.
	reloadedRecent = 4096
)

// add remembers an article and reports whether it is new. Articles without an identity, which
// no channel has, always count as new.
func (o *recentArticles) add(channel string, id feed.ID) bool {
	if id == (feed.ID{}) {
		return true
	}
	hash := articleHash(channel, id)
	if _, known := o.hashes[hash]; known {
		return false
	}
	if o.hashes == nil {
		o.hashes = map[uint64]struct{}{}
	}
	if len(o.order) < maxRecent {
		o.order = append(o.order, hash)
	} else {
		delete(o.hashes, o.order[o.next])
		o.order[o.next] = hash
		o.next = (o.next + 1) % maxRecent
	}
	o.hashes[hash] = struct{}{}
	return true
}

// remove forgets an article that was not stored after all.
func (o *recentArticles) remove(channel string, id feed.ID) {
	delete(o.hashes, articleHash(channel, id))
}

func articleHash(channel string, id feed.ID) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(channel))
	_, _ = h.Write(id[:])
	return h.Sum64()
}

// loadRecent remembers the articles that were stored last. An article that cannot be read is
// missing in feeds, too, and may arrive again.
func (r *Reflector) loadRecent() error {
	first := max(r.articles.first, r.articles.last-min(r.articles.last, reloadedRecent)+1)
	for n := first; n <= r.articles.last && len(r.articles.sizes) > 0; n++ {
		value, err := r.store.Get(numbered(articlePrefix, n))
		if err := r.skipDamaged(err); err != nil {
			return err
		}
		var m cobrapb.Article
		if value == nil || proto.Unmarshal(value, &m) != nil || len(m.Id) != len(feed.ID{}) {
			continue
		}
		if m.FromBacklog { // the other subscriptions may not have received it
			r.backlog.add(&Article{Feed: m.Feed, ID: feed.ID(m.Id)}, n)
			continue
		}
		r.recent.add(m.Feed, feed.ID(m.Id))
	}
	return nil
}
