package publisher

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"tidings/internal/store"
)

const (
	recordSuffix = ".record"
	logSuffix    = ".log" // behind recordSuffix

	// recordVersion is the version of the record's format. Version 1 was the object feeds alone, without a log. Programs that
	// know only version 1 cannot decode the number, and refuse the record.
	recordVersion = 2
	// minFoldedLog bounds the log, in bytes, if the record is smaller than that. A larger log is read for longer at a start; a
	// smaller one makes the record be rewritten more often.
	minFoldedLog = 1 << 20
	// logStep is how many bytes, of zeros, the log gets at a time as room for further lines: a dozen of a busy feed, and a hundred of
	// others. A sync of a file that has not grown does not wait for the file system's own records.
	logStep = 256 << 10
	// maxEarlier bounds the envelopes that are kept before the last one. The network may lose so many, or lack
	// them while another process signs, and gets them again. A node sends as many items at once (maxInFlight of
	// internal/daemon).
	maxEarlier = 63
	// maxEarlierAccepted bounds the envelopes that are kept before the last one that the network has accepted. It gets them
	// again if it loses them.
	maxEarlierAccepted = 15
	// maxEarlierBytes bounds those in bytes, all together. More are forgotten from the oldest one on, except those that the
	// network may lack.
	maxEarlierBytes = 4 << 20
)

// A recordEntry is an item that was signed for a feed. The record of a feed is its last item, which holds the
// earlier ones.
type recordEntry struct {
	Seq      uint64        `json:"seq"`
	Envelope []byte        `json:"envelope,omitempty"` // nil: only number and hash are known
	Hash     []byte        `json:"hash"`
	Accepted bool          `json:"taken,omitempty"`  // the network has accepted it; set for number 1 only
	Earlier  []recordEntry `json:"before,omitempty"` // earlier items, the oldest first
}

// find returns the entry with a number, if its envelope is kept.
func (e recordEntry) find(seq uint64) (recordEntry, bool) {
	if i := slices.IndexFunc(e.Earlier, func(other recordEntry) bool { return other.Seq == seq }); i >= 0 {
		return e.Earlier[i], len(e.Earlier[i].Envelope) > 0
	}
	return e, e.Seq == seq && len(e.Envelope) > 0
}

// everAccepted reports whether the network ever accepted an item of the feed. Before, nothing is signed after
// number 1.
func (e recordEntry) everAccepted() bool { return e.Seq > 1 || e.Accepted }

// A storedRecord is the record's file.
type storedRecord struct {
	Version int                    `json:"version"`
	Log     string                 `json:"log"` // identifies the lines of the log that follow this record
	Feeds   map[string]recordEntry `json:"feeds"`
}

// A logLine is a line of the log: the changes of one signature or one batch.
type logLine struct {
	Log     string         `json:"log"`
	Changes []recordChange `json:"changes"`
}

// A recordChange adds an entry to the record of a feed, or replaces the one with its number. An entry without a number
// removes the feed.
type recordChange struct {
	URL   string      `json:"url"`
	Entry recordEntry `json:"entry"`
}

// A record is what a key has signed: the last items of each feed. It is the record's file with the changes of the log applied.
type record struct {
	path     string
	feeds    map[string]recordEntry // by URL
	accepted map[string]uint64      // by URL: the last number that the network is known to have accepted

	file    fs.FileInfo    // of the record's file, when it was read or written; nil: it must be read
	size    int64          // of the record's file
	id      string         // of the log's lines; empty: the record has no log yet
	log     fs.FileInfo    // of the log, when it was last read
	logSize int64          // of the lines of the log, without a torn one
	room    int64          // zeros behind the lines, for further ones; 0 if there is anything else
	changes []recordChange // that are not on disk yet
	former  []recordChange // what each of them has changed
}

func newRecord(path string) *record {
	return &record{path: path, feeds: map[string]recordEntry{}, accepted: map[string]uint64{}}
}

// load reads what other processes have changed since the last call.
func (r *record) load() error {
	file, err := os.Stat(r.path)
	if err == nil && r.file != nil && os.SameFile(file, r.file) && file.ModTime().Equal(r.file.ModTime()) && file.Size() == r.file.Size() {
		return r.replay()
	}
	r.file = nil
	b, err := os.ReadFile(r.path)
	stored := storedRecord{Feeds: map[string]recordEntry{}}
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return fmt.Errorf("publisher's record: %w", err)
	default:
		if err = json.Unmarshal(b, &stored); err == nil && stored.Version == 0 {
			err = json.Unmarshal(b, &stored.Feeds)
		}
		if err != nil {
			return r.damaged(r.path, err)
		}
		if stored.Version > recordVersion {
			return fmt.Errorf("%s was written by a newer version of tidings: use that one with this key", r.path)
		}
	}
	r.feeds, r.id, r.log, r.logSize, r.room, r.size = stored.Feeds, stored.Log, nil, 0, 0, int64(len(b))
	if err := r.replay(); err != nil {
		return err
	}
	r.file = file // from before reading, so that a file replaced meanwhile is read again
	return nil
}

// damaged returns the error of a file that cannot be read.
func (r *record) damaged(path string, err error) error {
	return fmt.Errorf("%s is damaged (%w): restore it and what belongs to it, %s*, from a backup, or remove %[3]s and publish with --resume", path, err, r.path)
}

// replay applies the lines that the log has got since the last call. A last line that is not complete was never used: the
// process ended before it was synced.
func (r *record) replay() error {
	if r.id == "" {
		return nil
	}
	f, err := os.Open(r.path + logSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return r.damaged(r.path, errors.New("its log is missing"))
	}
	if err != nil {
		return fmt.Errorf("publisher's record: %w", err)
	}
	defer f.Close() //nolint:errcheck // it was only read
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("publisher's record: %w", err)
	}
	if r.log != nil && (!os.SameFile(info, r.log) || info.Size() < r.logSize) { // somebody has replaced it
		r.file = nil
		return r.load()
	}
	from := max(r.logSize-1, 0) // with the end of the last line
	unused := r.room > 0 && r.logSize > 0 && info.Size() == r.log.Size()
	size := info.Size() - from
	if unused { // one byte tells whether anybody has used the room
		size = min(size, 2)
	}
	b := make([]byte, size)
	n, err := f.ReadAt(b, from)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("publisher's record: %w", err)
	}
	b = b[:n]
	if r.logSize > 0 {
		if n == 0 || b[0] != '\n' { // somebody has replaced it, or what it contains
			r.file = nil
			return r.load()
		}
		b = b[1:]
	}
	room := r.room
	if r.log, r.room = info, 0; unused {
		if len(b) == 1 && b[0] == 0 {
			r.room = room
			return nil
		}
		return r.replay()
	}
	for {
		raw, rest, whole := bytes.Cut(b, []byte{'\n'})
		if !whole {
			if len(bytes.TrimLeft(b, "\x00")) == 0 {
				r.room = int64(len(b))
			}
			return nil
		}
		var line logLine
		if err := json.Unmarshal(raw, &line); err != nil {
			if bytes.IndexByte(rest, '\n') >= 0 { // a line is written only after the one before it was synced
				r.file = nil
				return r.damaged(r.path+logSuffix, err)
			}
			return nil
		}
		if line.Log != r.id { // the record already has these changes
			return nil
		}
		for _, c := range line.Changes {
			r.apply(c)
		}
		r.logSize, b = r.logSize+int64(len(raw))+1, rest
	}
}

// change changes the record in memory; save makes that durable.
func (r *record) change(url string, entry recordEntry) {
	c := recordChange{url, entry}
	r.changes, r.former = append(r.changes, c), append(r.former, recordChange{url, r.feeds[url]})
	r.apply(c)
}

func (r *record) apply(c recordChange) {
	if c.Entry.Seq == 0 {
		delete(r.feeds, c.URL)
		return
	}
	old, had := r.feeds[c.URL]
	entries := slices.Clone(old.Earlier)
	if had {
		old.Earlier = nil
		entries = append(entries, old)
	}
	if i := slices.IndexFunc(entries, func(other recordEntry) bool { return other.Seq == c.Entry.Seq }); i >= 0 {
		entries[i] = c.Entry
	} else {
		entries = append(entries, c.Entry)
	}
	last := entries[len(entries)-1]
	entries = entries[max(0, len(entries)-1-maxEarlier) : len(entries)-1]
	size := 0
	for _, e := range entries {
		size += len(e.Envelope)
	}
	for accepted := r.accepted[c.URL]; len(entries) > 0 && (entries[0].Seq+maxEarlierAccepted < accepted || entries[0].Seq < accepted && size > maxEarlierBytes); entries = entries[1:] {
		size -= len(entries[0].Envelope)
	}
	last.Earlier = entries
	r.feeds[c.URL] = last
}

// update calls do and makes what it has changed durable. If that fails, the changes are undone.
func (r *record) update(do func() error) (failed, err error) {
	failed = do()
	changes, former := r.changes, r.former
	if r.changes, r.former = nil, nil; len(changes) == 0 {
		return failed, nil
	}
	isRemoved := func(c recordChange) bool { return c.Entry.Seq == 0 } // and shall leave no trace
	if r.id == "" || r.logSize > max(minFoldedLog, r.size) || slices.ContainsFunc(changes, isRemoved) {
		err = r.fold()
	} else {
		err = r.append(changes)
	}
	if err == nil {
		return failed, nil
	}
	r.file = nil
	for _, c := range slices.Backward(former) {
		if r.feeds[c.URL] = c.Entry; c.Entry.Seq == 0 {
			delete(r.feeds, c.URL)
		}
	}
	return failed, err
}

// append adds a line to the log. It goes into the room behind the last one, or else takes the place of what is there, perhaps a torn
// line, and gets new room behind it, unless the disk is too full for that.
func (r *record) append(changes []recordChange) error {
	line, err := json.Marshal(logLine{r.id, changes})
	if err != nil {
		return err
	}
	line = append(line, '\n')
	f, err := os.OpenFile(r.path+logSuffix, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	room := r.room - int64(len(line))
	if room >= 0 {
		if _, err = f.WriteAt(line, r.logSize); err == nil {
			err = store.SyncData(f)
		}
	} else {
		end := r.logSize + int64(len(line))
		if err = f.Truncate(r.logSize); err == nil {
			_, err = f.WriteAt(line, r.logSize)
		}
		if room = logStep; err == nil {
			if _, full := f.WriteAt(make([]byte, room), end); full != nil {
				room, err = 0, f.Truncate(end)
			}
		}
		if err == nil {
			err = f.Sync()
		}
	}
	if err != nil {
		return errors.Join(err, f.Truncate(r.logSize), f.Close()) // nobody has seen the line
	}
	r.logSize, r.room = r.logSize+int64(len(line)), room
	if r.log, err = f.Stat(); err != nil {
		r.file = nil
	}
	return f.Close()
}

// fold writes the whole record, and empties the log. The log exists before the record that needs it. Lines that are left
// after a crash belong to the former record, and are ignored and overwritten.
func (r *record) fold() error {
	f, err := os.OpenFile(r.path+logSuffix, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	stored := storedRecord{recordVersion, rand.Text(), r.feeds}
	b, err := json.Marshal(stored)
	if err == nil {
		err = store.WriteFile(r.path, append(b, '\n'))
	}
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		r.log, err = f.Stat()
	}
	if err == nil {
		r.file, err = os.Stat(r.path)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	r.id, r.logSize, r.room, r.size = stored.Log, 0, 0, int64(len(b))+1
	return nil
}
