package store

import (
	"cmp"
	"errors"
	"fmt"
	"math/bits"
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
			d.closeLog()
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
	switch {
	case err != nil:
		return d.fail(err)
	case accept:
		err = d.fold(changes, func(h *head) { h.lost = "" })
	case d.head.logged && d.log.fits(changes):
		err = d.logChanges(changes)
	case d.head.logged:
		err = d.fold(changes, func(*head) {})
	default:
		made := d.makeLog()
		err = d.fold(changes, func(h *head) { h.logged = made })
	}
	if err == nil {
		d.appendSecond(changes)
	}
	return err
}

// logChanges makes changes durable by the log.
func (d *Disk) logChanges(changes []change) error {
	t, before := effects{live: map[uint32]int64{}}, map[string][]byte{}
	err := d.view(func(tx *bolt.Tx) error {
		for _, c := range changes {
			old, known := before[string(c.key)]
			if !known {
				old, known = d.log.get(c.key)
			}
			if !known {
				old = tx.Bucket(records).Get(c.key)
			}
			t.replace(c, old)
			before[string(c.key)] = c.encoded
		}
		return nil
	})
	if err == nil {
		err = d.log.add(changes)
	}
	if err != nil {
		return d.fail(err)
	}
	d.segments.addLive(t.live)
	d.segments.save()
	d.countDamaged(t.damaged)
	return nil
}

// makeLog makes a log, unless there is one, and reports whether it is there. A full disk has no room for one: then each
// group of commits is a transaction of bbolt. After a failure the next attempts come with fewer and fewer commits.
func (d *Disk) makeLog() bool {
	if d.log.file != nil {
		return true
	}
	if d.log.attempts++; bits.OnesCount(d.log.attempts) > 1 {
		return false
	}
	return d.log.create() == nil
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

// update makes changes durable, the first of which were logged before. The bodies to which they refer are in their
// segments.
func (d *Disk) update(logged, changes []change, edit func(*head)) error {
	next := d.head
	edit(&next)
	var t, counted effects
	err := catchFaults(func() error {
		return d.db.Update(func(tx *bolt.Tx) error {
			return cmp.Or(next.apply(tx, logged, &counted), next.apply(tx, changes, &t), next.put(tx, d.head.number, d.log.number))
		})
	})
	if err != nil {
		d.panicked = errors.Is(err, errPanic)
		return d.fail(err)
	}
	d.head, d.log.number = next, next.number
	d.segments.addLive(t.live)
	d.segments.save()
	d.countDamaged(t.damaged)
	return nil
}

// effects are the side effects of changes.
type effects struct {
	live    map[uint32]int64 // change of the live bytes of segments
	damaged int              // damaged records that are overwritten or deleted
}

// apply applies changes to the records and to the head.
func (h *head) apply(tx *bolt.Tx, changes []change, t *effects) error {
	b := tx.Bucket(records)
	t.live = map[uint32]int64{}
	for _, c := range changes {
		old := b.Get(c.key)
		if old != nil {
			h.drop(old)
		}
		t.replace(c, old)
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
	}
	return nil
}

// put ends a transaction with the new head. before is the number of the head that the file must have. The new one is higher,
// and at least logged.
func (h *head) put(tx *bolt.Tx, before, logged uint64) error {
	b := tx.Bucket(heads)
	if now, ok := parseHead(b.Get(headKey)); !ok || now.number != before {
		return fmt.Errorf("%w: the last transaction is gone", env.ErrDamaged)
	}
	h.version, h.number, h.tx = headVersion, max(before+1, logged), uint64(tx.ID())
	return b.Put(headKey, h.encode())
}

// replace counts the record that a change adds, and the one that it replaces.
func (t *effects) replace(c change, old []byte) {
	if old != nil {
		t.count(c.key, old, -1)
	}
	if c.encoded != nil {
		t.count(c.key, c.encoded, 1)
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
