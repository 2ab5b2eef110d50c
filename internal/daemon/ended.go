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
type endings struct {
	store env.Store
	at    map[overlay.ID]int64 // Unix time in seconds
}

const (
	endingPrefix = "daemon/ended/"
	// maxEndings bounds what is remembered: as many as there can be subscriptions.
	// The oldest is forgotten, and reading it subscribes again.
	maxEndings = feedtree.MaxSubscriptions
)

// errEnded says why reading did not subscribe.
var errEnded = errors.New("the user unsubscribed from it")

func endingKey(key overlay.ID) []byte { return append([]byte(endingPrefix), key[:]...) }

// loadEndings reads what an earlier life left.
func loadEndings(s env.Store) (*endings, error) {
	e := &endings{s, map[overlay.ID]int64{}}
	err := s.Range([]byte(endingPrefix), func(key, value []byte) bool {
		if len(key) == len(endingPrefix)+len(overlay.ID{}) && len(value) == 8 {
			e.at[overlay.ID(key[len(endingPrefix):])] = int64(binary.BigEndian.Uint64(value))
		}
		return true
	})
	if err != nil && !errors.Is(err, env.ErrDamaged) { // what is damaged is forgotten
		return nil, fmt.Errorf("read what was unsubscribed from: %w", err)
	}
	return e, nil
}

func (e *endings) has(key overlay.ID) bool {
	_, ok := e.at[key]
	return ok
}

// add remembers an ending, and calls done when it is durable or could not be made so.
func (e *endings) add(key overlay.ID, now time.Time, done func(error)) {
	ops := []env.Op{{Key: endingKey(key), Value: binary.BigEndian.AppendUint64(nil, uint64(now.Unix()))}}
	var oldest overlay.ID
	full := !e.has(key) && len(e.at) >= maxEndings
	if full {
		oldest = slices.MinFunc(slices.Collect(maps.Keys(e.at)), func(a, b overlay.ID) int { return cmp.Compare(e.at[a], e.at[b]) })
		ops = append(ops, env.Op{Key: endingKey(oldest)})
	}
	e.store.Commit(ops, func(err error) {
		if err == nil {
			if full {
				delete(e.at, oldest)
			}
			e.at[key] = now.Unix()
		}
		done(err)
	})
}

// remove forgets an ending, if there is one: somebody has asked for the feed again.
func (e *endings) remove(key overlay.ID) {
	if e.has(key) {
		delete(e.at, key)
		e.store.Commit([]env.Op{{Key: endingKey(key)}}, func(error) {}) // else it is forgotten at the next asking
	}
}
