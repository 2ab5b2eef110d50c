package store

import (
	bolt "go.etcd.io/bbolt"
)

// maxMapped is how many bytes are read and written until the pages are given back
// that bbolt has mapped for it. They would count as the process's memory till it
// ends, and come to the whole file, as most of a node's records are read at its start
// and seldom again. The system keeps what is in demand, and who asks for it again
// waits for no disk.
const maxMapped = 8 << 20

// touched counts bytes of the file that were read or written, and gives back its
// pages when they come to maxMapped.
func (d *Disk) touched(bytes int) {
	// A record shares its page, and the system maps pages around it.
	if d.mapped.Add(int64(bytes)+pageSize) < maxMapped {
		return
	}
	d.mapped.Store(0)
	// In a transaction the map stays where it is.
	_ = guard(func() error {
		return d.db.View(func(tx *bolt.Tx) error {
			unmap(d.db.Info().Data, uintptr(tx.Size()))
			return nil
		})
	}) // what is not given back now is the next time
}
