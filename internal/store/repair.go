package store

import (
	"bytes"
	"cmp"
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
	// lockTimeout is how long to wait for another process that uses the store and may be ending.
	lockTimeout = time.Second
	// damagedMark precedes the time in the names of damaged files.
	damagedMark = ".damaged-"
	// maxDamaged is how many damaged files are kept for a diagnosis. Otherwise a failing disk would
	// fill itself with them.
	maxDamaged = 2
	// maxLost bounds the text of Lost, in bytes.
	maxLost = 1 << 10
	// salvageBytes is the size of one transaction of a repair.
	salvageBytes = 4 << 20
)

// open locks, checks and opens the files.
func (d *Disk) open(segmentSize int64) (err error) {
	if d.lock, err = lock(d.path + ".lock"); err != nil {
		return err
	}
	if err = d.load(); err != nil {
		return errors.Join(err, d.closeFiles())
	}
	d.segments.limit = segmentSize
	return nil
}

// lock waits for another process until lockTimeout.
func lock(path string) (*os.File, error) {
	for end := time.Now().Add(lockTimeout); ; time.Sleep(lockTimeout / 20) {
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

// load creates or repairs the file if needed, and opens it.
func (d *Disk) load() error {
	found, err := inspectFile(d.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err = os.Remove(d.log.path); err == nil || errors.Is(err, fs.ErrNotExist) { // of a store that is gone
			err = create(d.path+".new", head{lost: "the store is new"}, nil)
		}
		if err == nil {
			err = moveIntoPlace(d.path)
		}
	case err == nil && found.newer:
		return ErrNewer
	case err == nil && !found.undamaged():
		d.repaired, err = repair(d.path, found)
	case err == nil:
		return d.openDB(found)
	}
	if err == nil {
		found, err = inspectFile(d.path)
	}
	if err != nil {
		return err
	}
	if !found.undamaged() {
		return fmt.Errorf("%w again as soon as it was made: %v", env.ErrDamaged, &found.problems)
	}
	return d.openDB(found)
}

// openDB opens an undamaged file and its segments.
func (d *Disk) openDB(found inspection) error {
	var damage problems
	err := catchFaults(func() (err error) {
		d.db, err = bolt.Open(d.path, 0o600, &bolt.Options{
			Timeout:      lockTimeout,
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
	var r replay
	if err == nil {
		d.head, d.lost = found.head, found.head.lost
		r, err = d.log.open(d.head)
	}
	if err == nil {
		r.usageIn(found.usage)
		d.segments, damage, err = openSegments(d.path+".bodies", found.usage)
	}
	if err == nil && damage.n > 0 {
		d.repaired = strings.TrimPrefix(fmt.Sprintf("%s; bodies are missing: %v", d.repaired, &damage), "; ")
	}
	if err == nil {
		err = d.replayLog(r)
	}
	return err
}

// repair moves a damaged file aside and copies the undamaged records to a new one.
func repair(path string, found inspection) (what string, err error) {
	aside := path + damagedMark + time.Now().UTC().Format("20060102T150405.000Z")
	lost := found.head.lost
	what = fmt.Sprintf("damaged: %v; ", &found.problems)
	if found.complete() {
		what += "no record is lost"
	} else {
		what += fmt.Sprintf("records may be lost, %d are whole", found.records)
		lost = strings.TrimPrefix(lost+"; "+what, "; ")
	}
	old, err := os.Open(path)
	if err == nil {
		h := found.head // its number says what of the log is new
		h.lost = lost[:min(len(lost), maxLost)]
		err = create(path+".new", h, old)
		err = errors.Join(err, old.Close())
	}
	if err == nil {
		err = os.Rename(path, aside)
	}
	if err == nil {
		err = moveIntoPlace(path)
	}
	if err == nil {
		err = removeOldDamaged(path)
	}
	if err != nil {
		return "", fmt.Errorf("%s; repair: %w", what, err)
	}
	return what + "; the damaged file is now " + aside, nil
}

// moveIntoPlace durably gives a new file its name.
func moveIntoPlace(path string) error {
	if err := os.Rename(path+".new", path); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(path))
}

// removeOldDamaged deletes all damaged files except the newest few.
func removeOldDamaged(path string) error {
	folder, mark := filepath.Dir(path), filepath.Base(path)+damagedMark
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	var names []string // sorted by time
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), mark) {
			names = append(names, e.Name())
		}
	}
	for _, name := range names[:max(0, len(names)-maxDamaged)] {
		err = errors.Join(err, os.Remove(filepath.Join(folder, name)))
	}
	return err
}

// create durably makes a new file with the undamaged records of an old one, which may be nil. It
// removes the leftovers of an earlier attempt.
// number, log and loss of the head are those of last.
func create(path string, last head, old *os.File) (err error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	db, err := bolt.Open(path, 0o600, &bolt.Options{
		NoSync: true, PageSize: pageSize, FreelistType: bolt.FreelistMapType, Timeout: lockTimeout,
	})
	if err != nil {
		return err
	}
	h := head{lost: last.lost, logged: last.logged}
	err = db.Update(func(tx *bolt.Tx) error {
		_, err := tx.CreateBucket(records)
		if err != nil {
			return err
		}
		b, err := tx.CreateBucket(heads)
		if err != nil {
			return err
		}
		h.tx = uint64(tx.ID())
		return b.Put(headKey, h.encode())
	})
	if err == nil && old != nil {
		err = salvage(db, &h, old)
	}
	if err == nil && h.number < last.number {
		err = h.save(db, nil, last.number)
	}
	if err == nil {
		err = db.Sync()
	}
	if err = errors.Join(err, db.Close()); err != nil {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}

// save writes records and their head, whose number becomes higher, and at least number.
func (h *head) save(db *bolt.DB, changes []change, number uint64) error {
	return db.Update(func(tx *bolt.Tx) error {
		return cmp.Or(h.apply(tx, changes, &effects{}), h.put(tx, h.number, number))
	})
}

// salvage copies the undamaged records of an old file.
func salvage(db *bolt.DB, h *head, old *os.File) error {
	info, err := old.Stat()
	if err != nil {
		return err
	}
	var changes []change
	size := 0
	flush := func() {
		if err == nil {
			err = h.save(db, changes, 0)
		}
		changes, size = nil, 0
	}
	readPages(old, info.Size(), func(bucket string, key, encoded []byte) {
		if _, ok := parseRecord(key, encoded); !ok || bucket != string(records) {
			return
		}
		changes = append(changes, change{bytes.Clone(key), bytes.Clone(encoded)})
		if size += len(key) + len(encoded); size > salvageBytes {
			flush()
		}
	})
	flush()
	return err
}
