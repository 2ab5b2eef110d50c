package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	bolt "go.etcd.io/bbolt"
)

// Some records cannot be had again from anybody: what a person has subscribed to. They are kept a
// second time, in a small file beside the store, so that a store that loses them gets them back:
//
//	tidings records 1\n
//	length of the rest (4) | length of the key (2) | key | what the store keeps under it
//
// Each change of such a record is appended, and synced, before its commit is answered. The
// file is made anew, atomically, when the store is opened, and when what was appended has grown too long. A record
// that is not what was written, by its checksum, is left out; so is a last one that a crash has cut. If the
// store's own record is damaged, the new file keeps the one of the old file: it may be the only good copy.
//
// A failure to write the file stops neither Open nor a commit, because the store itself is whole. Stats reports the
// failure, and the next change of such a record makes the file anew.

const (
	secondMark    = ".second"
	secondVersion = "tidings records 1\n"
	// gone is the kind of a record that says that another one was deleted.
	gone = 4
	// secondSlack is how many bytes may be appended beyond twice what the file had when it was made.
	// At the bound it is made anew.
	secondSlack = 1 << 20
	// maxSecond bounds what is read of such a file, many times the largest. What is beyond is damage.
	maxSecond = 1 << 30
)

// Twice says which records are kept a second time.
type Twice struct {
	Prefix []string // of their keys
	// Along are keys of records that change often, and are written with the others.
	Along []string
}

// has reports whether a record is one of those, and whether it is written on its own account.
func (t Twice) has(key []byte) (kept, counts bool) {
	for _, p := range t.Prefix {
		if strings.HasPrefix(string(key), p) {
			return true, true
		}
	}
	for _, k := range t.Along {
		if string(key) == k {
			return true, false
		}
	}
	return false, false
}

// A second is the file of records that are kept twice. It belongs to the writer.
type second struct {
	of     Twice
	path   string
	file   *os.File
	size   int64 // of the file
	begun  int64 // the same, when it was made
	broken error // why the file lacks something; nil: it does not
}

// openSecond brings records back that the store has lost, and makes the file anew. It fails only if records
// cannot be brought back: a store that was opened without them would write a file that lacks them, too.
func (d *Disk) openSecond(of Twice) error {
	if len(of.Prefix) == 0 {
		return nil
	}
	d.second = &second{of: of, path: d.path + secondMark}
	if d.head.lost != "" {
		if err := d.bringBack(); err != nil {
			return err
		}
	}
	if d.second.broken = d.copySecond(); d.second.broken != nil {
		d.stats.Failing = d.second.broken.Error()
	}
	return nil
}

// bringBack writes what the file has and the store has not.
func (d *Disk) bringBack() error {
	kept, whole, err := d.second.read()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("second copy of records: %w", err)
	}
	var changes []change
	err = guard(func() error {
		return d.db.View(func(tx *bolt.Tx) error {
			for _, c := range kept {
				if ok, _ := d.second.of.has(c.key); ok && tx.Bucket(records).Get(c.key) == nil {
					changes = append(changes, c)
				}
			}
			return nil
		})
	})
	if err == nil && len(changes) > 0 {
		err = d.update(changes, false)
	}
	if err != nil {
		return fmt.Errorf("second copy of records: %w", err)
	}
	for _, c := range changes {
		if _, counts := d.second.of.has(c.key); counts {
			d.back++
		}
	}
	d.whole = whole
	return nil
}

// Restored says how many records came back from the second copy, and whether that was whole: if so, no
// record that is kept twice is lost.
func (d *Disk) Restored() (records int, whole bool) { return d.back, d.whole }

// read returns the records of the file as it is; see parseSecond.
func (s *second) read() (kept []change, whole bool, err error) {
	f, err := os.Open(s.path)
	if err != nil {
		return nil, false, err
	}
	b, err := io.ReadAll(io.LimitReader(f, maxSecond))
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, false, err
	}
	kept, whole = parseSecond(b)
	return kept, whole, nil
}

// parseSecond reads the records of a file, in the order in which they were first written; whole is false if
// there is anything wrong but a last record that was cut.
func parseSecond(b []byte) (kept []change, whole bool) {
	rest, whole := bytes.CutPrefix(b, []byte(secondVersion))
	if !whole {
		return nil, false
	}
	place := map[string]int{}
	for len(rest) >= 4 {
		n := binary.BigEndian.Uint32(rest)
		if uint64(n) > uint64(len(rest)-4) {
			break
		}
		record := rest[4 : 4+n]
		rest = rest[4+n:]
		key, sealed, ok := parseFrame(record)
		if !ok {
			whole = false
			continue
		}
		i, known := place[string(key)]
		if !known {
			i = len(kept)
			place[string(key)] = i
			kept = append(kept, change{key: key})
		}
		if kept[i].sealed = sealed; sealed[0] == gone {
			kept[i].sealed = nil
		}
	}
	var live []change
	for _, c := range kept {
		if c.sealed != nil {
			live = append(live, c)
		}
	}
	return live, whole
}

// parseFrame reads one record of the file.
func parseFrame(record []byte) (key, sealed []byte, ok bool) {
	if len(record) < 2 {
		return nil, nil, false
	}
	n := int(binary.BigEndian.Uint16(record))
	if n == 0 || n > len(record)-2 {
		return nil, nil, false
	}
	key, sealed = record[2:2+n], record[2+n:]
	kind, _, ok := unseal(key, sealed)
	return key, sealed, ok && (kind == inline || kind == gone)
}

func appendFrame(b []byte, c change) []byte {
	sealed := c.sealed
	if sealed == nil {
		sealed = seal(gone, c.key, nil)
	}
	b = binary.BigEndian.AppendUint32(b, uint32(2+len(c.key)+len(sealed)))
	b = binary.BigEndian.AppendUint16(b, uint16(len(c.key)))
	return append(append(b, c.key...), sealed...)
}

// copySecond makes the file anew, of what the store has, and of what the old file has of records that are
// damaged in the store. If the old file cannot be read then, it stays as it is.
func (d *Disk) copySecond() error {
	s := d.second
	b := []byte(secondVersion)
	damaged := map[string]bool{} // keys of records
	err := guard(func() error {
		return d.db.View(func(tx *bolt.Tx) error {
			take := func(key, sealed []byte) {
				switch kind, _, ok := unseal(key, sealed); {
				case !ok:
					damaged[string(key)] = true
				case kind == inline:
					b = appendFrame(b, change{key, sealed})
				}
			}
			for _, p := range s.of.Prefix {
				cursor := tx.Bucket(records).Cursor()
				for key, sealed := cursor.Seek([]byte(p)); bytes.HasPrefix(key, []byte(p)); key, sealed = cursor.Next() {
					take(key, sealed)
				}
			}
			for _, k := range s.of.Along {
				if sealed := tx.Bucket(records).Get([]byte(k)); sealed != nil {
					take([]byte(k), sealed)
				}
			}
			return nil
		})
	})
	if err == nil && len(damaged) > 0 {
		var old []change
		if old, _, err = s.read(); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		for _, c := range old {
			if damaged[string(c.key)] {
				b = appendFrame(b, c)
			}
		}
	}
	if s.file != nil {
		_ = s.file.Close() // what it has is written anew
		s.file = nil
	}
	if err == nil {
		err = WriteFile(s.path, b)
	}
	if err == nil {
		s.file, err = os.OpenFile(s.path, os.O_WRONLY|os.O_APPEND, 0)
	}
	if err != nil {
		return fmt.Errorf("second copy of records: %w", err)
	}
	s.size, s.begun = int64(len(b)), int64(len(b))
	return nil
}

// follow writes changes that are durable a second time. A failure leaves the store as it is, and says so in
// Stats; the file is made anew with the next change.
func (d *Disk) follow(changes []change) {
	s := d.second
	if s == nil {
		return
	}
	var b []byte
	some := false
	for _, c := range changes {
		if c.sealed != nil && c.sealed[0] != inline {
			continue
		}
		kept, counts := s.of.has(c.key)
		if some = some || counts; kept {
			b = appendFrame(b, c)
		}
	}
	switch {
	case !some:
		return
	case s.broken != nil || s.file == nil || s.size+int64(len(b)) > 2*s.begun+secondSlack:
		s.broken = d.copySecond()
		return
	}
	n, err := s.file.Write(b)
	s.size += int64(n)
	if err == nil {
		err = s.file.Sync()
	}
	if err != nil {
		s.broken = fmt.Errorf("second copy of records: %w", err)
	}
}
