package store

import "syscall"

// dropPages gives back the memory of a mapped file that is not written to through the map. Reading
// the pages loads them again.
func dropPages(at, size uintptr) {
	_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, at, size, syscall.MADV_DONTNEED)
}
