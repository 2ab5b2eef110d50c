package daemon

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
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

// elsewhere is what helps with every data directory that cannot be used.
const elsewhere = "choose another directory with --data"

// dataFault says what is wrong with a data directory, and what to do.
func dataFault(dir, wrong, do string, cause error) error {
	return fault{fmt.Sprintf("data directory %s: %s; %s", dir, wrong, do), cause}
}

// fileFault says what a person can do about an error of a file in a data directory. Other errors stay as they are.
func fileFault(dir string, err error) error {
	if _, said := errors.AsType[fault](err); said {
		return err
	}
	at, isFile := errors.AsType[*fs.PathError](err)
	if link, ok := errors.AsType[*os.LinkError](err); ok {
		at, isFile = &fs.PathError{Op: "write", Path: link.New, Err: link.Err}, true
	}
	switch {
	case errors.Is(err, store.ErrInUse):
		return dataFault(dir, "another process uses it, perhaps another node", "stop that process, or "+elsewhere, err)
	case errors.Is(err, store.ErrNewer):
		return dataFault(dir, "a newer version of tidings wrote it, and nothing was changed", "run that version, or "+elsewhere, err)
	case errors.Is(err, store.ErrFull), errors.Is(err, syscall.ENOSPC):
		return dataFault(dir, "the disk is full", "free space on it, or "+elsewhere, err)
	case !isFile:
		return err
	case errors.Is(err, syscall.ENOTDIR):
		return dataFault(dir, "it is not a directory, or a part of its path is not", elsewhere, err)
	}
	failed := fmt.Sprintf("cannot %s %s: ", cmp.Or(plainOps[at.Op], at.Op), nameIn(dir, at.Path))
	switch {
	case errors.Is(err, fs.ErrPermission):
		return dataFault(dir, failed+"permission denied", "run tidings as the owner of the directory, or "+elsewhere, err)
	case errors.Is(err, syscall.EROFS):
		return dataFault(dir, failed+"the file system is read-only", elsewhere, err)
	}
	return dataFault(dir, failed+at.Err.Error(), "check what is there, or "+elsewhere, err)
}

// plainOps are plain words for system calls.
var plainOps = map[string]string{"mkdir": "create", "stat": "read", "lstat": "read", "rename": "write", "fsync": "write", "sync": "write"}

// nameIn is how a file in a data directory is called in a sentence that names the directory.
func nameIn(dir, path string) string {
	if name, err := filepath.Rel(dir, path); err == nil && filepath.IsLocal(name) {
		if name == "." {
			return "it"
		}
		return name
	}
	return path
}

// listenFault says what a person can do about an address at which the node cannot listen; flag is the one that names
// it.
func listenFault(what, flag string, err error) error {
	var why string
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		why = "the port is taken, perhaps by another node on this machine; choose another port with " + flag
	case errors.Is(err, fs.ErrPermission):
		why = "permission denied, as for most users at ports below 1024; choose a higher port with " + flag
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		why = "this machine does not have the address; choose another one with " + flag
	default:
		return fmt.Errorf("%s: %w", what, err)
	}
	return fault{what + ": " + why, err}
}
