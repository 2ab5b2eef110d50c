//go:build !linux

package table2

// LargePages does nothing where the system chooses the size of pages.
func LargePages(int) {}
