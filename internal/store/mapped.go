package store

import (
	"sync/atomic"
	"time"

	bolt "go.etcd.io/bbolt"
)

const (
	// maxMapped is how many bytes are read and written before the store gives back the pages that bbolt
	// has mapped for them. Otherwise the pages would count as the process's memory until its end, up to
	// the whole file: most records are read once at the start. The system still caches frequently read
	// pages, so that another read rarely waits for the disk.
	maxMapped = 8 << 20
	// mappedSize is how many bytes are mapped for a record that is read by itself. It shares its page with
	// others, and the system maps some of the neighbouring pages.
	mappedSize = 4 * pageSize
	// mappedTime is the least time between two such moments. Without it, a node that imports thousands of
	// feeds spends a seventh of its time on mapping pages again.
	mappedTime = time.Second
)

// A mapping knows what is mapped of bbolt's file.
type mapping struct {
	touched   atomic.Int64  // bytes read or written since pages were last given back
	droppedAt atomic.Int64  // when that was, in nanoseconds of Unix time
	pause     time.Duration // mappedTime
}

// countTouched counts bytes of the file that were read or written in a number of places, and gives
// back the mapped pages when the count reaches maxMapped.
func (d *Disk) countTouched(bytes, places int) {
	if d.mapping.touched.Add(int64(bytes)+int64(places)*mappedSize) < maxMapped {
		return
	}
	now, last := time.Now().UnixNano(), d.mapping.droppedAt.Load()
	if now-last < int64(d.mapping.pause) || !d.mapping.droppedAt.CompareAndSwap(last, now) {
		return
	}
	d.mapping.touched.Store(0)
	// During a transaction the map does not move.
	_ = d.view(func(tx *bolt.Tx) error {
		dropPages(d.db.Info().Data, uintptr(tx.Size()))
		return nil
	}) // pages that are not given back now are the next time
}

// countChanged is countTouched for records that were looked up, and perhaps written. A value that was replaced is mostly as large as
// the new one.
func (d *Disk) countChanged(changes []change) {
	bytes := 0
	for _, c := range changes {
		bytes += len(c.encoded)
	}
	d.countTouched(bytes, len(changes))
}
