package store

import (
	"bytes"
	"errors"
	"io"
)

// An inspection is what the file comes to.
type inspection struct {
	wrong   findings
	head    head
	headed  bool // there is a head
	newer   bool // the head is one of a later version, and whole
	last    bool // it is that of the last transaction
	records uint64
	sum     uint64
	usage   map[uint32]usage // of segments, by whole records
}

// inspectFile reads the file of a store. Whoever has it open, though the lock
// beside it was free, must not find it repaired under its hands: the lock may
// have been deleted.
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
	var wrong findings
	i.wrong, i.last = readPages(file, size, func(bucket string, key, sealed []byte) {
		switch {
		case bucket == string(records):
			i.add(key, sealed, &wrong)
		case bucket == string(heads) && bytes.Equal(key, headKey):
			if i.head, i.headed = parseHead(sealed); !i.headed {
				wrong.add("the head is damaged")
				i.newer = isNewer(sealed)
			}
		default:
			wrong.add("there is a record %.64q in a bucket %.64q", key, bucket)
		}
	})
	i.wrong.merge(wrong)
	if i.wrong.n == 0 && !i.complete() {
		if i.headed {
			i.wrong.add("there are %d of %d records, or others", i.records, i.head.records)
		} else {
			i.wrong.add("there is no head")
		}
	}
	return i
}

// add counts a record, if it is whole.
func (i *inspection) add(key, sealed []byte, wrong *findings) {
	r, ok := parseRecord(key, sealed)
	if !ok {
		wrong.add("record %.64q is damaged", key)
		return
	}
	i.records++
	i.sum += sumOf(sealed)
	if r.outside {
		u := i.usage[r.place.segment]
		u.live += int64(r.place.length)
		u.end = max(u.end, r.place.end())
		i.usage[r.place.segment] = u
	}
}

// whole says that nothing at all is wrong.
func (i *inspection) whole() bool { return i.wrong.n == 0 }

// complete says that each record of the last transaction is there, whole,
// whatever else may be wrong.
func (i *inspection) complete() bool {
	return i.headed && i.last && i.records == i.head.records && i.sum == i.head.sum
}
