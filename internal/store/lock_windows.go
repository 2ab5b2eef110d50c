package store

import (
	"errors"
	"os"
	"syscall"
)

// The Windows errors that syscall does not name.
const (
	sharingViolation = syscall.Errno(32)
	handleDiskFull   = syscall.Errno(39)
	diskFull         = syscall.Errno(112)
)

// noRoom are the errors of a full disk.
var noRoom = []error{handleDiskFull, diskFull}

// tryLock opens a file for this process alone, and creates it if asked to. The file is locked until
// it is closed or the process ends. taken reports that another process has it open.
func tryLock(path string, create bool) (f *os.File, taken bool, err error) {
	how := uint32(syscall.OPEN_EXISTING)
	if create {
		how = syscall.OPEN_ALWAYS
	}
	name, err := syscall.UTF16PtrFromString(path)
	if err != nil {
		return nil, false, err
	}
	h, err := syscall.CreateFile(name, syscall.GENERIC_READ|syscall.GENERIC_WRITE, 0, nil,
		how, syscall.FILE_ATTRIBUTE_NORMAL, 0)
	if err != nil {
		return nil, errors.Is(err, sharingViolation), &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(h), path), false, nil
}
