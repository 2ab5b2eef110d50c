package table2

import (
	"runtime/debug"

	"golang.org/x/sys/unix"
)

// LargePages has the next n bytes by which the heap grows lie in pages of 2 MB, where the system leaves it to
// programs to ask for them. A world is gigabytes of small things that are touched in no order, and much of the time
// that a processor waits for one is the search for its page. Go's heap does not ask.
func LargePages(n int) {
	// What was asked for stays so when the memory is given back, untouched, and becomes the heap's. A system
	// that knows no such pages refuses, and worlds are slower.
	_ = unix.Madvise(make([]byte, n), unix.MADV_HUGEPAGE)
	debug.FreeOSMemory()
}
