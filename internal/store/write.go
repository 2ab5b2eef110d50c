package store

import (
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	bolt "go.etcd.io/bbolt"

	"tidings/internal/env"
)

// outsideFrom is how large a body must be to lie outside. One of this size that
// comes alone costs a third more there, for another sync; fifty together cost
// half as much, since bbolt would copy their neighbours, too. And bbolt's file
// never shrinks.
const outsideFrom = 4 << 10

// A change is what a transaction does to one key: sealed is what the file will
// keep, nil to delete.
type change struct{ key, sealed []byte }

// write makes groups of commits durable, and sweeps after each, until the store
// is closed and none wait.
func (d *Disk) write() {
	for range d.some {
		for {
			group, some := d.take()
			if some {
				d.commit(group)
				if d.broken == nil { // else bbolt may hold its locks
					d.touched(sizeOf(group))
				}
			}
			if swept := d.sweepOn(); !some && !swept {
				break
			}
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
func (d *Disk) take() (group []batch, some bool) {
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

func sizeOf(group []batch) (bytes int) {
	for _, c := range group {
		bytes += c.bytes
	}
	return bytes
}

// commit makes a group durable and answers it. What does not fit onto the disk
// is tried in halves: a small record shall not fail for a body beside it.
func (d *Disk) commit(group []batch) {
	err := d.transact(group)
	if errors.Is(err, ErrFull) && len(group) > 1 {
		d.commit(group[:len(group)/2])
		d.commit(group[len(group)/2:])
		return
	}
	d.note(err)
	d.answer(group, err)
}

// note remembers how the last transaction ended.
func (d *Disk) note(err error) {
	d.weigh()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lost = d.head.lost
	d.stats.Failing = ""
	if err != nil {
		d.stats.Failing = err.Error()
	} else {
		d.tired = false
		if d.second != nil && d.second.broken != nil {
			d.stats.Failing = d.second.broken.Error()
		}
	}
}

// weigh counts what is in the segments.
func (d *Disk) weigh() {
	var bytes, free int64
	for _, u := range d.segments.use {
		bytes += u.end
		free += u.end - u.live
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stats.Segments, d.stats.SegmentBytes, d.stats.FreeBytes = len(d.segments.use), bytes, free
}

// transact makes a group of commits durable, bodies first.
func (d *Disk) transact(group []batch) error {
	if d.broken != nil { // which this goroutine alone sets
		return d.broken
	}
	accept := slices.ContainsFunc(group, func(c batch) bool { return c.accept })
	changes, err := d.place(group)
	if err != nil {
		return d.failed(err)
	}
	return d.update(changes, accept)
}

// place writes the bodies of a group, durably, and returns what remains to be
// written.
func (d *Disk) place(group []batch) ([]change, error) {
	var changes []change
	for _, c := range group {
		for _, op := range c.ops {
			switch {
			case op.Value == nil:
				changes = append(changes, change{op.Key, nil})
			case op.Body && len(op.Value) >= outsideFrom:
				p, err := d.segments.add(op.Value)
				if err != nil {
					return nil, err
				}
				changes = append(changes, change{op.Key, p.seal(op.Key)})
			default:
				changes = append(changes, change{op.Key, seal(inline, op.Key, op.Value)})
			}
		}
	}
	return changes, d.segments.sync()
}

// update makes changes durable. The bodies they speak of are in their segments.
func (d *Disk) update(changes []change, accept bool) error {
	next := d.head
	if accept {
		next.lost = ""
	}
	var t tally
	err := guard(func() error { return d.db.Update(next.writer(changes, &t)) })
	if err != nil {
		d.wedged = errors.Is(err, errPanic)
		return d.failed(err)
	}
	d.head = next
	d.segments.account(t.live)
	d.segments.settled()
	d.met(t.damaged)
	d.follow(changes)
	return nil
}

// A tally is what changes do besides.
type tally struct {
	live    map[uint32]int64 // to the live bytes of segments
	damaged int              // records that are overwritten or deleted
}

// writer returns the function of a transaction that makes changes to the records
// that h is the head of, and leaves in h their new head.
func (h *head) writer(changes []change, t *tally) func(*bolt.Tx) error {
	return func(tx *bolt.Tx) error {
		b, hb := tx.Bucket(records), tx.Bucket(heads)
		if now, ok := parseHead(hb.Get(headKey)); !ok || now.number != h.number {
			return fmt.Errorf("%w: the last transaction is gone", env.ErrDamaged)
		}
		t.live = map[uint32]int64{}
		for _, c := range changes {
			if old := b.Get(c.key); old != nil {
				h.drop(old)
				t.count(c.key, old, -1)
			}
			if c.sealed == nil {
				if err := b.Delete(c.key); err != nil {
					return err
				}
				continue
			}
			if err := b.Put(c.key, c.sealed); err != nil {
				return err
			}
			h.add(c.sealed)
			t.count(c.key, c.sealed, 1)
		}
		h.number++
		return hb.Put(headKey, h.seal())
	}
}

// count notes that a record comes (1) or goes (-1).
func (t *tally) count(key, sealed []byte, sign int64) {
	r, ok := parseRecord(key, sealed)
	switch {
	case !ok:
		t.damaged++
	case r.outside:
		t.live[r.place.segment] += sign * int64(r.place.length)
	}
}

// failed decides what becomes of the store after a failure to write. A full disk
// leaves everything as it was. After any other failure the pages in memory may
// not be those on the disk, and a later sync would not say so.
func (d *Disk) failed(err error) error {
	if full(err) && d.unchanged() {
		d.segments.undo()
		return fmt.Errorf("%w: %w", ErrFull, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.broken = fmt.Errorf("nothing more is written until the store is opened again: %w", err)
	return d.broken
}

// unchanged says whether the last transaction that succeeded is the last there
// is.
func (d *Disk) unchanged() bool {
	err := guard(func() error {
		return d.db.View(func(tx *bolt.Tx) error {
			if h, ok := parseHead(tx.Bucket(heads).Get(headKey)); !ok || h.number != d.head.number {
				return env.ErrDamaged
			}
			return nil
		})
	})
	return err == nil
}

// full says whether a write failed for want of room. bbolt keeps but the text of
// some errors.
func full(err error) bool {
	return slices.ContainsFunc(noRoom, func(e error) bool {
		return errors.Is(err, e) || strings.Contains(err.Error(), e.Error())
	})
}

var errPanic = errors.New("bbolt gave up")

// guard runs what uses bbolt's pages. These are mapped into memory: where the
// disk fails or a page lies, bbolt panics or faults, and guard returns that as an
// error.
func guard(f func() error) (err error) {
	fault := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(fault)
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %w: %v", env.ErrDamaged, errPanic, r)
		}
	}()
	return f()
}

// met counts damaged records.
func (d *Disk) met(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stats.Damaged += uint64(n)
}
