package table2

import (
	"runtime/debug"

	"golang.org/x/sys/unix"
)

// LargePages makes the next n bytes of heap use pages of 2 MB, on systems where programs must ask
// for them. A world is gigabytes of small objects that are used in random order, so processors
// spend much time on address translation. Go's heap does not ask.
func LargePages(n int) {
	// The advice remains in force when the untouched memory is freed and becomes part of the heap.
	// If the system refuses, worlds are only slower.
	_ = unix.Madvise(make([]byte, n), unix.MADV_HUGEPAGE)
	debug.FreeOSMemory()
}
