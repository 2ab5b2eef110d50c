//go:build !unix || darwin

package table2

// Resident is how much memory of this process was resident at most, in bytes; 0 if the
// system does not tell.
func Resident() uint64 { return 0 }
