//go:build !windows

package store

import (
	"errors"
	"os"
	"syscall"
)

// noRoom are the errors of a disk that is full, or that allows this process no more.
var noRoom = []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG}

// tryLock opens a file, creates it if asked to, and locks it until it is closed or the process
// ends. taken reports that another process has locked it.
func tryLock(path string, create bool) (f *os.File, taken bool, err error) {
	flag := os.O_RDWR
	if create {
		flag |= os.O_CREATE
	}
	f, err = os.OpenFile(path, flag, 0o600)
	if err != nil {
		return nil, false, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err != nil {
		return nil, errors.Is(err, syscall.EWOULDBLOCK), errors.Join(err, f.Close())
	}
	return f, false, nil
}
