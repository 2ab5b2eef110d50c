package store

import (
	"os"
	"syscall"
)

// SyncData makes the bytes of a file durable that has not grown. It does not wait for the time of its last change.
func SyncData(f *os.File) error {
	for {
		if err := syscall.Fdatasync(int(f.Fd())); err != syscall.EINTR {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}
