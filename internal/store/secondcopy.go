package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	bolt "go.etcd.io/bbolt"
)

// Some records can be obtained from nobody else: the subscriptions of a person. A small file beside
// the store has a second copy of them, from which a store that loses them is restored:
//
//	tidings records 1\n
//	length of the rest (4) | length of the key (2) | key | stored value
//
// Each change of such a record is appended and synced before its commit is answered. The file is
// rewritten atomically when the store is opened, unless it would stay the same, and when the appended part has grown too long.
// Reading skips a record with a wrong checksum, and a last one that a crash has cut. If the store's
// own record is damaged, the new file keeps the record of the old file, which may be the only good
// one.
//
// A failure to write the file stops neither Open nor a commit, because the store itself is
// undamaged. Stats reports the failure, and the next change of such a record rewrites the file.

const (
	secondMark    = ".second"
	secondVersion = "tidings records 1\n"
	// kindDeleted is the kind of a record that says that an earlier one was deleted.
	kindDeleted = 4
	// secondSlack is how many bytes may be appended beyond twice the size of the rewritten file.
	// Above this bound the file is rewritten.
	secondSlack = 1 << 20
	// maxSecond bounds how much of the file is read. It is many times the largest size, so anything
	// beyond is damage.
	maxSecond = 1 << 30
)

// SecondCopy selects the records that are also kept in the second copy.
type SecondCopy struct {
	Prefix []string // prefixes of their keys
	// Lazy are keys of records that change often. A change of them is only written along with
	// others.
	Lazy []string
}

// includes reports whether a record is in the second copy, and whether its changes are written at
// once.
func (t SecondCopy) includes(key []byte) (included, immediate bool) {
	for _, p := range t.Prefix {
		if strings.HasPrefix(string(key), p) {
			return true, true
		}
	}
	for _, k := range t.Lazy {
		if string(key) == k {
			return true, false
		}
	}
	return false, false
}

// A secondCopy is the file with the second copy. It belongs to the writer.
type secondCopy struct {
	keys      SecondCopy
	path      string
	file      *os.File
	size      int64 // size of the file
	startSize int64 // size of the file when it was rewritten
	err       error // why the file lacks something; nil: it is complete
}

// openSecond restores records that the store has lost, and rewrites the file. It fails only if
// records cannot be restored: a store without them would write a second copy that lacks them, too.
func (d *Disk) openSecond(keys SecondCopy) error {
	if len(keys.Prefix) == 0 {
		return nil
	}
	d.second = &secondCopy{keys: keys, path: d.path + secondMark}
	if d.head.lost != "" {
		if err := d.restoreRecords(); err != nil {
			return err
		}
	}
	if d.second.err = d.rewriteSecond(); d.second.err != nil {
		d.stats.Failing = d.second.err.Error()
	}
	return nil
}

// restoreRecords writes the records to the store that only the file has.
func (d *Disk) restoreRecords() error {
	saved, undamaged, err := d.second.read()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("second copy of records: %w", err)
	}
	var changes []change
	err = d.view(func(tx *bolt.Tx) error {
		for _, c := range saved {
			if ok, _ := d.second.keys.includes(c.key); ok && tx.Bucket(records).Get(c.key) == nil {
				changes = append(changes, c)
			}
		}
		return nil
	})
	if err == nil && len(changes) > 0 {
		err = d.update(nil, changes, func(*head) {})
	}
	if err != nil {
		return fmt.Errorf("second copy of records: %w", err)
	}
	for _, c := range changes {
		if _, immediate := d.second.keys.includes(c.key); immediate {
			d.restored++
		}
	}
	d.secondWhole = undamaged
	return nil
}

// Restored returns how many records came back from the second copy, and whether the copy was
// undamaged. If it was, none of its records is lost.
func (d *Disk) Restored() (records int, undamaged bool) { return d.restored, d.secondWhole }

// read returns the records of the file; see parseSecond.
func (s *secondCopy) read() (changes []change, undamaged bool, err error) {
	f, err := os.Open(s.path)
	if err != nil {
		return nil, false, err
	}
	b, err := io.ReadAll(io.LimitReader(f, maxSecond))
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, false, err
	}
	changes, undamaged = parseSecond(b)
	return changes, undamaged, nil
}

// parseSecond reads the records of a file in the order in which they were first written. undamaged is
// false if anything is wrong except a truncated last record.
func parseSecond(b []byte) (changes []change, undamaged bool) {
	rest, undamaged := bytes.CutPrefix(b, []byte(secondVersion))
	if !undamaged {
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
		key, encoded, ok := parseFrame(record)
		if !ok {
			undamaged = false
			continue
		}
		i, known := place[string(key)]
		if !known {
			i = len(changes)
			place[string(key)] = i
			changes = append(changes, change{key: key})
		}
		if changes[i].encoded = encoded; encoded[0] == kindDeleted {
			changes[i].encoded = nil
		}
	}
	var live []change
	for _, c := range changes {
		if c.encoded != nil {
			live = append(live, c)
		}
	}
	return live, undamaged
}

// parseFrame reads one record of the file.
func parseFrame(record []byte) (key, encoded []byte, ok bool) {
	if len(record) < 2 {
		return nil, nil, false
	}
	n := int(binary.BigEndian.Uint16(record))
	if n == 0 || n > len(record)-2 {
		return nil, nil, false
	}
	key, encoded = record[2:2+n], record[2+n:]
	kind, _, ok := decode(key, encoded)
	return key, encoded, ok && (kind == kindInline || kind == kindDeleted)
}

func appendFrame(b []byte, c change) []byte {
	encoded := c.encoded
	if encoded == nil {
		encoded = encode(kindDeleted, c.key, nil)
	}
	b = binary.BigEndian.AppendUint32(b, uint32(2+len(c.key)+len(encoded)))
	b = binary.BigEndian.AppendUint16(b, uint16(len(c.key)))
	return append(append(b, c.key...), encoded...)
}

// rewriteSecond rewrites the file from the store. Records that are damaged in the store are taken
// from the old file. If the old file cannot be read then, it stays as it is.
func (d *Disk) rewriteSecond() error {
	s := d.second
	b := []byte(secondVersion)
	if info, err := os.Stat(s.path); err == nil {
		b = slices.Grow(b, int(min(info.Size(), maxSecond))+secondSlack) // growing copies many megabytes again and again
	}
	damaged := map[string]bool{} // keys of records
	if err := d.foldLog(); err != nil {
		return fmt.Errorf("second copy of records: %w", err)
	}
	err := d.view(func(tx *bolt.Tx) error {
		take := func(key, encoded []byte) {
			switch kind, _, ok := decode(key, encoded); {
			case !ok:
				damaged[string(key)] = true
			case kind == kindInline:
				b = appendFrame(b, change{key, encoded})
			}
		}
		for _, p := range s.keys.Prefix {
			cursor := tx.Bucket(records).Cursor()
			for key, encoded := cursor.Seek([]byte(p)); bytes.HasPrefix(key, []byte(p)); key, encoded = cursor.Next() {
				take(key, encoded)
			}
		}
		for _, k := range s.keys.Lazy {
			if encoded := tx.Bucket(records).Get([]byte(k)); encoded != nil {
				take([]byte(k), encoded)
			}
		}
		return nil
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
		_ = s.file.Close() // its records are written anew
		s.file = nil
	}
	if err == nil && !sameContent(s.path, b) {
		err = WriteFile(s.path, b)
	}
	if err == nil {
		s.file, err = os.OpenFile(s.path, os.O_WRONLY|os.O_APPEND, 0)
	}
	if err != nil {
		return fmt.Errorf("second copy of records: %w", err)
	}
	s.size, s.startSize = int64(len(b)), int64(len(b))
	return nil
}

// sameContent reports whether a file has this content already. A start then need not write and sync it.
func sameContent(path string, content []byte) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	part := make([]byte, 1<<16)
	for {
		n, err := io.ReadFull(f, part)
		if n > len(content) || !bytes.Equal(part[:n], content[:n]) {
			return false
		}
		content = content[n:]
		switch {
		case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
			return len(content) == 0
		case err != nil:
			return false
		}
	}
}

// appendSecond appends durable changes to the second copy. A failure leaves the store as it is and
// shows in Stats; the next change rewrites the file.
func (d *Disk) appendSecond(changes []change) {
	s := d.second
	if s == nil {
		return
	}
	var b []byte
	needed := false
	for _, c := range changes {
		if c.encoded != nil && c.encoded[0] != kindInline {
			continue
		}
		included, immediate := s.keys.includes(c.key)
		if needed = needed || immediate; included {
			b = appendFrame(b, c)
		}
	}
	switch {
	case !needed:
		return
	case s.err != nil || s.file == nil || s.size+int64(len(b)) > 2*s.startSize+secondSlack:
		s.err = d.rewriteSecond()
		return
	}
	n, err := s.file.Write(b)
	s.size += int64(n)
	if err == nil {
		err = s.file.Sync()
	}
	if err != nil {
		s.err = fmt.Errorf("second copy of records: %w", err)
	}
}
