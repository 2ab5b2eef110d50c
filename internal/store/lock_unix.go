//go:build !windows

package store

import (
	"errors"
	"os"
	"syscall"
)

// noRoom are the errors of a disk that is full, or as good as full for us.
var noRoom = []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG}

// tryLock opens a file that nobody else has locked, and makes it if it may, and
// locks it until it is closed or the process ends.
func tryLock(path string, mayMake bool) (f *os.File, taken bool, err error) {
	flag := os.O_RDWR
	if mayMake {
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
