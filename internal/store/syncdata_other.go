//go:build !linux

package store

import "os"

// SyncData makes the bytes of a file durable that has not grown.
func SyncData(f *os.File) error { return f.Sync() }
