//go:build unix && !darwin

package table2

import "syscall"

// Resident returns the maximum resident memory of this process in bytes; 0 if unknown.
func Resident() uint64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return uint64(u.Maxrss) * 1024
}
