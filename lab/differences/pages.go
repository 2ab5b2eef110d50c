// Package differences replays traces of real documents to the difference engine, as a poller
// sees them one after the other, and counts what it makes of them: changes that were
// labelled and found, alarms where nothing was, what changes take on the wire, and time.
//
// Labels say at which snapshots of a page the wording changed that somebody cared for. Every other
// neighbouring pair of a labelled page's trace counts as noise, also where something else
// of the page has changed.
//
// The package leaves to difference/page what a change is, and to its caller where
// traces are.
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

// ReadLabels reads a table of the columns trace, file and class, with their names first.
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

// A Change is one of a page that the engine tells.
type Change struct {
	File      string  `json:"file"`
	Class     string  `json:"class,omitempty"` // as labelled; none: noise, if the trace has labels
	Lines     int     `json:"lines"`           // that go and come
	Applies   bool    `json:"applies"`         // as it is sent, to the old core: that is the new one then
	Patches   *bool   `json:"patches"`         // as text, by GNU patch; null: it is not installed
	WireRatio float64 `json:"wire_ratio"`      // bytes on the wire, of those of the new core packed alone
	Share     float64 `json:"share"`           // bytes of the lines that come and go, of the new core's
	Hunk      string  `json:"hunk"`            // the first
}

// A Page is what was made of the trace of one.
type Page struct {
	Name      string    `json:"name"`
	Kind      string    `json:"kind"`     // page
	Labelled  bool      `json:"labelled"` // or else there is no truth to compare with
	Snapshots int       `json:"snapshots"`
	Bytes     int64     `json:"bytes"`
	Seconds   float64   `json:"seconds"`          // of CPU
	Wording   int       `json:"changes"`          // changes labelled so,
	Missed    []string  `json:"missed,omitempty"` // and files of those that were not told
	Noise     int       `json:"noise_pairs"`      // pairs
	Changes   []Change  `json:"told,omitempty"`
	Failed    []string  `json:"failed,omitempty"` // snapshots that were taken for errors, and why
	Returned  int       `json:"returned"`         // snapshots that were taken for replicas that lag
	Speeds    []float64 `json:"-"`                // bytes of each snapshot in a second
	Slowest   float64   `json:"worst_s"`
}

// Alarms are the changes told where the label says that there is none.
func (p *Page) Alarms() (of []Change) {
	for _, c := range p.Changes {
		if p.Labelled && c.Class == "" {
			of = append(of, c)
		}
	}
	return of
}

// longestHunk is how many bytes of a hunk are told.
const maxHunkBytes = 1000

// Pages replays the trace of a page.
func Pages(name string, of []origin.Snapshot, labels map[string]string) (Page, error) {
	p := Page{Name: name, Kind: "page", Labelled: labels != nil, Snapshots: len(of)}
	var m page.Memory
	for i, s := range of {
		began := time.Now()
		old := m.Core()
		core, err := page.Read(s.Body, s.ContentType, page.Place{})
		f := page.Finding{Kind: page.Failed}
		if err != nil {
			f.Reason = err.Error()
		} else {
			f = m.Look(core, s.Time)
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
				if f.Kind != page.News {
					p.Missed = append(p.Missed, s.File)
				}
			case "":
				p.Noise++
			}
		}
		switch f.Kind {
		case page.Failed:
			p.Failed = append(p.Failed, s.File+": "+f.Reason)
		case page.Returned:
			p.Returned++
		case page.News:
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

// change measures one, and tries whether who has the old version comes to the new one by it.
func change(old *page.Core, f *page.Finding) (c Change, err error) {
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

// patches says whether GNU patch makes the new text of the old one by a patch; nil if there is no
// such program.
func patches(text, old, now string) (*bool, error) {
	program, err := exec.LookPath("patch")
	if err != nil {
		return nil, nil //nolint:nilerr,nilnil // it is not known, and that is no error
	}
	dir, err := os.MkdirTemp("", "tidings-patch-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // it is the system's folder for what is left
	file := filepath.Join(dir, "core")
	if err := os.WriteFile(file, []byte(old), 0o600); err != nil {
		return nil, err
	}
	command := exec.Command(program, "--normal", "--silent", "--force", file)
	command.Stdin = strings.NewReader(text)
	failed := command.Run()
	got, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) { // an empty file is removed
		return nil, err
	}
	ok := failed == nil && string(got) == now
	return &ok, nil
}

// packedSize is that of a text that is sent alone.
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
