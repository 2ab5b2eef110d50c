package script

import (
	"slices"
	"sort"
	"time"
)

// A Script is a timeline of documents.
type Script interface {
	// At returns the version served at t. Before the script begins this is the first version.
	At(t time.Duration) Version

	// Next returns when the next version after t begins. It returns false if there is none.
	Next(t time.Duration) (at time.Duration, ok bool)
}

// A Version is a document that is served for some time.
type Version struct {
	Index       int // grows from version to version, not always by one
	Since       time.Duration
	ContentType string
	Body        []byte // must not be changed
}

// A Snapshot is a document with the time for which it is served.
type Snapshot struct {
	Body        []byte
	ContentType string
	Hold        time.Duration
}

// A Replay serves one snapshot after the other, and the last one for ever.
type Replay struct {
	snapshots []Snapshot
	ends      []time.Duration // of all snapshots except the last
}

var _ Script = (*Replay)(nil)

// NewReplay returns the script of a list of snapshots, which must not be empty.
func NewReplay(snapshots []Snapshot) *Replay {
	if len(snapshots) == 0 {
		panic("script: a replay of nothing")
	}
	r := &Replay{snapshots: slices.Clone(snapshots)}
	end := time.Duration(0)
	for _, s := range snapshots[:len(snapshots)-1] {
		end += max(0, s.Hold)
		r.ends = append(r.ends, end)
	}
	return r
}

// index returns the index of the snapshot served at t.
func (r *Replay) index(t time.Duration) int {
	return sort.Search(len(r.ends), func(i int) bool { return r.ends[i] > t })
}

// At implements Script.
func (r *Replay) At(t time.Duration) Version {
	i := r.index(t)
	v := Version{Index: i, ContentType: r.snapshots[i].ContentType, Body: r.snapshots[i].Body}
	if i > 0 {
		v.Since = r.ends[i-1]
	}
	return v
}

// Next implements Script.
func (r *Replay) Next(t time.Duration) (time.Duration, bool) {
	if i := r.index(t); i < len(r.ends) {
		return r.ends[i], true
	}
	return 0, false
}
