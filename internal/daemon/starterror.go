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
type startError struct {
	text  string
	cause error
}

func (f startError) Error() string { return f.text }

func (f startError) Unwrap() error { return f.cause }

// elsewhere is what helps with every data directory that cannot be used.
const otherDirectory = "choose another directory with --data"

// dataFault says what is wrong with a data directory, and what to do.
func dataDirError(dir, wrong, do string, cause error) error {
	return startError{fmt.Sprintf("data directory %s: %s; %s", dir, wrong, do), cause}
}

// fileFault says what a person can do about an error of a file in a data directory. Other errors stay as they are.
func fileError(dir string, err error) error {
	if _, wrapped := errors.AsType[startError](err); wrapped {
		return err
	}
	at, isFile := errors.AsType[*fs.PathError](err)
	if link, ok := errors.AsType[*os.LinkError](err); ok {
		at, isFile = &fs.PathError{Op: "write", Path: link.New, Err: link.Err}, true
	}
	switch {
	case errors.Is(err, store.ErrInUse):
		return dataDirError(dir, "another process uses it, perhaps another node", "stop that process, or "+otherDirectory, err)
	case errors.Is(err, store.ErrNewer):
		return dataDirError(dir, "a newer version of tidings wrote it, and nothing was changed", "run that version, or "+otherDirectory, err)
	case errors.Is(err, store.ErrFull), errors.Is(err, syscall.ENOSPC):
		return dataDirError(dir, "the disk is full", "free space on it, or "+otherDirectory, err)
	case !isFile:
		return err
	case errors.Is(err, syscall.ENOTDIR):
		return dataDirError(dir, "it is not a directory, or a part of its path is not", otherDirectory, err)
	}
	failed := fmt.Sprintf("cannot %s %s: ", cmp.Or(plainVerbs[at.Op], at.Op), relativeName(dir, at.Path))
	switch {
	case errors.Is(err, fs.ErrPermission):
		return dataDirError(dir, failed+"permission denied", "run tidings as the owner of the directory, or "+otherDirectory, err)
	case errors.Is(err, syscall.EROFS):
		return dataDirError(dir, failed+"the file system is read-only", otherDirectory, err)
	}
	return dataDirError(dir, failed+at.Err.Error(), "check what is there, or "+otherDirectory, err)
}

// plainOps are plain words for system calls.
var plainVerbs = map[string]string{"mkdir": "create", "stat": "read", "lstat": "read", "rename": "write", "fsync": "write", "sync": "write"}

// nameIn is how a file in a data directory is called in a sentence that names the directory.
func relativeName(dir, path string) string {
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
func listenError(what, flag string, err error) error {
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
	return startError{what + ": " + why, err}
}
