package store

import (
	bolt "go.etcd.io/bbolt"
)

// maxMapped is how many bytes are read and written before the store gives back the pages that bbolt
// has mapped for them. Otherwise the pages would count as the process's memory until its end, up to
// the whole file: most records are read once at the start. The system still caches frequently read
// pages, so that another read rarely waits for the disk.
const maxMapped = 8 << 20

// countTouched counts bytes of the file that were read or written, and gives back the mapped pages
// when the count reaches maxMapped.
func (d *Disk) countTouched(bytes int) {
	// A record shares its page with others, and the system maps neighbouring pages.
	if d.touchedBytes.Add(int64(bytes)+pageSize) < maxMapped {
		return
	}
	d.touchedBytes.Store(0)
	// During a transaction the map does not move.
	_ = d.view(func(tx *bolt.Tx) error {
		dropPages(d.db.Info().Data, uintptr(tx.Size()))
		return nil
	}) // pages that are not given back now are the next time
}
