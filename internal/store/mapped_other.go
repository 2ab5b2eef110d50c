//go:build !linux

package store

// dropPages does nothing: other systems reclaim pages when they need memory.
func dropPages(uintptr, uintptr) {}
