package store

import (
	"sync/atomic"
	"time"

	bolt "go.etcd.io/bbolt"
)

// The store gives back the pages that bbolt has mapped when maxMapped bytes were read and written, and with the first ones after
// maxMappedTime. Otherwise the pages would count as the process's memory until its end, up to the whole file: most records are read
// once at the start. The system still caches frequently read pages, so that another read rarely waits for the disk.
//
// Linux maps up to 15 pages beside each one that is read. So a few megabytes of records all over a large file map hundreds, and less
// than maxMapped would make the system map the same pages again all the time, which makes an import half as slow again.
const (
	maxMapped     = 8 << 20
	maxMappedTime = 5 * time.Second
)

// mappedPages says when to give back the pages of the file.
type mappedPages struct {
	touchedBytes atomic.Int64 // bytes read or written since pages were last given back
	givenBack    atomic.Int64 // when they were, Unix time in nanoseconds
}

// countTouched counts bytes of the file that were read or written, and gives back the mapped pages if that is due.
func (d *Disk) countTouched(bytes int) {
	now := time.Now().UnixNano()
	// A record shares its page with others.
	if d.mapped.touchedBytes.Add(int64(bytes)+pageSize) < maxMapped && now-d.mapped.givenBack.Load() < int64(maxMappedTime) {
		return
	}
	d.mapped.touchedBytes.Store(0)
	d.mapped.givenBack.Store(now)
	// During a transaction the map does not move.
	_ = d.view(func(tx *bolt.Tx) error {
		dropPages(d.db.Info().Data, uintptr(tx.Size()))
		return nil
	}) // pages that are not given back now are the next time
}
