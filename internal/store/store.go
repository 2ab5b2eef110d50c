// Package store keeps a node's records on disk. It implements [env.Store] with one bbolt file and,
// for large values, segments of bodies beside it.
//
//	tidings.db                    the records, and the place of each body
//	tidings.db.log                the changes of the last commits (log.go)
//	tidings.db.bodies/000001.seg  bodies without gaps between them, 64 MiB at most
//	tidings.db.lock               excludes other processes
//	tidings.db.second             a second copy of some records (secondcopy.go)
//	tidings.db.damaged-<time>     a damaged file, as it was found
//
// One goroutine writes. While it waits for the disk, further commits queue up and then share one
// sync. A busy node therefore needs few syncs, and a quiet one does not wait for other
// commits. A group of commits goes into the log, and from there into bbolt's file together with
// many others. A commit is durable as a whole before its done runs. The store passes done to post,
// which brings it to the node's loop:
//
//	disk, err := store.Open(path, l.Deliver, SecondCopy{})
//	...
//	defer disk.Close()
//
// # Bodies
//
// A large value that is an [env.Op.Body] is appended to a segment and synced before its place is
// recorded. After a crash, bytes behind the last recorded body are therefore garbage
// and are overwritten. Deleted bodies leave holes. When more than half of a segment is free, the
// writer moves the remaining bodies, some after each group of commits, and removes the segment. The
// free bytes are not stored: Open counts them.
//
// # Damage
//
// Every record and every body has a checksum, and bytes that do not match it are never returned:
// the reader gets [env.ErrDamaged] with the name. Open reads all records (not the bodies) before
// bbolt does, because bbolt would trust them. If anything is wrong, Open moves the file aside and
// copies all undamaged records to a new one. The head of the file has the number and the checksum
// of all records, so that Open also notices missing ones. If records are missing, or if there was
// no file at all, the node may have lost promises that it kept there. [Disk.Lost] then gives the
// reason until [Disk.AcceptLoss]: a node that signs each position of a log once must not continue
// under its old key. The records of [SecondCopy] are restored from the second copy in this case.
//
// # A full disk
//
// Commits fail with [ErrFull] and reads continue. Commits succeed again when there is room. Of a
// group that does not fit, the part that fits is written. Bodies fail before small records do,
// because bbolt writes small records over free pages of its file; therefore the store reserves no
// space. An undamaged store opens on a full disk: its second copy is then written with the next
// change, and [Stats] reports the failure until it is. After any other failure of the disk, the
// result of another attempt is unknown. All later commits fail until the store is opened again and
// checked.
//
// The package does not know what the records mean or when they are deleted. sim has a store in
// memory with the same guarantees, and disks that tear.
package store

import (
	"errors"
	"fmt"
	"os"
	"sync"

	bolt "go.etcd.io/bbolt"

	"tidings/internal/env"
)

const (
	// MaxWaiting is how many bytes of commits may wait for the disk. Further commits fail with
	// ErrBehind, so that a slow disk costs writes and not the node's memory.
	MaxWaiting = 64 << 20

	maxKey = bolt.MaxKeySize // 32 KiB

	// maxGroup is how many bytes go into one transaction, unless a single commit is larger. bbolt
	// holds dirty pages in memory until the transaction ends.
	maxGroup = 8 << 20
)

var (
	// ErrClosed says that the store was closed before the commit.
	ErrClosed = errors.New("store is closed")
	// ErrBehind says that MaxWaiting bytes are waiting for the disk.
	ErrBehind = errors.New("the disk does not keep up")
	// ErrRecord says that a key or value is too large, or that a key is empty.
	ErrRecord = errors.New("record of impossible size")
	// ErrFull says that the disk had no room for a commit. A later commit may succeed.
	ErrFull = errors.New("disk full")
	// ErrInUse is the error of Open while another process uses the store.
	ErrInUse = errors.New("in use by another process")
	// ErrNewer is the error of Open for a store of a later version of the program, which stays
	// unchanged.
	ErrNewer = errors.New("written by a newer version of tidings")
)

// The buckets of the file are the records, and the head under its only key.
var (
	records = []byte("records")
	heads   = []byte("head")
	headKey = []byte("head")
)

var _ env.Store = (*Disk)(nil)

// A Disk is a store in one file and its segments. Its methods may be called from any goroutine.
type Disk struct {
	db          *bolt.DB
	file        *os.File // file of db
	path        string
	lock        *os.File
	post        func(func())
	segments    *segments
	log         commitLog
	repaired    string
	restored    int  // records restored from the second copy
	secondWhole bool // the second copy was undamaged when it was read

	wake   chan struct{} // holds one token if the writer has something to do
	writer sync.WaitGroup
	mapped mappedPages

	// The fields up to mu belong to the writer.
	head        head
	second      *secondCopy // nil: there is no second copy
	sweep       *sweep      // the running sweep; nil: none
	sweepFailed bool        // the last sweep failed: no further one until a commit succeeds
	panicked    bool        // bbolt panicked in a transaction, and may hold its locks

	mu       sync.Mutex // guards the fields below
	closed   bool
	writeErr error // why the store writes no more; nil: it writes
	lost     string
	waiting  []batch
	bytes    int // size of the waiting commits
	stats    Stats
}

type batch struct {
	ops        []env.Op
	bytes      int
	acceptLoss bool // accepts the loss of promises; the writer itself calls done
	done       func(error)
}

// Stats counts what a store did since it was opened, and what it holds.
type Stats struct {
	Commits uint64 // commits made durable
	Syncs   uint64 // transactions that the commits took
	Bytes   uint64 // bytes of keys and values written
	Failed  uint64 // commits that failed
	Failing string // error of the last group of commits; "" if it succeeded
	Waiting int    // commits waiting now
	Damaged uint64 // damaged records and bodies found, counted each time

	Segments     int    // files of bodies
	SegmentBytes int64  // bytes in files of bodies
	FreeBytes    int64  // bytes of deleted bodies in those files
	MovedBytes   uint64 // bytes moved out of files that were mostly free
}

// Open opens the store at path and creates it if it does not exist; its folder must exist. A
// damaged store is repaired as far as possible: see [Disk.Repaired] and [Disk.Lost]. The store
// calls post, from any goroutine, with each answer to a commit. post must neither block nor drop
// the call while the node lives. Open returns ErrInUse if another process uses the store for longer
// than a second. The records of second are also kept in a second copy: see [Disk.Restored].
func Open(path string, post func(func()), second SecondCopy) (*Disk, error) {
	return openSized(path, post, segmentSize, second)
}

func openSized(path string, post func(func()), segmentSize int64, second SecondCopy) (*Disk, error) {
	d := &Disk{path: path, post: post, wake: make(chan struct{}, 1), log: commitLog{path: path + ".log"}}
	err := d.open(segmentSize)
	if err == nil {
		if err = d.openSecond(second); err != nil {
			err = errors.Join(err, d.closeFiles())
		}
	}
	if err != nil {
		if full(err) {
			err = fmt.Errorf("%w: %w", ErrFull, err)
		}
		return nil, fmt.Errorf("store %s: %w", path, err)
	}
	d.countSegments()
	d.writer.Go(d.write)
	d.signal() // a sweep may be due
	return d, nil
}

// Repaired returns what Open found damaged and did about it, or "" for an undamaged store. It is a
// line for the log. The damage may have cost nothing.
func (d *Disk) Repaired() string { return d.repaired }

// Lost returns why durable records may be missing, or "" if none are. The store is new, or it was
// damaged. In both cases the node must not rely on promises that it kept in the store. Lost returns
// the same reason each time the store is opened, until [Disk.AcceptLoss].
func (d *Disk) Lost() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.lost
}

// AcceptLoss records that the node has dealt with the loss, by taking a new key. Lost is empty
// afterwards.
func (d *Disk) AcceptLoss() error {
	answer := make(chan error, 1)
	if err := d.enqueue(batch{acceptLoss: true, done: func(err error) { answer <- err }}); err != nil {
		return fmt.Errorf("store %s: %w", d.path, err)
	}
	return <-answer
}

// Close makes the waiting commits durable, answers them and closes the files. Later commits fail
// with ErrClosed, and reads with an error of bbolt.
func (d *Disk) Close() error {
	d.mu.Lock()
	d.closed = true
	d.signal()
	d.mu.Unlock()
	d.writer.Wait()
	if err := d.closeFiles(); err != nil {
		return fmt.Errorf("store %s: %w", d.path, err)
	}
	return nil
}

// closeFiles closes all open files.
func (d *Disk) closeFiles() error {
	var errs []error
	switch {
	case d.panicked: // db.Close would wait for ever; the map and bbolt's lock stay until the process ends
		errs = append(errs, d.file.Close())
	case d.db != nil:
		errs = append(errs, d.db.Close())
	case d.file != nil:
		_ = d.file.Close() // bbolt has closed the file, unless it panicked while opening
	}
	if d.segments != nil {
		errs = append(errs, d.segments.close())
	}
	errs = append(errs, d.log.close())
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

// newBatch refuses a record that would make the whole transaction fail.
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

// enqueue queues c for the writer, unless the store is closed, broken or too far behind.
func (d *Disk) enqueue(c batch) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.closed:
		return ErrClosed
	case d.writeErr != nil:
		return d.writeErr
	case d.bytes+c.bytes > MaxWaiting:
		return ErrBehind
	}
	d.waiting = append(d.waiting, c)
	d.bytes += c.bytes
	d.signal()
	return nil
}

// signal wakes the writer. Close calls it with the mutex held.
func (d *Disk) signal() {
	select {
	case d.wake <- struct{}{}:
	default: // the writer will look at the queue anyway
	}
}

// answer counts commits and reports their result to the callers.
func (d *Disk) answer(group []batch, err error) {
	if err != nil {
		err = fmt.Errorf("store %s: %w", d.path, err)
	}
	d.count(group, err)
	for _, c := range group {
		if c.acceptLoss {
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
