package env

import "errors"

// An Op writes one record, or deletes it if Value is nil.
type Op struct {
	Key, Value []byte

	// Body says that the value is large, written once and rarely read, as the text of an article. A
	// store keeps bodies apart from the small records, so that these stay fast. Get and Range read
	// both alike.
	Body bool
}

// ErrDamaged says that a record exists but fails its checksum. Its bytes are never returned. The
// caller gets the data from the network again, and rewrites or deletes the record.
var ErrDamaged = errors.New("damaged")

// A Store remembers records across a crash.
type Store interface {
	// Commit writes ops together or not at all, and calls done on the loop once they are durable or
	// have failed. Failed ops may still exist after a crash. Batches become durable in the order of
	// their Commits. An action that needs a durable record belongs in done; until then, Get may
	// return the previous value. The store keeps ops, so that they must not be changed.
	Commit(ops []Op, done func(error))

	// Get returns the last durable value of key, or nil if there is none. It may wait for a disk.
	// Use it while a node starts, and afterwards only in the pure functions of a Worker: it may be
	// called from any goroutine.
	Get(key []byte) ([]byte, error)

	// Range calls each for every durable record whose key starts with prefix, in the order of keys,
	// until it returns false. Damaged records are left out and named by the error at the end. Like
	// Get, Range may wait and may be called from any goroutine.
	Range(prefix []byte, each func(key, value []byte) bool) error
}
