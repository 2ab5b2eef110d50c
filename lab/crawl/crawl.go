// Package crawl measures on traces of real feeds what Figures 5, 6 and 8 of Cobra (NSDI 2007, §4.1 and §4.2) show: how large
// feeds and articles are, how long it takes to read a document of which size, and how much a crawler fetches, and passes on,
// depending on how it detects new content.
//
//	full            every poll fetches the document and passes it on
//	validators      the origin answers 304 while its document is the same
//	document-hash   in addition, a document is passed on only if it was not seen before
//	item-hash       in addition, only new versions of items are passed on, and the head if
//	                it is new: what a node does
//
// Traces record changes and not polls. Each snapshot counts for the time until the next one, but at most
// for Config.MaxHold; otherwise gaps in the recording would count as quiet feeds. Bytes are those of
// uncompressed documents. For item-hash, the size of the deltas on the wire is reported as well.
//
// internal/feed and difference decide what is new in a document; the caller knows where the traces are.
package crawl

import (
	"bytes"
	"context"
	"crypto/sha256"
	"slices"
	"time"

	"tidings/difference"
	"tidings/internal/daemon/origin"
	"tidings/internal/feed"
)

// Modes, in the order of the paper's figure.
const (
	Full         = "full"
	Validators   = "validators"
	DocumentHash = "document-hash"
	ItemHash     = "item-hash"
)

// Modes are all modes.
var Modes = []string{Full, Validators, DocumentHash, ItemHash}

// maxHashes is the number of remembered documents: replicas of an origin may answer in turns.
const maxHashes = 8

// Config says how feeds are crawled.
type Config struct {
	Interval time.Duration // between two polls of a feed
	MaxHold  time.Duration // the longest time for which a snapshot counts
}

// A Run is the cost of one mode, on one trace or on all.
type Run struct {
	Mode    string `json:"mode"`
	Fetched int64  `json:"fetched_bytes"`
	Passed  int64  `json:"passed_bytes"`
	// Packed is the compressed size of what was passed on, in mode item-hash.
	Packed int64 `json:"packed_bytes,omitempty"`
}

// A Trace is the result for one trace.
type Trace struct {
	Name      string `json:"name"`
	Snapshots int    `json:"snapshots"` // that were polled
	Polls     int    `json:"polls"`
	Items     int    `json:"items"`  // new items, and edits
	Failed    int    `json:"failed"` // documents that could not be parsed, or were suspicious
	Runs      []Run  `json:"runs"`   // in the order of Modes

	Documents []Document `json:"-"` // that were not seen before and could be read
	Articles  []Article  `json:"-"` // of the last of them
}

// Crawl polls the feed of a trace.
func (c Config) Crawl(ctx context.Context, name string, of []origin.Snapshot) (Trace, error) {
	t := Trace{Name: name}
	for _, m := range Modes {
		t.Runs = append(t.Runs, Run{Mode: m})
	}
	p := poller{trace: &t}
	end, next := time.Duration(0), time.Duration(0) // end of the snapshot; time of the next poll
	for i, s := range of {
		hold := c.MaxHold
		if i+1 < len(of) {
			hold = min(hold, of[i+1].Time.Sub(s.Time))
		}
		polls := 0
		for end += hold; next < end; next += c.Interval {
			polls++
		}
		if polls == 0 {
			continue // the snapshot was replaced before a poll
		}
		if err := ctx.Err(); err != nil {
			return t, err
		}
		t.Snapshots++
		if err := p.poll(s, polls); err != nil {
			return t, err
		}
	}
	if p.document != nil {
		t.Articles = articlesOf(p.document)
	}
	return t, nil
}

// A poller polls one feed in all modes at once.
type poller struct {
	trace      *Trace
	last       []byte
	hashes     [][sha256.Size]byte // of the last documents
	known      difference.Known
	suspicious bool       // the last document was suspicious
	document   *feed.Feed // the last one that was read; nil: none
}

// poll polls the same document a number of times.
func (p *poller) poll(s origin.Snapshot, times int) error {
	size := int64(len(s.Body))
	full, validators, whole, items := &p.trace.Runs[0], &p.trace.Runs[1], &p.trace.Runs[2], &p.trace.Runs[3]
	p.trace.Polls += times
	full.Fetched += size * int64(times)
	full.Passed += size * int64(times)
	if bytes.Equal(s.Body, p.last) {
		return nil // 304
	}
	p.last = s.Body
	for _, r := range []*Run{validators, whole, items} {
		r.Fetched += size
	}
	validators.Passed += size
	sum := sha256.Sum256(s.Body)
	if slices.Contains(p.hashes, sum) {
		return nil
	}
	if p.hashes = append(p.hashes, sum); len(p.hashes) > maxHashes {
		p.hashes = p.hashes[1:]
	}
	whole.Passed += size
	return p.read(s, items)
}

// read passes on what is new in a document.
func (p *poller) read(s origin.Snapshot, r *Run) error {
	began := time.Now()
	f, err := feed.Parse(s.Body, s.ContentType)
	if err != nil {
		p.trace.Failed++
		return nil //nolint:nilerr // an error page instead of the feed is a failed poll, not an error of this program
	}
	if !p.suspicious && p.known.Suspicious(f) != "" { // a suspicious document is accepted if it stays
		p.suspicious = true
		p.trace.Failed++
		return nil
	}
	p.suspicious = false
	p.known.Recognise(f)
	d := p.known.Diff(f)
	p.known.Touch(f)
	p.known.Add(d)
	packed, err := d.Encode()
	if err != nil {
		return err
	}
	p.document = f
	p.trace.Documents = append(p.trace.Documents, Document{len(s.Body), len(f.Items), time.Since(began)})
	if d.Empty() {
		return nil
	}
	if d.Head != nil {
		r.Passed += int64(len(d.Head.Raw))
	}
	for _, c := range d.Changes {
		r.Passed += int64(len(c.Item.Raw))
	}
	p.trace.Items += len(d.Changes)
	r.Packed += int64(len(packed))
	return nil
}

// Total adds up the runs of some traces.
func Total(of []Trace) []Run {
	var total []Run
	for _, m := range Modes {
		total = append(total, Run{Mode: m})
	}
	for _, t := range of {
		for i, r := range t.Runs {
			total[i].Fetched += r.Fetched
			total[i].Passed += r.Passed
			total[i].Packed += r.Packed
		}
	}
	return total
}
