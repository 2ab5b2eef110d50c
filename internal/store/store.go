// Package store keeps a node's records on disk: an [env.Store] on one bbolt
// file and, for large values, segments of bodies beside it.
//
//	tidings.db                    the records, and where each body lies
//	tidings.db.bodies/000001.seg  bodies, one behind the other, 64 MiB at most
//	tidings.db.lock               keeps other processes out
//	tidings.db.second             some of the records a second time (second.go)
//	tidings.db.damaged-<time>     a file that was damaged, as it was found
//
// One goroutine writes. While it waits for the disk, further commits gather and
// then go together in one transaction, so that a busy node pays for few syncs
// and a quiet one waits for nobody. A commit is durable, whole, before its done
// runs; done is handed to post, which brings it to the node's loop:
//
//	disk, err := store.Open(path, l.Deliver, Twice{})
//	...
//	defer disk.Close()
//
// # Bodies
//
// A large value that is an [env.Op.Body] is written to the end of a segment, and
// synced before the transaction that says where it lies: what a crash leaves
// behind the last known body is no body, and is written over. Deleted bodies
// leave holes; a segment of which more than half is free is emptied by the
// writer, a little after each group of commits, and removed. How much is free is
// nowhere written down: it is counted when the store is opened.
//
// # Damage
//
// Every record and every body has a checksum, and nobody is handed bytes that do
// not fit theirs: a reader gets [env.ErrDamaged] and the name instead. Open
// reads all records (not the bodies), before bbolt does, which would trust them.
// A file with anything wrong is moved aside, and all records that are whole are
// taken over into a new one. The head of the file knows what all records come
// to; so Open also knows whether any are missing. If so, or if there was no file
// at all, promises that were kept in it are forgotten, and [Disk.Lost] says so
// until [Disk.Accept]: a node that signs each position of a log once must not
// sign on under its old key. Records that are kept twice ([Twice]) come back from their
// second copy then.
//
// # A full disk
//
// Commits fail with [ErrFull], reads go on, and when there is room again commits
// succeed as if nothing had been. Of a group that does not fit, what fits is
// written: bodies fail before small records do, because bbolt writes these over
// free pages it already has. That is why no ballast is kept to be thrown off.
// A store that is whole opens on a full disk: its second copy is then written
// with the next change, and [Stats] says so until it is.
// After any other failure of the disk nobody knows what a second try would leave
// there: all later commits fail, until the store is opened again and checked.
//
// The package leaves to others what the records mean, and how old ones are
// forgotten. sim keeps the same promises in memory, with disks that tear.
package store

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	bolt "go.etcd.io/bbolt"

	"tidings/internal/env"
)

const (
	// MaxWaiting is how many bytes of commits may wait for the disk. A commit
	// beyond fails with ErrBehind, so that a disk which does not keep up
	// costs writes and not the node's memory.
	MaxWaiting = 64 << 20

	maxKey = bolt.MaxKeySize // 32 KiB

	// maxGroup is how many bytes go into one transaction, unless one commit
	// alone is larger: dirty pages are held in memory until it ends.
	maxGroup = 8 << 20
)

var (
	// ErrClosed says that the store was closed before the commit.
	ErrClosed = errors.New("store is closed")
	// ErrBehind says that MaxWaiting bytes wait for the disk already.
	ErrBehind = errors.New("the disk does not keep up")
	// ErrRecord says that a key or value cannot be stored for its size.
	ErrRecord = errors.New("record of impossible size")
	// ErrFull says that there was no room for a commit. A later one may
	// succeed.
	ErrFull = errors.New("disk full")
	// ErrInUse is the error of Open while another process has the store.
	ErrInUse = errors.New("in use by another process")
	// ErrNewer is the error of Open for a store of a later version of the program. Open leaves it as it is.
	ErrNewer = errors.New("written by a newer version of tidings")
)

// The buckets of the file: the records, and the head under its only key.
var (
	records = []byte("records")
	heads   = []byte("head")
	headKey = []byte("head")
)

var _ env.Store = (*Disk)(nil)

// A Disk is a store in one file and its segments. Its methods may be called from
// any goroutine.
type Disk struct {
	db       *bolt.DB
	file     *os.File // of db
	path     string
	lock     *os.File
	post     func(func())
	segments *segments
	repaired string
	back     int  // records that came back from the second copy
	whole    bool // that was whole

	some   chan struct{} // holds one token if the writer has something to do
	writer sync.WaitGroup
	mapped atomic.Int64 // bytes that were read or written since pages were given back

	// These belong to the writer.
	head   head
	second *second // nil: no record is kept twice
	sweep  *sweep  // under way; nil: none
	tired  bool    // a sweep failed: none before a commit succeeds
	wedged bool    // bbolt panicked in a transaction, and may hold its locks

	mu      sync.Mutex // guards what follows
	closed  bool
	broken  error // why nothing is written any more
	lost    string
	waiting []batch
	bytes   int // of those waiting
	stats   Stats
}

type batch struct {
	ops    []env.Op
	bytes  int
	accept bool // that promises are lost; done is called by the writer itself
	done   func(error)
}

// Stats says what a store did since it was opened, and what it holds.
type Stats struct {
	Commits uint64 // commits made durable
	Syncs   uint64 // transactions that the commits took
	Bytes   uint64 // bytes of keys and values written
	Failed  uint64 // commits that failed
	Failing string // how the last group of commits failed; "" if it did not
	Waiting int    // commits waiting now
	Damaged uint64 // damaged records and bodies found; one may be found again

	Segments     int    // files of bodies
	SegmentBytes int64  // bytes in files of bodies
	FreeBytes    int64  // bytes of deleted bodies in those files
	MovedBytes   uint64 // bytes moved out of files that were mostly free
}

// Open opens the store at path, and makes it if there is none; its folder must
// exist. A damaged one is repaired as far as possible: see [Disk.Repaired] and
// [Disk.Lost]. post is called, from any goroutine, with each answer to a commit
// and must neither block nor drop it while the node lives. If another process
// holds the store for longer than a second, the error says so. The records of twice are kept a
// second time: see [Disk.Restored].
func Open(path string, post func(func()), twice Twice) (*Disk, error) {
	return openSized(path, post, segmentSize, twice)
}

func openSized(path string, post func(func()), segmentSize int64, twice Twice) (*Disk, error) {
	d := &Disk{path: path, post: post, some: make(chan struct{}, 1)}
	err := d.open(segmentSize)
	if err == nil {
		if err = d.openSecond(twice); err != nil {
			err = errors.Join(err, d.shut())
		}
	}
	if err != nil {
		if full(err) {
			err = fmt.Errorf("%w: %w", ErrFull, err)
		}
		return nil, fmt.Errorf("store %s: %w", path, err)
	}
	d.weigh()
	d.writer.Go(d.write)
	d.ring() // there may be something to sweep
	return d, nil
}

// Repaired says what Open found damaged and what it did, "" if all was well. It
// is a line for the log; the damage may have cost nothing.
func (d *Disk) Repaired() string { return d.repaired }

// Lost says why records that were durable may be missing, "" if none are. The
// store is new, or it was damaged; either way no promise that was kept in it can
// be relied upon. Lost says the same each time the store is opened, until
// [Disk.Accept].
func (d *Disk) Lost() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.lost
}

// Accept makes durable that promises are forgotten: the node has acted upon it,
// by taking a new key. Afterwards Lost is empty.
func (d *Disk) Accept() error {
	answer := make(chan error, 1)
	if err := d.enqueue(batch{accept: true, done: func(err error) { answer <- err }}); err != nil {
		return fmt.Errorf("store %s: %w", d.path, err)
	}
	return <-answer
}

// Close makes durable what waits, answers it, and closes the files. Later
// commits fail with ErrClosed, reads with an error of bbolt.
func (d *Disk) Close() error {
	d.mu.Lock()
	d.closed = true
	d.ring()
	d.mu.Unlock()
	d.writer.Wait()
	if err := d.shut(); err != nil {
		return fmt.Errorf("store %s: %w", d.path, err)
	}
	return nil
}

// shut closes the files, as far as they are open.
func (d *Disk) shut() error {
	var errs []error
	switch {
	case d.wedged: // Close would wait for ever; the map, and bbolt's lock, stay till the process ends
		errs = append(errs, d.file.Close())
	case d.db != nil:
		errs = append(errs, d.db.Close())
	case d.file != nil:
		_ = d.file.Close() // it is closed, unless bbolt panicked as it opened it
	}
	if d.segments != nil {
		errs = append(errs, d.segments.close())
	}
	if d.second != nil && d.second.file != nil {
		errs = append(errs, d.second.file.Close())
	}
	return errors.Join(append(errs, d.lock.Close())...)
}

// Commit writes ops together or not at all; see [env.Store]. It never blocks.
func (d *Disk) Commit(ops []env.Op, done func(error)) {
	c, err := newBatch(ops, done)
	if err == nil {
		err = d.enqueue(c)
	}
	if err != nil {
		d.answer([]batch{c}, err)
	}
}

// newBatch refuses what would spoil the transaction for others.
func newBatch(ops []env.Op, done func(error)) (batch, error) {
	c := batch{ops: ops, done: done}
	for _, op := range ops {
		if len(op.Key) == 0 || len(op.Key) > maxKey || len(op.Value) > MaxWaiting {
			return c, fmt.Errorf("%w: key of %d bytes, value of %d", ErrRecord, len(op.Key), len(op.Value))
		}
		c.bytes += len(op.Key) + len(op.Value)
	}
	return c, nil
}

// enqueue lets c wait for the writer, if there is room and time.
func (d *Disk) enqueue(c batch) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.closed:
		return ErrClosed
	case d.broken != nil:
		return d.broken
	case d.bytes+c.bytes > MaxWaiting:
		return ErrBehind
	}
	d.waiting = append(d.waiting, c)
	d.bytes += c.bytes
	d.ring()
	return nil
}

// ring wakes the writer. Whoever closes the store holds the mutex.
func (d *Disk) ring() {
	select {
	case d.some <- struct{}{}:
	default: // it is about to look anyway
	}
}

// answer counts commits and tells those who made them how they ended.
func (d *Disk) answer(group []batch, err error) {
	if err != nil {
		err = fmt.Errorf("store %s: %w", d.path, err)
	}
	d.count(group, err)
	for _, c := range group {
		if c.accept {
			c.done(err)
		} else {
			d.post(func() { c.done(err) })
		}
	}
}

func (d *Disk) count(group []batch, err error) {
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

// Stats returns the store's counters.
func (d *Disk) Stats() Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.stats
	s.Waiting = len(d.waiting)
	return s
}
