package store

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
)

// UnfinishedEnd ends the name of the file that WriteFile writes before it takes the place of the old one.
const UnfinishedEnd = ".new"

// WriteFile durably writes a small file that only its owner may read. After a crash there is either
// the old file or the new one, and perhaps an unfinished one beside it. Two concurrent calls for the same path may damage the file.
func WriteFile(path string, data []byte) error {
	next := path + UnfinishedEnd
	f, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(next, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(next))
	}
	return syncFolder(filepath.Dir(path))
}

// WithFileLock runs do while no other process runs one with the same path. It waits a second at
// most for another process, and then returns ErrInUse.
func WithFileLock(path string, do func() error) error {
	f, err := lock(path + ".lock")
	if err != nil {
		return err
	}
	return errors.Join(do(), f.Close())
}

// syncFolder makes the names in a folder durable.
func syncFolder(folder string) error {
	if runtime.GOOS == "windows" { // Windows cannot sync a folder and does not need to
		return nil
	}
	f, err := os.Open(folder)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
