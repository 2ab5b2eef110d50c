package store

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	bolt "go.etcd.io/bbolt"

	"tidings/internal/env"
)

// A range is read in chunks. A long read transaction would pin old pages and would keep the file
// from growing while the caller works.
const (
	chunkRecords = 256
	chunkBytes   = 1 << 20
)

// Get returns the last durable value of key, or nil if there is none.
func (d *Disk) Get(key []byte) (value []byte, err error) {
	defer func() { d.countTouched(len(value)) }()
	d.segments.mu.RLock()
	defer d.segments.mu.RUnlock()
	d.log.mu.RLock()
	defer d.log.mu.RUnlock()
	if encoded, logged := d.log.get(key); logged {
		if encoded != nil {
			value, err = d.value(key, encoded)
		}
	} else {
		err = d.view(func(tx *bolt.Tx) error {
			if encoded := tx.Bucket(records).Get(key); encoded != nil {
				value, err = d.value(key, encoded)
			}
			return err
		})
	}
	if err != nil {
		if errors.Is(err, env.ErrDamaged) {
			d.countDamaged(1)
		}
		return nil, fmt.Errorf("store %s: record %.64q: %w", d.path, key, err)
	}
	return value, nil
}

// value returns a copy of the value of key, from the record or from a segment. The caller holds the
// mutex of the segments.
func (d *Disk) value(key, encoded []byte) ([]byte, error) {
	r, ok := parseRecord(key, encoded)
	switch {
	case !ok:
		return nil, env.ErrDamaged
	case r.external:
		return d.segments.read(r.place)
	}
	return append([]byte{}, r.value...), nil // not nil, even if it is empty
}

// Range calls each for the durable records whose key starts with prefix, in the order of keys,
// until it returns false. each may keep its arguments and may call the store. A commit that becomes
// durable meanwhile may be seen in part. Damaged records are left out, and the error at the end
// names the first few.
func (d *Disk) Range(prefix []byte, each func(key, value []byte) bool) error {
	var damaged problems
	from := prefix
	logged := d.log.keys(prefix)
	for more := true; more; {
		s, err := d.readChunk(prefix, from, logged)
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
		d.countTouched(s.bytes)
		more, from = s.more, append(s.last, 0) // the next possible key
	}
	if damaged.n > 0 {
		d.countDamaged(damaged.n)
		return fmt.Errorf("store %s: %w: %v", d.path, env.ErrDamaged, &damaged)
	}
	return nil
}

// A chunk is a part of a range.
type chunk struct {
	records []env.Op
	damaged []error
	last    []byte // last key of the chunk
	bytes   int
	more    bool
}

// readChunk reads the next few records with prefix, starting at a key. logged has the keys that were in the log when
// the range began.
func (d *Disk) readChunk(prefix, from []byte, logged []string) (s chunk, err error) {
	d.segments.mu.RLock()
	defer d.segments.mu.RUnlock()
	d.log.mu.RLock() // before the transaction, so that no commit is in neither
	defer d.log.mu.RUnlock()
	err = d.view(func(tx *bolt.Tx) error {
		c := tx.Bucket(records).Cursor()
		k, v := c.Seek(from)
		i, _ := slices.BinarySearch(logged, string(from))
		for {
			if k != nil && !bytes.HasPrefix(k, prefix) {
				k = nil
			}
			if k == nil && i == len(logged) {
				return nil
			}
			if len(s.records)+len(s.damaged) == chunkRecords || s.bytes > chunkBytes {
				s.more = true
				return nil
			}
			key, encoded := k, v
			if i < len(logged) && (k == nil || logged[i] <= string(k)) {
				if k == nil || logged[i] < string(k) {
					key, encoded = []byte(logged[i]), nil
				}
				i++
			}
			if k != nil && bytes.Equal(key, k) {
				k, v = c.Next()
			}
			s.last = bytes.Clone(key)
			if now, known := d.log.get(key); known {
				encoded = now
			}
			if encoded == nil {
				continue // it was deleted
			}
			value, err := d.value(key, encoded)
			if err != nil {
				s.damaged = append(s.damaged, fmt.Errorf("record %.64q: %w", key, err))
				continue
			}
			s.records = append(s.records, env.Op{Key: bytes.Clone(key), Value: value})
			s.bytes += len(key) + len(value)
		}
	})
	return s, err
}
