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

// minBody is the size from which a body goes into a segment. A single body of this size costs a
// third more there, for another sync. Fifty together cost half as much, since bbolt would copy
// their neighbours, too. Besides, bbolt's file never shrinks.
const minBody = 4 << 10

// A change is the effect of a transaction on one key. encoded is the new stored value, or nil to
// delete.
type change struct{ key, encoded []byte }

// write makes groups of commits durable, and sweeps after each, until the store is closed and the
// queue is empty.
func (d *Disk) write() {
	for range d.wake {
		for {
			group, some := d.takeGroup()
			if some {
				d.commit(group)
				if d.writeErr == nil { // otherwise bbolt may hold its locks
					d.countTouched(sizeOf(group))
				}
			}
			if swept := d.sweepSome(); !some && !swept {
				break
			}
		}
		if d.finished() {
			return
		}
	}
}

// finished reports whether the store is closing and the queue is empty.
func (d *Disk) finished() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.closed && len(d.waiting) == 0
}

// takeGroup removes the commits of the next transaction from the queue, if there are any.
func (d *Disk) takeGroup() (group []batch, some bool) {
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

// commit makes a group durable and answers it. A group that does not fit on the disk is tried in
// halves, so that a small record does not fail because of a large body.
func (d *Disk) commit(group []batch) {
	err := d.transact(group)
	if errors.Is(err, ErrFull) && len(group) > 1 {
		d.commit(group[:len(group)/2])
		d.commit(group[len(group)/2:])
		return
	}
	d.recordResult(err)
	d.answer(group, err)
}

// recordResult stores the result of the last transaction for Stats.
func (d *Disk) recordResult(err error) {
	d.countSegments()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lost = d.head.lost
	d.stats.Failing = ""
	if err != nil {
		d.stats.Failing = err.Error()
	} else {
		d.sweepFailed = false
		if d.second != nil && d.second.err != nil {
			d.stats.Failing = d.second.err.Error()
		}
	}
}

// countSegments updates the statistics of segments.
func (d *Disk) countSegments() {
	var bytes, free int64
	for _, u := range d.segments.usage {
		bytes += u.end
		free += u.end - u.live
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stats.Segments, d.stats.SegmentBytes, d.stats.FreeBytes = len(d.segments.usage), bytes, free
}

// transact makes a group of commits durable, bodies first.
func (d *Disk) transact(group []batch) error {
	if d.writeErr != nil { // only this goroutine sets writeErr
		return d.writeErr
	}
	accept := slices.ContainsFunc(group, func(c batch) bool { return c.acceptLoss })
	changes, err := d.writeBodies(group)
	if err != nil {
		return d.fail(err)
	}
	return d.update(changes, accept)
}

// writeBodies durably writes the bodies of a group, and returns the changes of the index.
func (d *Disk) writeBodies(group []batch) ([]change, error) {
	var changes []change
	for _, c := range group {
		for _, op := range c.ops {
			switch {
			case op.Value == nil:
				changes = append(changes, change{op.Key, nil})
			case op.Body && len(op.Value) >= minBody:
				p, err := d.segments.add(op.Value)
				if err != nil {
					return nil, err
				}
				changes = append(changes, change{op.Key, p.encode(op.Key)})
			default:
				changes = append(changes, change{op.Key, encode(kindInline, op.Key, op.Value)})
			}
		}
	}
	return changes, d.segments.sync()
}

// update makes changes durable. The bodies to which they refer are in their segments.
func (d *Disk) update(changes []change, accept bool) error {
	next := d.head
	if accept {
		next.lost = ""
	}
	var t effects
	err := catchFaults(func() error { return d.db.Update(next.writer(changes, &t)) })
	if err != nil {
		d.panicked = errors.Is(err, errPanic)
		return d.fail(err)
	}
	d.head = next
	d.segments.addLive(t.live)
	d.segments.save()
	d.countDamaged(t.damaged)
	d.appendSecond(changes)
	return nil
}

// effects are the side effects of changes.
type effects struct {
	live    map[uint32]int64 // change of the live bytes of segments
	damaged int              // damaged records that are overwritten or deleted
}

// writer returns the function of a transaction that applies changes to the records. h must be the
// present head, and becomes the new one.
func (h *head) writer(changes []change, t *effects) func(*bolt.Tx) error {
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
			if c.encoded == nil {
				if err := b.Delete(c.key); err != nil {
					return err
				}
				continue
			}
			if err := b.Put(c.key, c.encoded); err != nil {
				return err
			}
			h.add(c.encoded)
			t.count(c.key, c.encoded, 1)
		}
		h.number++
		return hb.Put(headKey, h.encode())
	}
}

// count counts a record that is added (1) or removed (-1).
func (t *effects) count(key, encoded []byte, sign int64) {
	r, ok := parseRecord(key, encoded)
	switch {
	case !ok:
		t.damaged++
	case r.external:
		t.live[r.place.segment] += sign * int64(r.place.length)
	}
}

// fail decides whether the store can continue after a failed write. A full disk leaves everything
// as it was. After any other failure the pages in memory may differ from those on the disk, and a
// later sync would not report it.
func (d *Disk) fail(err error) error {
	if full(err) && d.unchanged() {
		d.segments.undo()
		return fmt.Errorf("%w: %w", ErrFull, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.writeErr = fmt.Errorf("nothing more is written until the store is opened again: %w", err)
	return d.writeErr
}

// unchanged reports whether the last successful transaction is the last one in the file.
func (d *Disk) unchanged() bool {
	err := d.view(func(tx *bolt.Tx) error {
		if h, ok := parseHead(tx.Bucket(heads).Get(headKey)); !ok || h.number != d.head.number {
			return env.ErrDamaged
		}
		return nil
	})
	return err == nil
}

// full reports whether a write failed because the disk is full. bbolt keeps only the text of some
// errors.
func full(err error) bool {
	return slices.ContainsFunc(noRoom, func(e error) bool {
		return errors.Is(err, e) || strings.Contains(err.Error(), e.Error())
	})
}

var errPanic = errors.New("bbolt gave up")

// catchFaults runs code that uses bbolt's pages. These are mapped into memory: when the disk fails
// or a page is damaged, bbolt panics or faults, and catchFaults returns that as an error.
func catchFaults(f func() error) (err error) {
	fault := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(fault)
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %w: %v", env.ErrDamaged, errPanic, r)
		}
	}()
	return f()
}

// view reads in a transaction.
func (d *Disk) view(f func(*bolt.Tx) error) error {
	return catchFaults(func() error { return d.db.View(f) })
}

// countDamaged counts damaged records.
func (d *Disk) countDamaged(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stats.Damaged += uint64(n)
}
