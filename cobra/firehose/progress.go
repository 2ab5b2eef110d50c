package firehose

import (
	"time"

	"google.golang.org/protobuf/proto"

	"tidings/cobra/firehose/firehosepb"
	"tidings/internal/env"
)

// heardKey is where a filter remembers until when it has everything; it does so each
// heardEvery. What came in the minute before a crash may come again.
const (
	progressKey      = "firehose/heard"
	progressInterval = time.Minute
)

// recall goes on where an earlier life of the filter ended. Who has forgotten begins anew.
func (f *Firehose) loadProgress() {
	value, err := f.store.Get([]byte(progressKey))
	m := new(firehosepb.Progress)
	if err != nil || proto.Unmarshal(value, m) != nil || len(m.Shards) != len(f.shards) {
		return
	}
	for i, u := range m.Shards {
		if u.AtMs > 0 && u.AtMs <= maxMillis {
			s := f.shards[i]
			s.branch, s.completeUntil = u.Branch, time.UnixMilli(int64(u.AtMs)).UTC()
			s.beganAt = s.completeUntil
		}
	}
}

// remember notes until when the filter has everything. If the disk refuses, an earlier
// note stands.
func (f *Firehose) saveProgress(now time.Time) {
	if now.Sub(f.progressSavedAt) < progressInterval {
		return
	}
	f.progressSavedAt = now
	m := new(firehosepb.Progress)
	for _, s := range f.shards {
		u := &firehosepb.ShardProgress{Branch: s.branch}
		if !s.completeUntil.IsZero() {
			u.AtMs = uint64(s.completeUntil.UnixMilli())
		}
		m.Shards = append(m.Shards, u)
	}
	f.store.Commit([]env.Op{{Key: []byte(progressKey), Value: marshal(m)}}, func(error) {})
}
