//go:build !linux

package keywords

import "runtime"

// resident is how much memory this process has of its system, in bytes, as far as
// Go knows.
func resident() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Sys - m.HeapReleased
}
