//go:build unix && !darwin

package table2

import "syscall"

// Resident is how much memory of this process was resident at most, in bytes; 0 if the
// system does not tell.
func Resident() uint64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return uint64(u.Maxrss) * 1024
}
