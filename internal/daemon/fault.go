package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"tidings/internal/store"
)

// A fault says in words of its own why a node cannot start.
type fault struct {
	words string
	cause error
}

func (f fault) Error() string { return f.words }

func (f fault) Unwrap() error { return f.cause }

// fileFault says what a person can do about an error of a file in a data directory. Other errors stay as they are.
func fileFault(dir string, err error) error {
	at, isFile := errors.AsType[*fs.PathError](err)
	var words string
	switch {
	case errors.Is(err, store.ErrInUse):
		words = fmt.Sprintf("data directory %s: in use by another process, perhaps another node: stop that process, or choose another directory with --data", dir)
	case errors.Is(err, store.ErrNewer):
		words = fmt.Sprintf("%v; nothing was changed: run that version, or choose another directory with --data", err)
	case !isFile:
		return err
	case errors.Is(err, syscall.ENOTDIR):
		words = fmt.Sprintf("data directory %s: it is not a directory, or a part of its path is not: choose another one with --data", dir)
	case errors.Is(err, fs.ErrPermission):
		words = fmt.Sprintf("%s %s: permission denied: run tidings as the owner of the data directory, or choose another one with --data", at.Op, at.Path)
	case errors.Is(err, syscall.EROFS):
		words = fmt.Sprintf("%s %s: the file system is read-only: choose another data directory with --data", at.Op, at.Path)
	default:
		return err
	}
	return fault{words, err}
}

// listenFault says what a person can do about an address at which the node cannot listen; flag is the one that names
// it.
func listenFault(what, flag string, err error) error {
	var why string
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		why = "the port is taken, perhaps by another node on this machine: choose another port with " + flag
	case errors.Is(err, fs.ErrPermission):
		why = "permission denied, as for most users at ports below 1024: choose a higher port with " + flag
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		why = "this machine does not have the address: choose another one with " + flag
	default:
		return fmt.Errorf("%s: %w", what, err)
	}
	return fault{what + ": " + why, err}
}
