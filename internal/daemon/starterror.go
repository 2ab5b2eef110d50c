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

// A startError says in a text for people why a node cannot start.
type startError struct {
	text  string
	cause error
}

func (f startError) Error() string { return f.text }

func (f startError) Unwrap() error { return f.cause }

// otherDirectory is the remedy for any data directory that cannot be used.
const otherDirectory = "choose another directory with --data"

// dataDirError returns an error that says what is wrong with a data directory, and what to do.
func dataDirError(dir, wrong, do string, cause error) error {
	return startError{fmt.Sprintf("data directory %s: %s; %s", dir, wrong, do), cause}
}

// fileError adds to an error about a file of a data directory what a person can do. It returns other errors
// as they are.
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

// plainVerbs are the verbs for system calls in error texts.
var plainVerbs = map[string]string{"mkdir": "create", "stat": "read", "lstat": "read", "rename": "write", "fsync": "write", "sync": "write"}

// relativeName returns the name of a file for a sentence that already names the data directory.
func relativeName(dir, path string) string {
	if name, err := filepath.Rel(dir, path); err == nil && filepath.IsLocal(name) {
		if name == "." {
			return "it"
		}
		return name
	}
	return path
}

// listenError says what a person can do if the node cannot listen at an address. flag is the flag that sets
// the address.
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
