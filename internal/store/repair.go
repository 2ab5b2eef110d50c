package store

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"tidings/internal/env"
)

const (
	// patience with a process that holds the store: it may be ending.
	patience = time.Second
	// asideMark is in the names of damaged files, before the time.
	asideMark = ".damaged-"
	// asideKept is how many damaged files are kept beside the store, for who
	// wants to know; a disk that goes on failing shall not fill itself.
	asideKept = 2
	// maxLost bounds the words that Lost gathers.
	maxLost = 1 << 10
	// salvageBytes is what goes into one transaction of a repair.
	salvageBytes = 4 << 20
)

// open locks, checks and opens the files.
func (d *Disk) open(segmentSize int64) (err error) {
	if d.lock, err = lock(d.path + ".lock"); err != nil {
		return err
	}
	if err = d.load(); err != nil {
		return errors.Join(err, d.shut())
	}
	d.segments.limit = segmentSize
	return nil
}

// lock waits a little for who holds the store.
func lock(path string) (*os.File, error) {
	for end := time.Now().Add(patience); ; time.Sleep(patience / 20) {
		f, taken, err := tryLock(path, true)
		switch {
		case err == nil:
			return f, nil
		case !taken:
			return nil, err
		case time.Now().After(end):
			return nil, ErrInUse
		}
	}
}

// load makes or mends the file if need be, and opens it.
func (d *Disk) load() error {
	found, err := inspectFile(d.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err = build(d.path+".new", "the store is new", nil); err == nil {
			err = install(d.path)
		}
	case err == nil && found.newer:
		return ErrNewer
	case err == nil && !found.whole():
		d.repaired, err = repair(d.path, found)
	case err == nil:
		return d.use(found)
	}
	if err == nil {
		found, err = inspectFile(d.path)
	}
	if err != nil {
		return err
	}
	if !found.whole() {
		return fmt.Errorf("%w again as soon as it was made: %v", env.ErrDamaged, &found.wrong)
	}
	return d.use(found)
}

// use opens a file that was found whole, and its segments.
func (d *Disk) use(found inspection) error {
	var wrong findings
	err := guard(func() (err error) {
		d.db, err = bolt.Open(d.path, 0o600, &bolt.Options{
			Timeout:      patience,
			FreelistType: bolt.FreelistMapType,
			OpenFile: func(name string, flag int, perm os.FileMode) (*os.File, error) {
				d.file, err = os.OpenFile(name, flag&^os.O_CREATE, perm)
				return d.file, err
			},
		})
		return err
	})
	if errors.Is(err, bolterrors.ErrTimeout) {
		return ErrInUse
	}
	if err == nil {
		d.head, d.lost = found.head, found.head.lost
		d.segments, wrong, err = openSegments(d.path+".bodies", found.usage)
	}
	if err == nil && wrong.n > 0 {
		d.repaired = strings.TrimPrefix(fmt.Sprintf("%s; bodies are missing: %v", d.repaired, &wrong), "; ")
	}
	return err
}

// repair moves a damaged file aside and takes over into a new one what is whole.
func repair(path string, found inspection) (what string, err error) {
	aside := path + asideMark + time.Now().UTC().Format("20060102T150405.000Z")
	lost := found.head.lost
	what = fmt.Sprintf("damaged: %v; ", &found.wrong)
	if found.complete() {
		what += "no record is lost"
	} else {
		what += fmt.Sprintf("records may be lost, %d are whole", found.records)
		lost = strings.TrimPrefix(lost+"; "+what, "; ")
	}
	old, err := os.Open(path)
	if err == nil {
		err = build(path+".new", lost[:min(len(lost), maxLost)], old)
		err = errors.Join(err, old.Close())
	}
	if err == nil {
		err = os.Rename(path, aside)
	}
	if err == nil {
		err = install(path)
	}
	if err == nil {
		err = forget(path)
	}
	if err != nil {
		return "", fmt.Errorf("%s; repair: %w", what, err)
	}
	return what + "; the damaged file is now " + aside, nil
}

// install gives a new file its name, durably.
func install(path string) error {
	if err := os.Rename(path+".new", path); err != nil {
		return err
	}
	return settle(filepath.Dir(path))
}

// forget deletes all damaged files but the newest few.
func forget(path string) error {
	folder, mark := filepath.Dir(path), filepath.Base(path)+asideMark
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	var names []string // in the order of their times
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), mark) {
			names = append(names, e.Name())
		}
	}
	for _, name := range names[:max(0, len(names)-asideKept)] {
		err = errors.Join(err, os.Remove(filepath.Join(folder, name)))
	}
	return err
}

// build makes a new file, durably, with the whole records of an old one, which
// may be nil. What an earlier try left is removed.
func build(path, lost string, old *os.File) (err error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	db, err := bolt.Open(path, 0o600, &bolt.Options{
		NoSync: true, PageSize: pageSize, FreelistType: bolt.FreelistMapType, Timeout: patience,
	})
	if err != nil {
		return err
	}
	h := head{lost: lost}
	err = db.Update(func(tx *bolt.Tx) error {
		_, err := tx.CreateBucket(records)
		if err != nil {
			return err
		}
		b, err := tx.CreateBucket(heads)
		if err != nil {
			return err
		}
		return b.Put(headKey, h.seal())
	})
	if err == nil && old != nil {
		err = salvage(db, &h, old)
	}
	if err == nil {
		err = db.Sync()
	}
	if err = errors.Join(err, db.Close()); err != nil {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}

// salvage copies the whole records of an old file.
func salvage(db *bolt.DB, h *head, old *os.File) error {
	info, err := old.Stat()
	if err != nil {
		return err
	}
	var changes []change
	size := 0
	flush := func() {
		if err == nil {
			err = db.Update(h.writer(changes, &tally{}))
		}
		changes, size = nil, 0
	}
	readPages(old, info.Size(), func(bucket string, key, sealed []byte) {
		if _, ok := parseRecord(key, sealed); !ok || bucket != string(records) {
			return
		}
		changes = append(changes, change{bytes.Clone(key), bytes.Clone(sealed)})
		if size += len(key) + len(sealed); size > salvageBytes {
			flush()
		}
	})
	flush()
	return err
}
