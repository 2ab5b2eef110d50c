//go:build !linux

package store

// unmap does nothing: other systems take pages back when they need memory.
func unmap(uintptr, uintptr) {}
