package store

import "syscall"

// unmap gives back the memory of a mapped file, whose pages are not written to
// through it. Reading them brings them back.
func unmap(at, size uintptr) {
	_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, at, size, syscall.MADV_DONTNEED)
}
