// Package store keeps a node's records on disk: an [env.Store] on one bbolt
// file.
//
// One goroutine writes. While it waits for the disk, further commits gather and
// then go together in one transaction with one sync, so that a busy node pays
// for few syncs and a quiet one waits for nobody. A commit is durable, whole,
// before its done runs; done is handed to post, which brings it to the node's
// loop:
//
//	disk, err := store.Open(path, l.Deliver)
//	...
//	defer disk.Close()
//
// Reads see what is durable and may wait for the disk; they are for the start
// of a node.
//
// The package leaves to others what the records mean, and how old ones are
// forgotten. sim keeps the same promises in memory, with disks that tear.
package store

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"tidings/internal/env"
)

const (
	// MaxWaiting is how many bytes of commits may wait for the disk. A commit
	// beyond fails with ErrBehind, so that a disk which does not keep up
	// costs writes and not the node's memory.
	MaxWaiting = 64 << 20

	maxKey   = bolt.MaxKeySize   // 32 KiB
	maxValue = bolt.MaxValueSize // 2 GiB

	// maxGroup is how many bytes go into one transaction, unless one commit
	// alone is larger: dirty pages are held in memory until it ends.
	maxGroup = 8 << 20

	// A range is read in steps, so that no read transaction stays open, pins
	// old pages and stops the file from growing while the caller works.
	stepRecords = 256
	stepBytes   = 1 << 20
)

var (
	// ErrClosed says that the store was closed before the commit.
	ErrClosed = errors.New("store is closed")
	// ErrBehind says that MaxWaiting bytes wait for the disk already.
	ErrBehind = errors.New("the disk does not keep up")
	// ErrRecord says that a key or value cannot be stored for its size.
	ErrRecord = errors.New("record of impossible size")
)

// records is the only bucket of the file.
var records = []byte("records")

var _ env.Store = (*Disk)(nil)

// A Disk is a store in one file. Its methods may be called from any goroutine.
type Disk struct {
	db   *bolt.DB
	path string
	post func(func())

	some   chan struct{} // holds one token if commits wait or the store is closing
	writer sync.WaitGroup

	mu      sync.Mutex // guards what follows
	closed  bool
	waiting []commit
	bytes   int // of those waiting
	stats   Stats
}

type commit struct {
	ops   []env.Op
	bytes int
	done  func(error)
}

// Stats counts what a store did since it was opened.
type Stats struct {
	Commits uint64 // made durable
	Syncs   uint64 // transactions they took
	Bytes   uint64 // keys and values written
	Failed  uint64 // commits that failed
	Waiting int    // commits waiting now
}

// Open opens the store at path, and makes it if there is none; its folder must
// exist. post is called, from any goroutine, with each answer to a commit and
// must neither block nor drop it while the node lives. If another process holds
// the file for longer than a second, the error says so.
func Open(path string, post func(func())) (*Disk, error) {
	db, err := bolt.Open(path, 0o600, &bolt.Options{Timeout: time.Second, FreelistType: bolt.FreelistMapType})
	if err == nil {
		err = prepare(db, path)
	}
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, fmt.Errorf("store %s: in use by another process", path)
	case err != nil:
		return nil, fmt.Errorf("store %s: %w", path, err)
	}
	d := &Disk{db: db, path: path, post: post, some: make(chan struct{}, 1)}
	d.writer.Go(d.write)
	return d, nil
}

// prepare makes the bucket, and the file's own name durable.
func prepare(db *bolt.DB, path string) error {
	err := db.Update(func(tx *bolt.Tx) error {
		_, err := tx.CreateBucketIfNotExists(records)
		return err
	})
	if err == nil {
		err = settle(filepath.Dir(path))
	}
	if err != nil {
		return errors.Join(err, db.Close())
	}
	return nil
}

// Close makes durable what waits, answers it, and closes the file. Later
// commits fail with ErrClosed, reads with an error of bbolt.
func (d *Disk) Close() error {
	d.mu.Lock()
	d.closed = true
	d.ring()
	d.mu.Unlock()
	d.writer.Wait()
	if err := d.db.Close(); err != nil {
		return fmt.Errorf("store %s: %w", d.path, err)
	}
	return nil
}

// Commit writes ops together or not at all; see [env.Store]. It never blocks.
func (d *Disk) Commit(ops []env.Op, done func(error)) {
	c, err := newCommit(ops, done)
	if err == nil {
		err = d.enqueue(c)
	}
	if err != nil {
		d.answer([]commit{c}, err)
	}
}

// enqueue lets c wait for the writer, if there is room and time.
func (d *Disk) enqueue(c commit) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.closed:
		return ErrClosed
	case d.bytes+c.bytes > MaxWaiting:
		return ErrBehind
	}
	d.waiting = append(d.waiting, c)
	d.bytes += c.bytes
	d.ring()
	return nil
}

// newCommit refuses what would spoil the transaction for others.
func newCommit(ops []env.Op, done func(error)) (commit, error) {
	c := commit{ops: ops, done: done}
	for _, op := range ops {
		if len(op.Key) == 0 || len(op.Key) > maxKey || len(op.Value) > maxValue {
			return c, fmt.Errorf("%w: key of %d bytes, value of %d", ErrRecord, len(op.Key), len(op.Value))
		}
		c.bytes += len(op.Key) + len(op.Value)
	}
	return c, nil
}

// ring wakes the writer. The mutex is held.
func (d *Disk) ring() {
	select {
	case d.some <- struct{}{}:
	default: // it is about to look anyway
	}
}

// write makes groups of commits durable until the store is closed and none
// wait.
func (d *Disk) write() {
	for range d.some {
		for group, more := d.take(); more; group, more = d.take() {
			d.answer(group, d.db.Update(func(tx *bolt.Tx) error {
				return apply(tx.Bucket(records), group)
			}))
		}
		if d.finished() {
			return
		}
	}
}

// finished says whether the store is closing and nothing waits.
func (d *Disk) finished() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.closed && len(d.waiting) == 0
}

// take removes the commits of the next transaction, if any wait.
func (d *Disk) take() (group []commit, some bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, size := 0, 0
	for n < len(d.waiting) && (n == 0 || size+d.waiting[n].bytes <= maxGroup) {
		size += d.waiting[n].bytes
		n++
	}
	group = slices.Clone(d.waiting[:n])
	d.waiting = slices.Delete(d.waiting, 0, n)
	d.bytes -= size
	return group, n > 0
}

func apply(b *bolt.Bucket, group []commit) error {
	for _, c := range group {
		for _, op := range c.ops {
			var err error
			if op.Value == nil {
				err = b.Delete(op.Key)
			} else {
				err = b.Put(op.Key, op.Value)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// answer counts commits and tells those who made them how they ended.
func (d *Disk) answer(group []commit, err error) {
	if err != nil {
		err = fmt.Errorf("store %s: %w", d.path, err)
	}
	d.count(group, err)
	for _, c := range group {
		d.post(func() { c.done(err) })
	}
}

func (d *Disk) count(group []commit, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil {
		d.stats.Failed += uint64(len(group))
		return
	}
	d.stats.Syncs++
	d.stats.Commits += uint64(len(group))
	for _, c := range group {
		d.stats.Bytes += uint64(c.bytes)
	}
}

// Get returns the last durable value of key, nil if there is none.
func (d *Disk) Get(key []byte) (value []byte, err error) {
	err = d.db.View(func(tx *bolt.Tx) error {
		value = bytes.Clone(tx.Bucket(records).Get(key))
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("store %s: %w", d.path, err)
	}
	return value, nil
}

// Range calls each for the durable records whose key starts with prefix, in the
// order of keys, until it returns false. each may keep what it is given and may
// call the store. A commit that becomes durable meanwhile may be seen in part.
func (d *Disk) Range(prefix []byte, each func(key, value []byte) bool) error {
	from := prefix
	for {
		step, more, err := d.step(prefix, from)
		if err != nil {
			return fmt.Errorf("store %s: %w", d.path, err)
		}
		for _, r := range step {
			if !each(r.Key, r.Value) {
				return nil
			}
		}
		if !more {
			return nil
		}
		from = append(bytes.Clone(step[len(step)-1].Key), 0) // the next possible key
	}
}

// step reads the next few records with prefix, from a key on.
func (d *Disk) step(prefix, from []byte) (step []env.Op, more bool, err error) {
	err = d.db.View(func(tx *bolt.Tx) error {
		c := tx.Bucket(records).Cursor()
		size := 0
		for k, v := c.Seek(from); k != nil && bytes.HasPrefix(k, prefix); k, v = c.Next() {
			if len(step) == stepRecords || size > stepBytes {
				more = true
				return nil
			}
			step = append(step, env.Op{Key: bytes.Clone(k), Value: bytes.Clone(v)})
			size += len(k) + len(v)
		}
		return nil
	})
	return step, more, err
}

// Stats returns the store's counters.
func (d *Disk) Stats() Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.stats
	s.Waiting = len(d.waiting)
	return s
}
