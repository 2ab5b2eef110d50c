package store

import (
	"bytes"
	"errors"
	"io"
)

// An inspection is the result of reading a whole store file.
type inspection struct {
	problems problems
	head     head
	hasHead  bool // the file has an undamaged head
	newer    bool // the head is undamaged and of a later version
	last     bool // the head is that of the last transaction
	records  uint64
	sum      uint64
	usage    map[uint32]usage // of segments, by the undamaged records
}

// inspectFile reads the file of a store. It also locks the file itself: somebody may have deleted
// the lock file of a running process, whose store must not be repaired under it.
func inspectFile(path string) (inspection, error) {
	f, taken, err := tryLock(path, false)
	switch {
	case taken:
		return inspection{}, ErrInUse
	case err != nil:
		return inspection{}, err
	}
	info, err := f.Stat()
	if err != nil {
		return inspection{}, errors.Join(err, f.Close())
	}
	return inspect(f, info.Size()), f.Close()
}

// inspect reads a file of size bytes.
func inspect(file io.ReaderAt, size int64) inspection {
	i := inspection{usage: map[uint32]usage{}}
	var damage problems
	var tx uint64
	i.problems, tx, i.last = readPages(file, size, func(bucket string, key, encoded []byte) {
		switch {
		case bucket == string(records):
			i.add(key, encoded, &damage)
		case bucket == string(heads) && bytes.Equal(key, headKey):
			if i.head, i.hasHead = parseHead(encoded); !i.hasHead {
				damage.add("the head is damaged")
				i.newer = isNewer(encoded)
			}
		default:
			damage.add("there is a record %.64q in a bucket %.64q", key, bucket)
		}
	})
	if i.hasHead && i.head.version == headVersion && i.head.tx != tx {
		damage.add("the head is that of transaction %d, and the last one is %d", i.head.tx, tx)
		i.last = false
	}
	i.problems.merge(damage)
	if i.problems.n == 0 && !i.complete() {
		if i.hasHead {
			i.problems.add("there are %d of %d records, or others", i.records, i.head.records)
		} else {
			i.problems.add("there is no head")
		}
	}
	return i
}

// add counts an undamaged record.
func (i *inspection) add(key, encoded []byte, damage *problems) {
	r, ok := parseRecord(key, encoded)
	if !ok {
		damage.add("record %.64q is damaged", key)
		return
	}
	i.records++
	i.sum += checksumOf(encoded)
	if r.external {
		u := i.usage[r.place.segment]
		u.live += int64(r.place.length)
		u.end = max(u.end, r.place.end())
		i.usage[r.place.segment] = u
	}
}

// undamaged reports whether nothing is wrong.
func (i *inspection) undamaged() bool { return i.problems.n == 0 }

// complete reports whether each record of the last transaction is there and undamaged, whatever
// else may be wrong.
func (i *inspection) complete() bool {
	return i.hasHead && i.last && i.records == i.head.records && i.sum == i.head.sum
}
