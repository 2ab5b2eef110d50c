package differences

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/mmcdole/gofeed"

	"tidings/difference"
	"tidings/internal/daemon/origin"
	"tidings/internal/feed"
)

// A Reference is what another parser sees between two snapshots of a feed. It is a second opinion,
// not the truth.
type Reference struct {
	New, Edited int // numbers of items
}

// References are the references of pairs, by trace and file of the later snapshot.
type References map[string]map[string]Reference

// ReadReferences reads a CSV table with at least the columns trace, file, parse_ok, new and mod, in
// any order. Pairs that the other parser could not read have no reference.
func ReadReferences(r io.Reader) (References, error) {
	rows, err := csv.NewReader(r).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("read pairs: %w", err)
	}
	of, column := References{}, map[string]int{}
	for i, row := range rows {
		if i == 0 {
			for at, name := range row {
				column[name] = at
			}
			for _, name := range []string{"trace", "file", "parse_ok", "new", "mod"} {
				if _, ok := column[name]; !ok {
					return nil, fmt.Errorf("read pairs: no column %s", name)
				}
			}
			continue
		}
		if ok, _ := strconv.ParseBool(row[column["parse_ok"]]); !ok {
			continue
		}
		added, err := strconv.Atoi(row[column["new"]])
		if err != nil {
			return nil, fmt.Errorf("read pairs: line %d: %w", i+1, err)
		}
		edited, err := strconv.Atoi(row[column["mod"]])
		if err != nil {
			return nil, fmt.Errorf("read pairs: line %d: %w", i+1, err)
		}
		trace := row[column["trace"]]
		if of[trace] == nil {
			of[trace] = map[string]Reference{}
		}
		of[trace][row[column["file"]]] = Reference{New: added, Edited: edited}
	}
	return of, nil
}

// Pairs counts pairs of neighbouring snapshots, and those for which the engine reports a change.
type Pairs struct {
	Pairs    int `json:"pairs"`
	Reported int `json:"told"`
}

// A Feed is the result for the trace of a feed.
type Feed struct {
	Name      string   `json:"name"`
	Kind      string   `json:"kind"` // feed
	Snapshots int      `json:"snapshots"`
	Bytes     int64    `json:"bytes"`
	New       Pairs    `json:"with_new_items"`
	Returning int      `json:"with_items_that_come_back"` // pairs whose new items are all known from earlier in the trace
	Edited    Pairs    `json:"with_edits_only"`
	Unchanged Pairs    `json:"without_item_change"`
	Failed    []string `json:"failed,omitempty"` // snapshots that could not be parsed, or were suspicious
	Mistaken  []string `json:"fooled,omitempty"` // pairs with new items but no report, or with a report but no change
}

// Feeds replays the trace of a feed. Pairs without a reference are not counted.
func Feeds(name string, of []origin.Snapshot, references map[string]Reference) Feed {
	t := Feed{Name: name, Kind: "feed", Snapshots: len(of)}
	var known difference.Known
	doubted := false
	for i, s := range of {
		t.Bytes += int64(len(s.Body))
		f, err := feed.Parse(s.Body, s.ContentType)
		if err != nil {
			t.Failed = append(t.Failed, s.File+": "+err.Error())
			continue
		}
		if why := known.Suspicious(f); why != "" && !doubted { // a suspicious snapshot is accepted if it stays
			doubted = true
			t.Failed = append(t.Failed, s.File+": "+why)
			continue
		}
		doubted = false
		known.Recognise(f)
		d := known.Diff(f)
		known.Touch(f)
		known.Add(d)
		reference, ok := references[s.File]
		if i == 0 || !ok {
			continue
		}
		told := !d.Empty()
		switch {
		case reference.New > 0 && !told && seenBefore(s, of[:i]):
			t.Returning++
		case reference.New > 0:
			t.New.count(told)
			if !told {
				t.Mistaken = append(t.Mistaken, fmt.Sprintf("%s: %d new items are not told", s.File, reference.New))
			}
		case reference.Edited > 0:
			t.Edited.count(told)
		default:
			t.Unchanged.count(told)
			if told {
				t.Mistaken = append(t.Mistaken, s.File+": "+firstItem(&d))
			}
		}
	}
	return t
}

// seenBefore reports whether earlier snapshots contain all items of a snapshot, according to the
// reference's parser.
func seenBefore(s origin.Snapshot, earlier []origin.Snapshot) bool {
	missing := map[string]bool{}
	for _, id := range identities(s) {
		missing[id] = true
	}
	for _, e := range slices.Backward(earlier) {
		if len(missing) == 0 {
			return true
		}
		for _, id := range identities(e) {
			delete(missing, id)
		}
	}
	return len(missing) == 0
}

// identities returns the identities of a snapshot's items; none if it cannot be parsed.
func identities(s origin.Snapshot) []string {
	f, err := gofeed.NewParser().Parse(bytes.NewReader(s.Body))
	if err != nil {
		return nil
	}
	var of []string
	for _, item := range f.Items {
		of = append(of, cmp.Or(item.GUID, item.Link, item.Title))
	}
	return of
}

func (p *Pairs) count(told bool) {
	p.Pairs++
	if told {
		p.Reported++
	}
}

// firstItem describes the first change of a delta.
func firstItem(d *difference.Delta) string {
	if len(d.Changes) == 0 {
		return fmt.Sprintf("the feed itself is another: %.300s", d.Head.Raw)
	}
	return fmt.Sprintf("%d items, the first of them %.300s", len(d.Changes), d.Changes[0].Item.Raw)
}
