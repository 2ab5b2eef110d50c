package daemon

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"tidings/corona"
	"tidings/difference"
	"tidings/internal/feed"
	"tidings/internal/locale"
	"tidings/internal/store"
	"tidings/proxy"
)

// privateFolder holds a file for each private feed, beside the store.
const privateFolder = "private"

const (
	privateFileEnd = ".json"
	// maxPrivateFile bounds the file of a private feed in bytes: items of maxPrivateBytes, see privateSize, and up to
	// 4,000 times 200 bytes beside them. A larger file is damaged.
	maxPrivateFile = 2*maxPrivateBytes + 4<<20
)

// A privateRecord is what the file of a private feed says besides its items.
type privateRecord struct {
	Name    string            // in place of the address
	Token   string            // of the address for readers
	URL     string            // secret, without the user name and the password
	User    string            // "": none
	Headers map[string]string // secret
	Added   time.Time

	Tags              []string // these three are the user's
	Title, Site, Note string

	ETag, LastModified, ValidatedURL string
	Hints                            feed.Hints
	MaxAge                           time.Duration
	State                            corona.State
	Fails                            int  // polls in a row
	NoAccess                         bool // the origin did not accept the credentials at the last poll
}

// A privateFile is the file of a private feed.
type privateFile struct {
	privateRecord
	Head  *privateItem
	Items []privateItem
}

// A privateItem is an item, or the head of a feed.
type privateItem struct {
	Format     feed.Format
	Raw        []byte
	Scope      []feed.Binding
	Qualifiers uint8
	Arrived    time.Time
}

func canonicalHeader(name string) string { return http.CanonicalHeaderKey(name) }

// path returns the path of the file of the feed with a name. It has the digits of the name only.
func (p *privateFeeds) path(name string) string {
	return filepath.Join(p.dir, name[strings.LastIndexByte(name, '/')+1:]+privateFileEnd)
}

// save stores a feed.
func (p *privateFeeds) save(f *privateFeed) error {
	p.answer.Lock()
	defer p.answer.Unlock()
	return p.store(f)
}

// store writes the file of a feed, unless the feed was dropped. The caller holds answer, so that there is one writer.
func (p *privateFeeds) store(f *privateFeed) error {
	p.mu.Lock()
	file := privateFile{privateRecord: f.privateRecord}
	if h := f.contents.head; h != nil {
		file.Head = &privateItem{Format: h.Format, Raw: h.Raw}
	}
	for _, e := range f.contents.entries {
		file.Items = append(file.Items, privateItem{e.Item.Format, e.Item.Raw, e.Item.Scope, e.Item.Qualifiers, e.Arrived})
	}
	path, name, dropped := p.path(f.Name), f.Name, p.byName[f.Name] != f
	p.mu.Unlock() // what the record points to is replaced, and never changed
	if dropped {
		return nil
	}
	b, err := json.Marshal(file)
	if err == nil {
		err = os.MkdirAll(p.dir, 0o700)
	}
	if err == nil {
		err = store.WriteFile(path, b)
	}
	if err != nil {
		p.log.Warn("private feed could not be stored", "feed", name, "err", err)
		return err
	}
	p.mu.Lock()
	f.unsaved = false
	p.mu.Unlock()
	return nil
}

// remove deletes the file of a feed.
func (p *privateFeeds) remove(f *privateFeed) error {
	if err := os.Remove(p.path(f.Name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// load reads the files of earlier runs. A damaged one is set aside, and one that was not finished is removed, because it
// may have the password of a feed that no longer exists.
func (p *privateFeeds) load() error {
	files, err := os.ReadDir(p.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read private feeds: %w", err)
	}
	for _, file := range files {
		path := filepath.Join(p.dir, file.Name())
		switch {
		case strings.HasSuffix(path, damagedFileEnd):
			p.damaged = append(p.damaged, path)
		case strings.HasSuffix(path, privateFileEnd+store.UnfinishedEnd):
			if err := os.Remove(path); err != nil {
				return fmt.Errorf("read private feeds: remove the unfinished %s: %w", path, err)
			}
		case strings.HasSuffix(path, privateFileEnd):
			f, err := readPrivateFile(path)
			if err == nil && p.path(f.Name) != path {
				err = errors.New("it was renamed")
			}
			if err != nil {
				aside, err := setAside(path, "a private feed", err, p.log)
				if err != nil {
					return err
				}
				p.damaged = append(p.damaged, aside)
				continue
			}
			p.touch(f)
			p.byName[f.Name] = f
		}
	}
	return nil
}

// readPrivateFile reads the file of a feed. Its errors do not repeat what is in the file.
func readPrivateFile(path string) (*privateFeed, error) {
	opened, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = opened.Close() }() // nothing was written
	b, err := io.ReadAll(io.LimitReader(opened, maxPrivateFile+1))
	if err != nil {
		return nil, err
	}
	return decodePrivateFile(b)
}

func decodePrivateFile(b []byte) (*privateFeed, error) {
	var file privateFile
	if len(b) > maxPrivateFile || json.Unmarshal(b, &file) != nil {
		return nil, errors.New("it is too large, or not JSON")
	}
	f := &privateFeed{privateRecord: file.privateRecord, changed: make(chan struct{})}
	address, err := feed.Canonical(f.URL)
	headers, wrong := checkHeaders(f.Headers)
	if err != nil || wrong != nil || address != f.URL || len(f.Token) != 32 || !isPrivateName(f.Name) || strings.Count(f.Name, "/") != 1 {
		return nil, errors.New("its address, its headers or its name are not valid")
	}
	f.Headers = headers
	var d difference.Delta
	if file.Head != nil {
		head, err := feed.ReadHead(file.Head.Format, file.Head.Raw)
		if err != nil {
			return nil, err
		}
		f.contents.head, d.Head = &head, &head
	}
	for _, i := range file.Items {
		it, err := feed.ReadItem(i.Format, i.Raw, i.Scope, i.Qualifiers)
		if err != nil {
			return nil, err
		}
		f.contents.entries = append(f.contents.entries, feed.Entry{Item: it, Arrived: i.Arrived})
		f.contents.size += privateSize(&it)
	}
	for _, e := range slices.Backward(f.contents.entries) { // the first one is the newest
		d.Changes = append(d.Changes, difference.Change{Item: e.Item})
	}
	f.contents.known.Add(d)
	return f, nil
}

// findings returns what the doctor says about the files.
func (p *privateFeeds) findings() (findings []proxy.Finding) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, path := range p.damaged {
		if _, err := os.Stat(path); err != nil {
			continue // the user has removed it
		}
		findings = append(findings, proxy.Finding{
			Level: levelNote,
			What:  locale.Say("the file of a private feed was damaged and set aside: %s", path),
			Do:    locale.Say("subscribe to the feed again and give your reader its new address, or restore the file from a backup without the ending %s and start the node again; then delete the damaged file", damagedFileEnd),
		})
	}
	for _, f := range p.byName {
		if f.contents.cut {
			findings = append(findings, proxy.Finding{
				Level: levelNote,
				What:  locale.Say("%s: its last items are left out, because private feeds may take %d MiB together, and one %d MiB", f.Name, maxAllPrivateBytes>>20, maxPrivateBytes>>20),
				Do:    locale.Say("unsubscribe from private feeds that you do not read"),
			})
		}
	}
	return findings
}
