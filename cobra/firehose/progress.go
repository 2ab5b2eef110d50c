package firehose

import (
	"time"

	"google.golang.org/protobuf/proto"

	"tidings/cobra/firehose/firehosepb"
	"tidings/internal/env"
	"tidings/internal/wire"
)

const (
	// progressKey is the key of a filter's progress in the store.
	progressKey = "firehose/heard"
	// progressInterval is the time between two saves of the progress. The entries of this time may be delivered again
	// after a crash.
	progressInterval = time.Minute
)

// progress remembers until when a filter has received all entries of each shard. It is saved on disk, so that the filter
// continues there after a restart. If the disk fails, the previous state remains.
type progress struct {
	*base
	store   env.Store
	shards  []shardProgress // by number
	savedAt time.Time
}

type shardProgress struct {
	branch        uint64    // of the log of the shard's owners; 0: none yet
	completeUntil time.Time // the filter knows of every entry that owners received before; zero: it has received nothing
}

// newProgress loads the progress of a filter. A filter without a valid saved progress starts as a new one.
func newProgress(b *base, store env.Store) *progress {
	p := &progress{base: b, store: store, shards: make([]shardProgress, b.cfg.Shards)}
	if !b.cfg.Filter || b.cfg.Shards == 0 {
		return p
	}
	value, err := store.Get([]byte(progressKey))
	m := new(firehosepb.Progress)
	if err != nil || proto.Unmarshal(value, m) != nil || len(m.Shards) != len(p.shards) {
		return p
	}
	for i, s := range m.Shards {
		if s.AtMs > 0 && s.AtMs <= wire.MaxMillis {
			p.shards[i] = shardProgress{s.Branch, time.UnixMilli(int64(s.AtMs)).UTC()}
		}
	}
	return p
}

// save saves the progress, unless this was done a moment ago.
func (p *progress) save(now time.Time) {
	if now.Sub(p.savedAt) < progressInterval {
		return
	}
	p.savedAt = now
	m := new(firehosepb.Progress)
	for _, s := range p.shards {
		saved := &firehosepb.ShardProgress{Branch: s.branch}
		if !s.completeUntil.IsZero() {
			saved.AtMs = uint64(s.completeUntil.UnixMilli())
		}
		m.Shards = append(m.Shards, saved)
	}
	p.store.Commit([]env.Op{{Key: []byte(progressKey), Value: wire.Encode(m)}}, func(error) {})
}

// saveNow saves the progress at once.
func (p *progress) saveNow(now time.Time) {
	p.savedAt = time.Time{}
	p.save(now)
}
