package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/cespare/xxhash/v2"

	"tidings/internal/env"
)

// segmentSize is the size at which a segment is full. Space is freed by whole segments: larger ones
// would keep more dead bytes until their last live ones are moved.
const segmentSize = 64 << 20

// segments are files of bodies without gaps between them; only bbolt's file knows the place of
// each. Bodies are appended to the current segment. A segment that is mostly dead is emptied
// (sweep.go) and removed. Segment numbers are not used again.
//
// Bytes behind the last body that the index knows belong to a commit that did not finish. They are
// overwritten.
type segments struct {
	dir   string
	limit int64 // segmentSize, except in tests; only the writer uses it

	// A reader of a body holds mu from before it looks into the index. No segment that it finds
	// there is removed meanwhile.
	mu    sync.RWMutex
	files map[uint32]*os.File // guarded by mu

	// The fields below belong to the writer.
	usage   map[uint32]usage
	current uint32 // segment that bodies are appended to; 0: a new one
	highest uint32 // highest number so far

	// State at the last save, for undo:
	savedCurrent uint32   // current at that time
	savedUsage   usage    // its usage at that time
	created      []uint32 // segments created since then
}

// A usage says how much of a segment is used.
type usage struct {
	live     int64 // bytes of bodies that the index knows
	end      int64 // end of the last body
	emptying bool  // a sweep is moving its bodies elsewhere
	stuck    bool  // it has bodies that cannot be moved
}

// openSegments opens the segments in a folder, which may be missing. use has the bodies that the
// index knows, by segment; segments without any are removed. damage lists missing bodies.
func openSegments(dir string, use map[uint32]usage) (s *segments, damage problems, err error) {
	s = &segments{dir: dir, files: map[uint32]*os.File{}, usage: use}
	names, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, damage, err
	}
	for _, name := range names {
		var n uint32
		if _, err := fmt.Sscanf(name.Name(), segmentName, &n); err != nil || n == 0 || name.Name() != fmt.Sprintf(segmentName, n) {
			continue // not a segment
		}
		s.highest = max(s.highest, n)
		if _, known := use[n]; known {
			err = s.reopen(n, &damage)
		} else {
			err = os.Remove(s.path(n))
		}
		if err != nil {
			return nil, damage, errors.Join(err, s.close())
		}
	}
	for n := range use {
		if s.highest = max(s.highest, n); s.files[n] == nil {
			damage.add("segment %d is missing", n)
			delete(use, n)
			continue
		}
		s.current = max(s.current, n)
	}
	s.save()
	return s, damage, nil
}

const segmentName = "%06d.seg"

func (s *segments) path(n uint32) string { return filepath.Join(s.dir, fmt.Sprintf(segmentName, n)) }

func (s *segments) open(n uint32, flag int) error {
	f, err := os.OpenFile(s.path(n), os.O_RDWR|flag, 0o600)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files[n] = f
	return nil
}

// reopen opens a segment and cuts off everything behind its last body.
func (s *segments) reopen(n uint32, damage *problems) error {
	if err := s.open(n, 0); err != nil {
		return err
	}
	info, err := s.files[n].Stat()
	if err != nil {
		return err
	}
	end := s.usage[n].end
	if info.Size() < end {
		damage.add("segment %d has %d of %d bytes", n, info.Size(), end)
	} else if info.Size() > end {
		err = s.files[n].Truncate(end)
	}
	return err
}

// add writes a body at the end of the current segment, or of a new one. The caller then calls sync,
// and save once the index knows the body. Otherwise it calls undo.
func (s *segments) add(body []byte) (place, error) {
	end := s.usage[s.current].end
	if s.current == 0 || end > 0 && end+int64(len(body)) > s.limit {
		if err := s.create(); err != nil {
			return place{}, err
		}
	}
	u := s.usage[s.current]
	if _, err := s.files[s.current].WriteAt(body, u.end); err != nil {
		return place{}, err
	}
	p := place{segment: s.current, offset: uint32(u.end), length: uint32(len(body)), sum: xxhash.Sum64(body)}
	u.end = p.end()
	s.usage[s.current] = u
	return p, nil
}

// create makes a new segment the current one.
func (s *segments) create() error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	if err := s.open(s.highest+1, os.O_CREATE|os.O_EXCL); err != nil {
		return err
	}
	s.highest++
	s.current = s.highest
	s.created = append(s.created, s.current)
	s.usage[s.current] = usage{}
	return errors.Join(syncFolder(s.dir), syncFolder(filepath.Dir(s.dir)))
}

// sync makes the added bodies durable.
func (s *segments) sync() error {
	for _, n := range s.created {
		if err := s.files[n].Sync(); err != nil {
			return err
		}
	}
	if s.savedCurrent != 0 && s.usage[s.savedCurrent].end > s.savedUsage.end {
		return s.files[s.savedCurrent].Sync()
	}
	return nil
}

// save confirms the added bodies: the index knows them.
func (s *segments) save() {
	s.savedCurrent, s.savedUsage, s.created = s.current, s.usage[s.current], s.created[:0]
}

// undo removes the added bodies, which must not be in the index. If the disk fails here, their
// bytes stay until they are overwritten or the store is opened again.
func (s *segments) undo() {
	for _, n := range s.created {
		_ = s.remove(n)
	}
	if s.current = s.savedCurrent; s.current != 0 { // add may have written a part of a body
		s.usage[s.current] = s.savedUsage
		_ = s.files[s.current].Truncate(s.savedUsage.end)
	}
	s.save()
}

// rotate ends the current segment. The next body begins another.
func (s *segments) rotate() {
	s.current = 0
	s.save()
}

// read returns a body. The caller holds mu.
func (s *segments) read(p place) ([]byte, error) {
	f := s.files[p.segment]
	if f == nil {
		return nil, fmt.Errorf("%w: segment %d is missing", env.ErrDamaged, p.segment)
	}
	b := make([]byte, p.length)
	if _, err := f.ReadAt(b, int64(p.offset)); err != nil {
		if !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("%w: %w", env.ErrDamaged, err)
		}
		return nil, fmt.Errorf("%w: segment %d ends too soon", env.ErrDamaged, p.segment)
	}
	if xxhash.Sum64(b) != p.sum {
		return nil, fmt.Errorf("%w: bytes %d to %d of segment %d", env.ErrDamaged, p.offset, p.end(), p.segment)
	}
	return b, nil
}

// addLive adds the changes of a transaction to the live bytes of segments.
func (s *segments) addLive(live map[uint32]int64) {
	for n, by := range live {
		if u, ok := s.usage[n]; ok {
			u.live += by
			s.usage[n] = u
		}
	}
}

// remove deletes a segment. If the file cannot be deleted, the next Open deletes it.
func (s *segments) remove(n uint32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.files[n]
	delete(s.files, n)
	delete(s.usage, n)
	return errors.Join(f.Close(), os.Remove(s.path(n)))
}

// close closes all files.
func (s *segments) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for n, f := range s.files {
		errs = append(errs, f.Close())
		delete(s.files, n)
	}
	return errors.Join(errs...)
}
