// Package differences replays traces of real documents to the difference engine, as a poller sees
// them, and counts the labelled changes that it finds, false alarms, the size of changes on the
// wire, and time.
//
// Labels mark the snapshots of a page whose wording changed in a way that a reader cares about.
// Every other pair of neighbours in a labelled trace counts as noise, even if something else on the
// page has changed.
//
// difference/page decides what a change is; the caller knows where the traces are.
package differences

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"tidings/difference/page"
	"tidings/internal/daemon/origin"
)

// Classes of labels.
const (
	Wording = "text"
	Markup  = "link_or_markup_only"
)

// Labels are the classes of changes, by trace and file.
type Labels map[string]map[string]string

// ReadLabels reads a CSV table with the columns trace, file and class.
func ReadLabels(r io.Reader) (Labels, error) {
	table := csv.NewReader(r)
	rows, err := table.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("read labels: %w", err)
	}
	of := Labels{}
	for i, row := range rows {
		if i == 0 {
			continue
		}
		if len(row) < 3 || row[2] != Wording && row[2] != Markup {
			return nil, fmt.Errorf("read labels: line %d is not a trace, a file and %s or %s", i+1, Wording, Markup)
		}
		if of[row[0]] == nil {
			of[row[0]] = map[string]string{}
		}
		of[row[0]][row[1]] = row[2]
	}
	return of, nil
}

// A Change is a change of a page that the engine reports.
type Change struct {
	File      string  `json:"file"`
	Class     string  `json:"class,omitempty"` // its label; empty: noise, if the trace has labels
	Lines     int     `json:"lines"`           // lines that are removed and added
	Applies   bool    `json:"applies"`         // the encoded change turns the old core into the new one
	Patches   *bool   `json:"patches"`         // GNU patch applies the change as text; null: it is not installed
	WireRatio float64 `json:"wire_ratio"`      // bytes on the wire, relative to the compressed new core
	Share     float64 `json:"share"`           // bytes of the lines removed and added, relative to the new core
	Hunk      string  `json:"hunk"`            // the first one
}

// A Page is the result for the trace of a page.
type Page struct {
	Name      string    `json:"name"`
	Kind      string    `json:"kind"`     // page
	Labelled  bool      `json:"labelled"` // without labels there is no truth to compare with
	Snapshots int       `json:"snapshots"`
	Bytes     int64     `json:"bytes"`
	Seconds   float64   `json:"seconds"`          // of CPU time
	Wording   int       `json:"changes"`          // number of changes with this label
	Missed    []string  `json:"missed,omitempty"` // and files of those that were not reported
	Noise     int       `json:"noise_pairs"`      // pairs
	Changes   []Change  `json:"told,omitempty"`
	Failed    []string  `json:"failed,omitempty"` // snapshots that were taken for errors, and why
	Returned  int       `json:"returned"`         // snapshots that were taken for lagging replicas
	Speeds    []float64 `json:"-"`                // bytes per second, by snapshot
	Slowest   float64   `json:"worst_s"`
}

// Alarms returns the reported changes that are noise by their labels.
func (p *Page) Alarms() (of []Change) {
	for _, c := range p.Changes {
		if p.Labelled && c.Class == "" {
			of = append(of, c)
		}
	}
	return of
}

// maxHunkBytes bounds the hunk that is kept.
const maxHunkBytes = 1000

// Pages replays the trace of a page.
func Pages(name string, of []origin.Snapshot, labels map[string]string) (Page, error) {
	p := Page{Name: name, Kind: "page", Labelled: labels != nil, Snapshots: len(of)}
	var m page.Tracker
	for i, s := range of {
		began := time.Now()
		old := m.Core()
		core, err := page.Read(s.Body, s.ContentType, page.Location{})
		f := page.Result{Kind: page.Failed}
		if err != nil {
			f.Reason = err.Error()
		} else {
			f = m.Check(core, s.Time)
		}
		took := time.Since(began).Seconds()
		p.Bytes += int64(len(s.Body))
		p.Seconds += took
		p.Slowest = max(p.Slowest, took)
		p.Speeds = append(p.Speeds, float64(len(s.Body))/took)
		class := labels[s.File]
		if i > 0 {
			switch class {
			case Wording:
				p.Wording++
				if f.Kind != page.Changed {
					p.Missed = append(p.Missed, s.File)
				}
			case "":
				p.Noise++
			}
		}
		switch f.Kind {
		case page.Failed:
			p.Failed = append(p.Failed, s.File+": "+f.Reason)
		case page.Stale:
			p.Returned++
		case page.Changed:
			if i == 0 || len(old.Lines) == 0 {
				continue
			}
			c, err := change(&old, &f)
			if err != nil {
				return p, fmt.Errorf("%s: %w", s.File, err)
			}
			c.File, c.Class = s.File, class
			p.Changes = append(p.Changes, c)
		case page.Same:
		}
	}
	return p, nil
}

// change measures a change and checks that it turns the old version into the new one.
func change(old *page.Core, f *page.Result) (c Change, err error) {
	packed, err := f.Patch.Encode(old)
	if err != nil {
		return c, err
	}
	if sent, err := page.Decode(packed, old); err == nil {
		now, err := sent.Apply(old)
		c.Applies = err == nil && slices.Equal(now.Lines, f.Core.Lines)
	}
	text := f.Patch.Text(old)
	if c.Patches, err = patches(text, old.Text(), f.Core.Text()); err != nil {
		return c, err
	}
	come := 0
	for _, h := range f.Patch.Hunks {
		c.Lines += h.Omit + len(h.Add)
		for _, l := range h.Add {
			come += len(l) + 1
		}
	}
	whole, err := packedSize(f.Core.Text())
	if err != nil {
		return c, err
	}
	c.WireRatio = float64(len(packed)) / float64(max(whole, 1))
	c.Share = float64(come) / float64(max(len(f.Core.Text()), 1))
	first := page.Patch{Hunks: f.Patch.Hunks[:min(len(f.Patch.Hunks), 1)]}
	c.Hunk = first.Text(old)
	c.Hunk = strings.ToValidUTF8(c.Hunk[:min(len(c.Hunk), maxHunkBytes)], "")
	return c, nil
}

// patches reports whether GNU patch turns the old text into the new one; nil if it is not
// installed.
func patches(text, old, now string) (*bool, error) {
	program, err := exec.LookPath("patch")
	if err != nil {
		return nil, nil //nolint:nilerr,nilnil // it is not installed, which is no error
	}
	dir, err := os.MkdirTemp("", "tidings-patch-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // in the system's folder for temporary files
	file := filepath.Join(dir, "core")
	if err := os.WriteFile(file, []byte(old), 0o600); err != nil {
		return nil, err
	}
	command := exec.Command(program, "--normal", "--silent", "--force", file)
	command.Stdin = strings.NewReader(text)
	failed := command.Run()
	got, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) { // patch removes a file that becomes empty
		return nil, err
	}
	ok := failed == nil && string(got) == now
	return &ok, nil
}

// packedSize returns the size of a text that is compressed alone.
func packedSize(text string) (int, error) {
	var b bytes.Buffer
	z, err := zstd.NewWriter(&b, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedBestCompression))
	if err != nil {
		return 0, err
	}
	if _, err := z.Write([]byte(text)); err != nil {
		return 0, err
	}
	if err := z.Close(); err != nil {
		return 0, err
	}
	return b.Len(), nil
}
