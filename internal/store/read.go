package store

import (
	"bytes"
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"tidings/internal/env"
)

// A range is read in steps, so that no read transaction stays open, pins old
// pages and stops the file from growing while the caller works.
const (
	stepRecords = 256
	stepBytes   = 1 << 20
)

// Get returns the last durable value of key, nil if there is none.
func (d *Disk) Get(key []byte) (value []byte, err error) {
	defer func() { d.touched(len(value)) }()
	d.segments.gate.RLock()
	defer d.segments.gate.RUnlock()
	err = guard(func() error {
		return d.db.View(func(tx *bolt.Tx) error {
			if sealed := tx.Bucket(records).Get(key); sealed != nil {
				value, err = d.value(key, sealed)
			}
			return err
		})
	})
	if err != nil {
		if errors.Is(err, env.ErrDamaged) {
			d.met(1)
		}
		return nil, fmt.Errorf("store %s: record %.64q: %w", d.path, key, err)
	}
	return value, nil
}

// value returns a copy of what the file keeps under key, wherever it lies. The
// caller holds the gate of the segments.
func (d *Disk) value(key, sealed []byte) ([]byte, error) {
	r, ok := parseRecord(key, sealed)
	switch {
	case !ok:
		return nil, env.ErrDamaged
	case r.outside:
		return d.segments.read(r.place)
	}
	return append([]byte{}, r.value...), nil // not nil, even if it is empty
}

// Range calls each for the durable records whose key starts with prefix, in the
// order of keys, until it returns false. each may keep what it is given and may
// call the store. A commit that becomes durable meanwhile may be seen in part.
// Damaged records are left out, and the error at the end names the first few.
func (d *Disk) Range(prefix []byte, each func(key, value []byte) bool) error {
	var damaged findings
	from := prefix
	for more := true; more; {
		s, err := d.step(prefix, from)
		if err != nil {
			return fmt.Errorf("store %s: %w", d.path, err)
		}
		for _, err := range s.damaged {
			damaged.add("%v", err)
		}
		for _, r := range s.records {
			if !each(r.Key, r.Value) {
				return nil
			}
		}
		d.touched(s.bytes)
		more, from = s.more, append(s.last, 0) // the next possible key
	}
	if damaged.n > 0 {
		d.met(damaged.n)
		return fmt.Errorf("store %s: %w: %v", d.path, env.ErrDamaged, &damaged)
	}
	return nil
}

// A step is a part of a range.
type step struct {
	records []env.Op
	damaged []error
	last    []byte // key
	bytes   int
	more    bool
}

// step reads the next few records with prefix, from a key on.
func (d *Disk) step(prefix, from []byte) (s step, err error) {
	d.segments.gate.RLock()
	defer d.segments.gate.RUnlock()
	err = guard(func() error {
		return d.db.View(func(tx *bolt.Tx) error {
			c := tx.Bucket(records).Cursor()
			for k, v := c.Seek(from); k != nil && bytes.HasPrefix(k, prefix); k, v = c.Next() {
				if len(s.records)+len(s.damaged) == stepRecords || s.bytes > stepBytes {
					s.more = true
					return nil
				}
				s.last = bytes.Clone(k)
				value, err := d.value(k, v)
				if err != nil {
					s.damaged = append(s.damaged, fmt.Errorf("record %.64q: %w", k, err))
					continue
				}
				s.records = append(s.records, env.Op{Key: bytes.Clone(k), Value: value})
				s.bytes += len(k) + len(value)
			}
			return nil
		})
	})
	return s, err
}
