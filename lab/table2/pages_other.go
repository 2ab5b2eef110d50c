//go:build !linux

package table2

// LargePages does nothing where systems choose the size of pages by themselves.
func LargePages(int) {}
