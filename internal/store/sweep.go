package store

import (
	"bytes"

	bolt "go.etcd.io/bbolt"
)

// A sweep empties all mostly free segments in one walk over the index, with a step after each group
// of commits. New bodies do not go into these segments, so that the keys behind the walk are done. The log is
// empty during a step.
type sweep struct {
	from []byte // key at which the next step begins
}

// One step delays commits for some milliseconds at most.
const (
	sweepRecords = 4096    // records read
	sweepBytes   = 1 << 20 // bytes of bodies moved; the last body may exceed it
)

// sweepSome makes a step if there is anything to sweep, and reports whether there may be more.
func (d *Disk) sweepSome() bool {
	if d.writeErr != nil || d.sweepFailed || d.isClosed() {
		return false
	}
	if d.sweep == nil {
		d.removeDead()
		if !d.segments.chooseMostlyFree() {
			return false
		}
		d.sweep = &sweep{}
	}
	var more bool
	err := d.foldLog() // the walk is over bbolt's records
	if err == nil {
		more, err = d.sweepStep(d.sweep)
	}
	d.countSegments()
	switch {
	case err != nil: // most likely the disk is full, as commits will find, too
		d.sweep, d.sweepFailed = nil, true
		d.segments.endSweep(false)
		return false
	case !more:
		d.sweep = nil
		d.removeDead()
		d.segments.endSweep(true)
	}
	return true
}

func (d *Disk) isClosed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.closed
}

// removeDead removes segments without live bodies.
func (d *Disk) removeDead() {
	for n, u := range d.segments.usage {
		if u.live == 0 && n != d.segments.current && d.foldLog() == nil { // otherwise bbolt's file still names it
			_ = d.segments.remove(n) // otherwise the next Open removes it
		}
	}
	d.countSegments()
}

// chooseMostlyFree marks the segments that the sweep empties.
func (s *segments) chooseMostlyFree() (some bool) {
	for n, u := range s.usage {
		if n == s.current && u.end < s.limit/8 || u.stuck || u.end-u.live <= u.end/2 {
			continue
		}
		if n == s.current {
			s.rotate()
		}
		u.emptying, some = true, true
		s.usage[n] = u
	}
	return some
}

// endSweep ends a sweep for the segments that are not empty. After a complete sweep these hold
// damaged bodies, and later sweeps skip them.
func (s *segments) endSweep(end bool) {
	for n, u := range s.usage {
		if u.emptying {
			u.emptying, u.stuck = false, end
			s.usage[n] = u
		}
	}
}

// sweepStep moves the next few bodies out of the segments that are being emptied.
func (d *Disk) sweepStep(s *sweep) (more bool, err error) {
	var moves []change
	var moved int
	err = d.view(func(tx *bolt.Tx) error {
		c := tx.Bucket(records).Cursor()
		n := 0
		for k, v := c.Seek(s.from); k != nil; k, v = c.Next() {
			if n++; n > sweepRecords || moved >= sweepBytes {
				s.from, more = bytes.Clone(k), true
				return nil
			}
			r, ok := parseRecord(k, v)
			if !ok || !r.external || !d.segments.usage[r.place.segment].emptying {
				continue
			}
			body, err := d.segments.read(r.place)
			if err != nil {
				d.countDamaged(1)
				continue // a reader of the body gets the error
			}
			to, err := d.segments.add(body)
			if err != nil {
				return err
			}
			moves = append(moves, change{bytes.Clone(k), to.encode(k)})
			moved += len(body)
		}
		return nil
	})
	if err == nil && len(moves) > 0 {
		if err = d.segments.sync(); err == nil {
			return more, d.commitMoves(moves, moved)
		}
	}
	if err != nil {
		err = d.fail(err)
	}
	return more, err
}

// commitMoves makes moves durable.
func (d *Disk) commitMoves(moves []change, bytes int) error {
	err := d.update(nil, moves, func(*head) {})
	if err == nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.stats.MovedBytes += uint64(bytes)
	}
	return err
}
