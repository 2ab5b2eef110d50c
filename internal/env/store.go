package env

import "errors"

// An Op writes one record, or deletes it if Value is nil.
type Op struct {
	Key, Value []byte

	// Body says that the value is large, written once and rarely read, as the
	// text of an article. A store keeps it apart from the small records, so that
	// these stay quick; Get and Range read it like any other.
	Body bool
}

// ErrDamaged says that a record was found and is not what was written. Nobody is
// ever handed its bytes: what it said is asked of the network again, and the
// record is written anew or deleted.
var ErrDamaged = errors.New("damaged")

// A Store remembers records across a crash.
type Store interface {
	// Commit writes ops together or not at all, and calls done on the loop
	// once they are durable or have failed; those that failed are not
	// promised to be absent after a crash. Batches become durable in the
	// order of their Commits. What must be durable before it is acted upon is
	// acted upon in done; until then, Get may return what was there before.
	// The store keeps ops: they must not be changed.
	Commit(ops []Op, done func(error))

	// Get returns the last durable value of key, nil if there is none. It may
	// wait for a disk: it is for the start of a node, and afterwards for the
	// pure functions of a Worker, since it may be called from any goroutine.
	Get(key []byte) ([]byte, error)

	// Range calls each for every durable record whose key starts with
	// prefix, in the order of keys, until it returns false. Damaged records
	// are left out, and named by the error at the end. As Get, it may wait,
	// and may be called from any goroutine.
	Range(prefix []byte, each func(key, value []byte) bool) error
}
