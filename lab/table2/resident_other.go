//go:build !unix || darwin

package table2

// Resident returns the maximum resident memory of this process in bytes; 0 if unknown.
func Resident() uint64 { return 0 }
