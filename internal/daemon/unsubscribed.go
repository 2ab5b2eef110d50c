package daemon

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"tidings/feedtree"
	"tidings/internal/env"
	"tidings/overlay"
)

// unsubscribedFeeds remembers the feeds that the user has unsubscribed from. If a feed reader goes on reading
// such a feed, the node does not subscribe again; only a request of the user does that. The loop owns it.
type unsubscribedFeeds struct {
	store env.Store
	times map[overlay.ID]int64 // when the user unsubscribed, Unix time in seconds
}

const (
	unsubscribedPrefix = "daemon/ended/"
	// maxUnsubscribed bounds the remembered feeds to as many as there can be subscriptions. Beyond it the
	// oldest one is forgotten, and reading that feed subscribes again.
	maxUnsubscribed = feedtree.MaxSubscriptions
)

// errUnsubscribed is the reason why reading does not subscribe.
var errUnsubscribed = errors.New("the user has unsubscribed from this feed")

func unsubscribedKey(key overlay.ID) []byte { return append([]byte(unsubscribedPrefix), key[:]...) }

// loadUnsubscribed reads what the store has from earlier runs.
func loadUnsubscribed(s env.Store) (*unsubscribedFeeds, error) {
	u := &unsubscribedFeeds{s, map[overlay.ID]int64{}}
	err := s.Range([]byte(unsubscribedPrefix), func(key, value []byte) bool {
		if len(key) == len(unsubscribedPrefix)+len(overlay.ID{}) && len(value) == 8 {
			u.times[overlay.ID(key[len(unsubscribedPrefix):])] = int64(binary.BigEndian.Uint64(value))
		}
		return true
	})
	if err != nil && !errors.Is(err, env.ErrDamaged) { // damaged records are ignored
		return nil, fmt.Errorf("read the feeds that were unsubscribed from: %w", err)
	}
	return u, nil
}

func (u *unsubscribedFeeds) has(key overlay.ID) bool {
	_, ok := u.times[key]
	return ok
}

// add remembers a feed, and calls done when the record is durable or the commit failed.
func (u *unsubscribedFeeds) add(key overlay.ID, now time.Time, done func(error)) {
	ops := []env.Op{{Key: unsubscribedKey(key), Value: binary.BigEndian.AppendUint64(nil, uint64(now.Unix()))}}
	var oldest overlay.ID
	full := !u.has(key) && len(u.times) >= maxUnsubscribed
	if full {
		oldest = slices.MinFunc(slices.Collect(maps.Keys(u.times)), func(a, b overlay.ID) int { return cmp.Compare(u.times[a], u.times[b]) })
		ops = append(ops, env.Op{Key: unsubscribedKey(oldest)})
	}
	u.store.Commit(ops, func(err error) {
		if err == nil {
			if full {
				delete(u.times, oldest)
			}
			u.times[key] = now.Unix()
		}
		done(err)
	})
}

// remove forgets a feed, because it was subscribed to again.
func (u *unsubscribedFeeds) remove(key overlay.ID) {
	if u.has(key) {
		delete(u.times, key)
		u.store.Commit([]env.Op{{Key: unsubscribedKey(key)}}, func(error) {}) // if the commit fails, the next subscription forgets the feed
	}
}
