package env

// An Op writes one record, or deletes it if Value is nil.
type Op struct {
	Key, Value []byte
}

// A Store remembers records across a crash.
type Store interface {
	// Commit writes ops together or not at all, and calls done on the loop
	// once they are durable or have failed. Batches become durable in the
	// order of their Commits. What must be durable before it is acted upon is
	// acted upon in done. The store keeps ops: they must not be changed.
	Commit(ops []Op, done func(error))

	// Get returns the last durable value of key, nil if there is none. It
	// is for the start of a node: it may wait for a disk.
	Get(key []byte) ([]byte, error)

	// Range calls each for every durable record whose key starts with
	// prefix, in the order of keys, until it returns false. As Get, it is
	// for the start.
	Range(prefix []byte, each func(key, value []byte) bool) error
}
