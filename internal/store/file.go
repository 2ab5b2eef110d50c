package store

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
)

// WriteFile writes a small file that only its owner may read, durably: after a
// crash there is the old file or the new one, and no part of either. Two that
// write the same file at once spoil it.
func WriteFile(path string, data []byte) error {
	next := path + ".new"
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
	return settle(filepath.Dir(path))
}

// Alone does something with a file while no other process that asks so does anything with it, and waits a
// little for one that does.
func Alone(path string, do func() error) error {
	f, err := lock(path + ".lock")
	if err != nil {
		return err
	}
	return errors.Join(do(), f.Close())
}

// settle makes the names in a folder durable.
func settle(folder string) error {
	if runtime.GOOS == "windows" { // which cannot sync a folder, nor needs to
		return nil
	}
	f, err := os.Open(folder)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
