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

// segmentSize is where a segment is full. A segment is what is freed at once: a
// larger one would keep more dead bytes waiting for the last live ones.
const segmentSize = 64 << 20

// Segments are files of bodies, one behind the other with nothing between them:
// bbolt's file alone knows what lies where. Bodies are only ever added at the end
// of the current segment; a segment that is mostly dead is emptied (sweep.go) and
// removed. The numbers of segments are not used again.
//
// What is behind the last body that the index knows was written by a commit that
// did not come to its end; it is written over.
type segments struct {
	dir   string
	limit int64 // segmentSize, but for tests; the writer's own

	// Who reads a body holds the gate from before it looks into the index:
	// then no segment it finds there is removed under its hands.
	gate  sync.RWMutex
	files map[uint32]*os.File // the gate guards the map

	// What follows belongs to the writer.
	use     map[uint32]usage
	current uint32 // bodies are added to this one; 0: to a new one
	top     uint32 // the highest number there was

	// Since the last settled:
	begun  uint32   // the current segment then
	before usage    // its usage
	made   []uint32 // new segments
}

// A usage says how much of a segment is used.
type usage struct {
	live    int64 // bytes of bodies that the index knows
	end     int64 // where the last body ends
	emptied bool  // a sweep is moving its bodies elsewhere
	stuck   bool  // it has bodies that cannot be moved
}

// openSegments opens the segments in a folder, which may be missing. use says
// which bodies the index knows; segments without any are removed. wrong is what
// bodies it misses.
func openSegments(dir string, use map[uint32]usage) (s *segments, wrong findings, err error) {
	s = &segments{dir: dir, files: map[uint32]*os.File{}, use: use}
	names, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, wrong, err
	}
	for _, name := range names {
		var n uint32
		if _, err := fmt.Sscanf(name.Name(), segmentName, &n); err != nil || n == 0 || name.Name() != fmt.Sprintf(segmentName, n) {
			continue // somebody else's
		}
		s.top = max(s.top, n)
		if _, known := use[n]; known {
			err = s.reopen(n, &wrong)
		} else {
			err = os.Remove(s.path(n))
		}
		if err != nil {
			return nil, wrong, errors.Join(err, s.close())
		}
	}
	for n := range use {
		if s.top = max(s.top, n); s.files[n] == nil {
			wrong.add("segment %d is missing", n)
			delete(use, n)
			continue
		}
		s.current = max(s.current, n)
	}
	s.settled()
	return s, wrong, nil
}

const segmentName = "%06d.seg"

func (s *segments) path(n uint32) string { return filepath.Join(s.dir, fmt.Sprintf(segmentName, n)) }

func (s *segments) open(n uint32, flag int) error {
	f, err := os.OpenFile(s.path(n), os.O_RDWR|flag, 0o600)
	if err != nil {
		return err
	}
	s.gate.Lock()
	defer s.gate.Unlock()
	s.files[n] = f
	return nil
}

// reopen opens a segment and cuts off a torn tail.
func (s *segments) reopen(n uint32, wrong *findings) error {
	if err := s.open(n, 0); err != nil {
		return err
	}
	info, err := s.files[n].Stat()
	if err != nil {
		return err
	}
	end := s.use[n].end
	if info.Size() < end {
		wrong.add("segment %d has %d of %d bytes", n, info.Size(), end)
	} else if info.Size() > end {
		err = s.files[n].Truncate(end)
	}
	return err
}

// add writes a body at the end of the current segment, or of a new one. Then
// comes sync, and settled once the index knows the body; or else undo.
func (s *segments) add(body []byte) (place, error) {
	end := s.use[s.current].end
	if s.current == 0 || end > 0 && end+int64(len(body)) > s.limit {
		if err := s.begin(); err != nil {
			return place{}, err
		}
	}
	u := s.use[s.current]
	if _, err := s.files[s.current].WriteAt(body, u.end); err != nil {
		return place{}, err
	}
	p := place{segment: s.current, offset: uint32(u.end), length: uint32(len(body)), sum: xxhash.Sum64(body)}
	u.end = p.end()
	s.use[s.current] = u
	return p, nil
}

// begin makes a new segment the current one.
func (s *segments) begin() error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	if err := s.open(s.top+1, os.O_CREATE|os.O_EXCL); err != nil {
		return err
	}
	s.top++
	s.current = s.top
	s.made = append(s.made, s.current)
	s.use[s.current] = usage{}
	return errors.Join(settle(s.dir), settle(filepath.Dir(s.dir)))
}

// sync makes durable what was added.
func (s *segments) sync() error {
	for _, n := range s.made {
		if err := s.files[n].Sync(); err != nil {
			return err
		}
	}
	if s.begun != 0 && s.use[s.begun].end > s.before.end {
		return s.files[s.begun].Sync()
	}
	return nil
}

// settled says that the index knows what was added.
func (s *segments) settled() {
	s.begun, s.before, s.made = s.current, s.use[s.current], s.made[:0]
}

// undo takes back what was added; the index must know nothing of it. Where the
// disk does not help, the bytes stay until they are written over or the store is
// opened again.
func (s *segments) undo() {
	for _, n := range s.made {
		_ = s.remove(n)
	}
	if s.current = s.begun; s.current != 0 { // of which add may have written a part
		s.use[s.current] = s.before
		_ = s.files[s.current].Truncate(s.before.end)
	}
	s.settled()
}

// seal ends the current segment: the next body begins another.
func (s *segments) seal() {
	s.current = 0
	s.settled()
}

// read returns a body. The caller holds the gate.
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

// account notes what a transaction did to the live bytes of segments.
func (s *segments) account(live map[uint32]int64) {
	for n, by := range live {
		if u, ok := s.use[n]; ok {
			u.live += by
			s.use[n] = u
		}
	}
}

// remove deletes a segment. A file that cannot be deleted is, when the store is
// opened the next time.
func (s *segments) remove(n uint32) error {
	s.gate.Lock()
	defer s.gate.Unlock()
	f := s.files[n]
	delete(s.files, n)
	delete(s.use, n)
	return errors.Join(f.Close(), os.Remove(s.path(n)))
}

// close closes all files.
func (s *segments) close() error {
	s.gate.Lock()
	defer s.gate.Unlock()
	var errs []error
	for n, f := range s.files {
		errs = append(errs, f.Close())
		delete(s.files, n)
	}
	return errors.Join(errs...)
}
