package origin

import (
	"archive/tar"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"tidings/internal/script"
)

// maxWindow bounds the window of the decompressor. Successive versions of a document compress well only with
// a large one.
const maxWindow = 128 << 20

// maxSnapshot bounds the size of one document of a trace.
const maxSnapshot = 64 << 20

// A Snapshot is a real document at a time, from a trace.
type Snapshot struct {
	File        string // name of the file in the trace
	Time        time.Time
	ContentType string
	Body        []byte
}

// contentTypes are the types of the documents in traces, by extension. Other files are not served.
var contentTypes = map[string]string{
	".xml":  "application/xml",
	".html": "text/html",
	".json": "application/feed+json",
}

// Trace reads the snapshots of a trace, NAME.tar.zst, in order of time. If keep is not nil, it selects the
// files. The archive contains the documents and times.csv, whose first two columns are the name of a file and
// its time in UTC.
func Trace(name string, keep func(file string) bool) ([]Snapshot, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read a trace: %w", err)
	}
	defer func() { _ = f.Close() }()
	snapshots, err := readTrace(f, keep)
	if err != nil {
		return nil, fmt.Errorf("read the trace %s: %w", name, err)
	}
	return snapshots, nil
}

func readTrace(r io.Reader, keep func(file string) bool) (snapshots []Snapshot, err error) {
	z, err := zstd.NewReader(r, zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true))
	if err != nil {
		return nil, err
	}
	defer z.Close()
	times := map[string]time.Time{}
	for archive := tar.NewReader(z); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		file := path.Base(h.Name)
		contentType := contentTypes[path.Ext(file)]
		switch {
		case file == "times.csv":
			if times, err = readTimes(archive); err != nil {
				return nil, fmt.Errorf("times.csv: %w", err)
			}
		case contentType != "" && (keep == nil || keep(file)):
			if h.Size > maxSnapshot {
				return nil, fmt.Errorf("%s has %d bytes", file, h.Size)
			}
			body, err := io.ReadAll(archive)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			snapshots = append(snapshots, Snapshot{File: file, ContentType: contentType, Body: body})
		}
	}
	for i := range snapshots {
		at, ok := times[snapshots[i].File]
		if !ok {
			return nil, fmt.Errorf("%s has no time in times.csv", snapshots[i].File)
		}
		snapshots[i].Time = at
	}
	slices.SortStableFunc(snapshots, func(a, b Snapshot) int {
		if c := a.Time.Compare(b.Time); c != 0 {
			return c
		}
		return strings.Compare(a.File, b.File)
	})
	return snapshots, nil
}

func readTimes(r io.Reader) (map[string]time.Time, error) {
	rows, err := csv.NewReader(r).ReadAll()
	if err != nil {
		return nil, err
	}
	times := map[string]time.Time{}
	for i, row := range rows {
		if i == 0 { // names of columns
			continue
		}
		at, err := time.Parse(time.RFC3339, row[1])
		if err != nil {
			return nil, err
		}
		times[row[0]] = at
	}
	return times, nil
}

// Compress makes a script of snapshots. Each snapshot is served as long as it was current in reality, divided
// by speed, but no shorter than shortest and no longer than longest; 0 means no upper bound. The last snapshot is
// served forever.
func Compress(snapshots []Snapshot, speed float64, shortest, longest time.Duration) []script.Snapshot {
	out := make([]script.Snapshot, len(snapshots))
	for i, s := range snapshots {
		out[i] = script.Snapshot{Body: s.Body, ContentType: s.ContentType}
		if i+1 < len(snapshots) {
			hold := time.Duration(float64(snapshots[i+1].Time.Sub(s.Time)) / speed)
			if longest > 0 {
				hold = min(hold, longest)
			}
			out[i].Hold = max(hold, shortest)
		}
	}
	return out
}
