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
	heardKey   = "firehose/heard"
	heardEvery = time.Minute
)

// recall goes on where an earlier life of the filter ended. Who has forgotten begins anew.
func (f *Firehose) recall() {
	value, err := f.store.Get([]byte(heardKey))
	m := new(firehosepb.Heard)
	if err != nil || proto.Unmarshal(value, m) != nil || len(m.Shards) != len(f.shards) {
		return
	}
	for i, u := range m.Shards {
		if u.AtMs > 0 && u.AtMs <= maxMillis {
			s := f.shards[i]
			s.lineage, s.upTo = u.Lineage, time.UnixMilli(int64(u.AtMs)).UTC()
			s.began = s.upTo
		}
	}
}

// remember notes until when the filter has everything. If the disk refuses, an earlier
// note stands.
func (f *Firehose) remember(now time.Time) {
	if now.Sub(f.remembered) < heardEvery {
		return
	}
	f.remembered = now
	m := new(firehosepb.Heard)
	for _, s := range f.shards {
		u := &firehosepb.UpTo{Lineage: s.lineage}
		if !s.upTo.IsZero() {
			u.AtMs = uint64(s.upTo.UnixMilli())
		}
		m.Shards = append(m.Shards, u)
	}
	f.store.Commit([]env.Op{{Key: []byte(heardKey), Value: marshal(m)}}, func(error) {})
}
