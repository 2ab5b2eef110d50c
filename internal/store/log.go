package store

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/cespare/xxhash/v2"
)

// The log makes commits durable with one sync of a few bytes, where bbolt needs two syncs of many pages. It is a file
// of fixed size, whose bytes are all written when it is made, so that a sync does not change the file system:
//
//	tidings log 1\n | salt (16), in the first 512 bytes
//	frames, each at a multiple of 512 bytes:
//	mark (4) | length of the rest (4) | number (8) | checksum of the salt, the number and the changes (8) | changes
//	a change: length of the key (2) | length of the stored value (4), all ones: deleted | key | stored value
//
// Each frame has the changes of one group of commits, and a number one higher than the frame before. What is in the log is
// also in memory (pending), where readers look first. When the log is full, and when the store is closed, all of it goes
// into bbolt's file in one transaction, whose head then has the number of the last frame. The next frame is written at
// the start of the log. Frames whose numbers are not above that of the head are old.
//
// The salt is random. Without it a value could look like a frame, if it came from somebody who tries that.
//
// A frame that was being written in a crash is torn, and nobody was told of it. A frame that is damaged and has others
// behind it was durable; then records are lost, and Disk.Lost says so. The same holds if the log is missing while
// the head says that there is one, and if the first frame does not follow the head.

const (
	logVersion = "tidings log 1\n"
	logMark    = "log1"
	// logSize is the size of the file. All of the log is in memory, too, and one transaction of bbolt takes some
	// milliseconds for so many bytes, in which other commits wait.
	logSize  = 1 << 20
	logBlock = 512
	saltSize = 16

	frameHead   = 4 + 4 + 8 + 8
	deletedSize = 1<<32 - 1
)

// A commitLog is the log of a store, and what is in it. Only the writer changes it; readers hold mu.
type commitLog struct {
	path   string
	file   *os.File // nil: there is none yet
	salt   []byte
	end    int64  // where the next frame begins
	number uint64 // of the last frame, or of the head if that is higher

	attempts uint // to make the file

	mu      sync.RWMutex
	pending map[string][]byte // stored values by key; nil: deleted
}

// changes returns what is in the log, by key.
func (l *commitLog) changes() (all []change) {
	for _, k := range slices.Sorted(maps.Keys(l.pending)) {
		all = append(all, change{[]byte(k), l.pending[k]})
	}
	return all
}

// forget empties the log, because bbolt has what was in it.
func (l *commitLog) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending, l.end = map[string][]byte{}, logBlock
}

// get returns what the log has of a key. The caller holds mu.
func (l *commitLog) get(key []byte) (encoded []byte, known bool) {
	encoded, known = l.pending[string(key)]
	return encoded, known
}

// keys returns the keys with a prefix, in their order.
func (l *commitLog) keys(prefix []byte) (keys []string) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for k := range l.pending {
		if strings.HasPrefix(k, string(prefix)) {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return keys
}

// fits reports whether there is room for changes.
func (l *commitLog) fits(changes []change) bool {
	return l.file != nil && l.end+frameSize(changes) <= logSize
}

// add makes changes durable.
func (l *commitLog) add(changes []change) error {
	frame := encodeFrame(l.salt, l.number+1, changes)
	if _, err := l.file.WriteAt(frame, l.end); err != nil {
		return err
	}
	if err := SyncData(l.file); err != nil {
		return err
	}
	l.number++
	l.end += int64(len(frame))
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range changes {
		l.pending[string(c.key)] = c.encoded
	}
	return nil
}

// create makes the file, durably.
func (l *commitLog) create() error {
	f, err := os.OpenFile(l.path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	first := append(append(make([]byte, 0, logSize), logVersion...), make([]byte, saltSize)...)
	l.salt = first[len(logVersion):]
	_, _ = rand.Read(l.salt) // never fails
	if _, err = f.Write(first[:logSize]); err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = syncFolder(filepath.Dir(l.path))
	}
	if err != nil {
		return errors.Join(err, f.Close(), os.Remove(l.path))
	}
	l.salt = bytes.Clone(l.salt)
	l.file, l.end = f, logBlock
	return nil
}

func (l *commitLog) close() error {
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}

func frameSize(changes []change) int64 {
	n := int64(frameHead)
	for _, c := range changes {
		n += int64(2 + 4 + len(c.key) + len(c.encoded))
	}
	return (n + logBlock - 1) / logBlock * logBlock
}

func encodeFrame(salt []byte, number uint64, changes []change) []byte {
	b := make([]byte, frameHead, frameSize(changes))
	for _, c := range changes {
		b = binary.BigEndian.AppendUint16(b, uint16(len(c.key)))
		size := uint32(len(c.encoded))
		if c.encoded == nil {
			size = deletedSize
		}
		b = binary.BigEndian.AppendUint32(b, size)
		b = append(append(b, c.key...), c.encoded...)
	}
	copy(b, logMark)
	binary.BigEndian.PutUint32(b[4:], uint32(len(b)-8))
	binary.BigEndian.PutUint64(b[8:], number)
	binary.BigEndian.PutUint64(b[16:], frameSum(salt, b[8:16], b[frameHead:]))
	return b[:cap(b)]
}

func frameSum(salt, number, changes []byte) uint64 {
	var d xxhash.Digest
	d.Reset()
	_, _ = d.Write(salt)
	_, _ = d.Write(number)
	_, _ = d.Write(changes)
	return d.Sum64()
}

// A frame is what the log has of one group of commits.
type frame struct {
	number  uint64
	changes []change
	size    int64 // in the file
}

// parseLogFrame reads the frame at the start of b, if there is a whole one.
func parseLogFrame(salt, b []byte) (f frame, ok bool) {
	if len(b) < frameHead || string(b[:4]) != logMark {
		return f, false
	}
	n := binary.BigEndian.Uint32(b[4:])
	if n < frameHead-8 || uint64(n) > uint64(len(b)-8) {
		return f, false
	}
	rest := b[frameHead : 8+n]
	if frameSum(salt, b[8:16], rest) != binary.BigEndian.Uint64(b[16:]) {
		return f, false
	}
	f.number = binary.BigEndian.Uint64(b[8:])
	for len(rest) > 0 {
		if len(rest) < 6 {
			return f, false
		}
		keySize, size := int(binary.BigEndian.Uint16(rest)), binary.BigEndian.Uint32(rest[2:])
		rest = rest[6:]
		deleted := size == deletedSize
		if deleted {
			size = 0
		}
		if uint64(keySize)+uint64(size) > uint64(len(rest)) {
			return f, false
		}
		c := change{key: rest[:keySize]}
		if !deleted {
			c.encoded = rest[keySize : keySize+int(size)]
		}
		f.changes, rest = append(f.changes, c), rest[keySize+int(size):]
	}
	f.size = frameSize(f.changes)
	return f, true
}

// A replay is what a log has that bbolt's file lacks.
type replay struct {
	frames []frame
	lost   string // why durable frames may be missing; "": none are
}

// open opens the file, if there is one, and reads the frames that follow a head.
func (l *commitLog) open(h head) (r replay, err error) {
	l.number, l.pending = h.number, map[string][]byte{}
	f, err := os.OpenFile(l.path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		if h.logged {
			r.lost = "the log of the last commits is missing"
		}
		return r, nil
	}
	if err != nil {
		return r, err
	}
	b, err := io.ReadAll(io.LimitReader(f, logSize+1))
	if err != nil {
		return r, errors.Join(err, f.Close())
	}
	if len(b) != logSize || !bytes.HasPrefix(b, []byte(logVersion)) {
		if h.logged {
			r.lost = "the log of the last commits is damaged"
		}
		return r, f.Close() // another one is made
	}
	l.file, l.end, l.salt = f, logBlock, bytes.Clone(b[len(logVersion):][:saltSize])
	r.read(l.salt, b, h.number)
	return r, nil
}

// read finds the frames of a log that follow a number.
func (r *replay) read(salt, b []byte, number uint64) {
	for at := logBlock; at+frameHead <= len(b); {
		f, ok := parseLogFrame(salt, b[at:])
		if !ok {
			at += logBlock // there may be others behind it
			continue
		}
		at += int(f.size)
		if f.number <= number {
			continue // it is old
		}
		if f.number != number+1 {
			r.lost = fmt.Sprintf("the log of the last commits is damaged before number %d", f.number)
		}
		r.frames, number = append(r.frames, f), f.number
	}
}

// replayLog brings what the log has into bbolt's file.
func (d *Disk) replayLog(r replay) error {
	if len(r.frames) == 0 && r.lost == "" {
		return nil
	}
	for _, f := range r.frames {
		for _, c := range f.changes {
			d.log.pending[string(c.key)] = c.encoded
		}
		d.log.number = f.number
	}
	if r.lost != "" {
		d.repaired = strings.TrimPrefix(d.repaired+"; "+r.lost, "; ")
	}
	err := d.update(nil, d.log.changes(), func(h *head) {
		h.lost = strings.Trim(h.lost+"; "+r.lost, "; ")
		h.lost = h.lost[:min(len(h.lost), maxLost)]
	})
	if err == nil {
		d.lost = d.head.lost
		d.log.forget()
	}
	return err
}

// fold brings what is in the log, and further changes, into bbolt's file.
func (d *Disk) fold(further []change, edit func(*head)) error {
	if err := d.update(d.log.changes(), further, edit); err != nil {
		return err
	}
	d.log.forget()
	return nil
}

// foldLog is fold for a caller that has no changes of its own.
func (d *Disk) foldLog() error {
	if len(d.log.pending) == 0 {
		return nil
	}
	return d.fold(nil, func(*head) {})
}

// closeLog leaves nothing in the log, so that bbolt's file can be copied without it. If that fails, the next Open does it.
func (d *Disk) closeLog() {
	if d.writeErr == nil && d.head.logged {
		_ = d.fold(nil, func(h *head) { h.logged = false })
	}
}

// usageIn adds the bodies that the log knows to the usage of segments, so that they are not cut off. They are counted as
// live when they are in bbolt's file.
func (r replay) usageIn(use map[uint32]usage) {
	for _, f := range r.frames {
		for _, c := range f.changes {
			if c.encoded == nil {
				continue
			}
			if of, ok := parseRecord(c.key, c.encoded); ok && of.external {
				u := use[of.place.segment]
				u.end = max(u.end, of.place.end())
				use[of.place.segment] = u
			}
		}
	}
}
