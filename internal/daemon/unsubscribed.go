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

// endings are the feeds that somebody here has unsubscribed from by hand. A reader
// that goes on reading one does not bring it back: only who asks for it does. They
// belong to the loop.
type unsubscribedFeeds struct {
	store env.Store
	times map[overlay.ID]int64 // Unix time in seconds
}

const (
	unsubscribedPrefix = "daemon/ended/"
	// maxEndings bounds what is remembered: as many as there can be subscriptions.
	// The oldest is forgotten, and reading it subscribes again.
	maxUnsubscribed = feedtree.MaxSubscriptions
)

// errEnded says why reading did not subscribe.
var errUnsubscribed = errors.New("the user unsubscribed from it")

func unsubscribedKey(key overlay.ID) []byte { return append([]byte(unsubscribedPrefix), key[:]...) }

// loadEndings reads what an earlier life left.
func loadUnsubscribed(s env.Store) (*unsubscribedFeeds, error) {
	u := &unsubscribedFeeds{s, map[overlay.ID]int64{}}
	err := s.Range([]byte(unsubscribedPrefix), func(key, value []byte) bool {
		if len(key) == len(unsubscribedPrefix)+len(overlay.ID{}) && len(value) == 8 {
			u.times[overlay.ID(key[len(unsubscribedPrefix):])] = int64(binary.BigEndian.Uint64(value))
		}
		return true
	})
	if err != nil && !errors.Is(err, env.ErrDamaged) { // what is damaged is forgotten
		return nil, fmt.Errorf("read what was unsubscribed from: %w", err)
	}
	return u, nil
}

func (u *unsubscribedFeeds) has(key overlay.ID) bool {
	_, ok := u.times[key]
	return ok
}

// add remembers an ending, and calls done when it is durable or could not be made so.
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

// remove forgets an ending, if there is one: somebody has asked for the feed again.
func (u *unsubscribedFeeds) remove(key overlay.ID) {
	if u.has(key) {
		delete(u.times, key)
		u.store.Commit([]env.Op{{Key: unsubscribedKey(key)}}, func(error) {}) // else it is forgotten at the next asking
	}
}
