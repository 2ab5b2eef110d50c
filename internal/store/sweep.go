package store

import (
	"bytes"

	bolt "go.etcd.io/bbolt"
)

// A sweep empties all segments that are mostly free, in one walk over the index,
// a step after each group of commits. What is committed meanwhile does not go
// into these segments, so what lies behind the walk is done.
type sweep struct {
	from []byte // key the next step begins at
}

// A step of a sweep makes commits wait for some milliseconds at most.
const (
	sweepRecords = 4096    // looked at
	sweepBytes   = 1 << 20 // of bodies moved, or a body more
)

// sweepOn makes a step, if there is anything to sweep, and says whether there is
// more.
func (d *Disk) sweepOn() (more bool) {
	if d.broken != nil || d.tired || d.isClosed() {
		return false
	}
	if d.sweep == nil {
		d.discard()
		if !d.segments.choose() {
			return false
		}
		d.sweep = &sweep{}
	}
	more, err := d.sweepStep(d.sweep)
	d.weigh()
	switch {
	case err != nil: // a full disk most likely, which commits will notice, too
		d.sweep, d.tired = nil, true
		d.segments.spare(false)
		return false
	case !more:
		d.sweep = nil
		d.discard()
		d.segments.spare(true)
	}
	return true
}

func (d *Disk) isClosed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.closed
}

// discard removes segments without live bodies.
func (d *Disk) discard() {
	for n, u := range d.segments.use {
		if u.live == 0 && n != d.segments.current {
			_ = d.segments.remove(n) // else when the store is opened again
		}
	}
	d.weigh()
}

// choose picks the segments to be emptied.
func (s *segments) choose() (some bool) {
	for n, u := range s.use {
		if n == s.current && u.end < s.limit/8 || u.stuck || u.end-u.live <= u.end/2 {
			continue
		}
		if n == s.current {
			s.seal()
		}
		u.emptied, some = true, true
		s.use[n] = u
	}
	return some
}

// spare ends a sweep for the segments that are not empty after all. Those that
// were swept to the end hold damaged bodies: they are left alone from now on.
func (s *segments) spare(end bool) {
	for n, u := range s.use {
		if u.emptied {
			u.emptied, u.stuck = false, end
			s.use[n] = u
		}
	}
}

// sweepStep moves the next few bodies out of segments to be emptied.
func (d *Disk) sweepStep(s *sweep) (more bool, err error) {
	var moves []change
	var moved int
	err = guard(func() error {
		return d.db.View(func(tx *bolt.Tx) error {
			c := tx.Bucket(records).Cursor()
			n := 0
			for k, v := c.Seek(s.from); k != nil; k, v = c.Next() {
				if n++; n > sweepRecords || moved >= sweepBytes {
					s.from, more = bytes.Clone(k), true
					return nil
				}
				r, ok := parseRecord(k, v)
				if !ok || !r.outside || !d.segments.use[r.place.segment].emptied {
					continue
				}
				body, err := d.segments.read(r.place)
				if err != nil {
					d.met(1)
					continue // whoever asks for it is told
				}
				to, err := d.segments.add(body)
				if err != nil {
					return err
				}
				moves = append(moves, change{bytes.Clone(k), to.seal(k)})
				moved += len(body)
			}
			return nil
		})
	})
	if err == nil && len(moves) > 0 {
		if err = d.segments.sync(); err == nil {
			return more, d.swept(moves, moved)
		}
	}
	if err != nil {
		err = d.failed(err)
	}
	return more, err
}

// swept makes moves durable.
func (d *Disk) swept(moves []change, bytes int) error {
	err := d.update(moves, false)
	if err == nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.stats.MovedBytes += uint64(bytes)
	}
	return err
}
