package proxy

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"tidings/internal/feed"
)

const (
	opmlTitle = "Subscriptions in tidings"
	opmlType  = "text/x-opml; charset=utf-8"
	// maxListSize is the largest OPML upload in bytes: as large as feed.ParseOPML accepts, plus the overhead of a
	// form.
	maxListSize = 5<<20 + 64<<10
	// parallelImports is how many addresses of a list are inspected, or subscribed to, at the same time: enough to share
	// the syncs of the node's disk.
	parallelImports = 16
)

// ImportResult is the result of importing a list.
type ImportResult struct {
	Subscribed int             `json:"subscribed"` // including those in Already
	Already    int             `json:"already"`    // number that existed before
	Found      int             `json:"found"`      // number of entries that name a page, for which the page's feed was subscribed to
	Failed     []ImportFailure `json:"failed"`
}

// New returns the number of new subscriptions.
func (i ImportResult) New() int { return i.Subscribed - i.Already }

// ImportFailure is an entry of a list that could not be subscribed to.
type ImportFailure struct {
	URL     string   `json:"url"` // "" if it cannot be read
	Error   string   `json:"error"`
	Line    int      `json:"line,omitempty"`    // of the list, if the entry cannot be read
	Choices []Choice `json:"choices,omitempty"` // what can be subscribed to instead
}

func (s *Server) apiOPML(w http.ResponseWriter, r *http.Request) (any, error) {
	if r.Method != http.MethodPost {
		return nil, s.exportOPML(w, r)
	}
	doc, err := readBody(w, r, maxListSize)
	if err != nil {
		return nil, err
	}
	return s.importOPML(w, r, doc)
}

// exportOPML writes the list of subscriptions, with this node's addresses or with the original ones, which work
// without the node. Pages are left out of the original list, because they are not feeds there. So are private feeds,
// whose addresses are secret. Lists are passed on, so private feeds are in a list of this node's addresses only if the
// request asks for them.
func (s *Server) exportOPML(w http.ResponseWriter, r *http.Request) error {
	rewrite := true
	switch r.URL.Query().Get("rewrite") {
	case "", "1":
	case "0":
		rewrite = false
	default:
		return refuse(http.StatusBadRequest, "rewrite must be 1 or 0")
	}
	channels, err := s.list(r)
	if err != nil {
		return err
	}
	private := r.URL.Query().Get("private") == "1"
	writeOPML(w, channels, rewrite, private)
	return nil
}

// writeOPML sends a list of subscriptions; see exportOPML.
func writeOPML(w http.ResponseWriter, channels []Channel, rewrite, private bool) {
	var root feed.Outline
	folders := map[string][]feed.Outline{}
	for _, c := range channels {
		title := titleOrAddress(c.Title, c.URL)
		o := feed.Outline{Text: title, Title: title, Type: "rss", XMLURL: c.URL, HTMLURL: c.Site}
		switch {
		case c.Private && !(rewrite && private):
			continue
		case rewrite:
			o.XMLURL = c.ReadURL
		case c.Kind == KindPage:
			continue
		}
		if len(c.Tags) == 0 {
			root.Outlines = append(root.Outlines, o)
		}
		for _, tag := range c.Tags {
			folders[tag] = append(folders[tag], o)
		}
	}
	for _, tag := range slices.Sorted(maps.Keys(folders)) {
		f := folder(&root, tag)
		f.Outlines = append(f.Outlines, folders[tag]...)
	}
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Type", opmlType)
	h.Set("Content-Disposition", `attachment; filename="tidings.opml"`)
	_, _ = w.Write(feed.AppendOPML(nil, opmlTitle, root.Outlines)) // an error means that the reader has disconnected
}

// folder returns the folder of a tag, which is a path below root. Missing folders are added.
func folder(root *feed.Outline, tag string) *feed.Outline {
	at := root
	for _, name := range strings.SplitN(tag, "/", maxFolders) {
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		i := slices.IndexFunc(at.Outlines, func(o feed.Outline) bool { return o.XMLURL == "" && o.Text == name })
		if i < 0 {
			i = len(at.Outlines)
			at.Outlines = append(at.Outlines, feed.Outline{Text: name, Title: name})
		}
		at = &at.Outlines[i]
	}
	return at
}

// importOPML subscribes to all feeds of a list, from this node or any other program. An entry that fails does not
// stop the import. The client gets a result even if the import takes long, as on a slow disk.
func (s *Server) importOPML(w http.ResponseWriter, r *http.Request, doc []byte) (ImportResult, error) {
	answer := http.NewResponseController(w)
	_ = answer.SetWriteDeadline(time.Time{}) // an error means that the connection is not one of http.Server
	defer func() { _ = answer.SetWriteDeadline(time.Now().Add(writeTime)) }()
	outlines, unread, err := feed.ParseOPML(doc)
	if err != nil {
		return ImportResult{}, refuse(http.StatusBadRequest, "%v", err)
	}
	existing, err := s.subscriptions(r.Context())
	if err != nil {
		return ImportResult{}, err
	}
	list := importList{result: ImportResult{Failed: []ImportFailure{}}, existing: existing, descriptions: map[string]Description{}}
	for _, u := range unread {
		list.result.Failed = append(list.result.Failed, ImportFailure{Error: u.Why, Line: u.Line})
	}
	entries := s.readEntries(r, outlines, &list)
	if len(entries) == 0 && len(list.result.Failed) == 0 {
		return ImportResult{}, refuse(http.StatusBadRequest, "the list contains no feeds")
	}
	s.discover(r.Context(), entries, existing)
	for _, e := range entries {
		list.add(e)
	}
	for _, address := range list.secrets {
		done, err := s.subscribePrivately(r, PrivateFeed{Address: address, Description: list.descriptions[address], Later: true})
		if err != nil {
			list.fail(address, err)
			continue
		}
		list.result.Subscribed++
		if done.Already {
			list.result.Already++
		}
	}
	for i, err := range s.subscribeAll(r.Context(), list.addresses, list.descriptions) {
		if err != nil {
			list.fail(list.addresses[i], err)
			continue
		}
		list.result.Subscribed++
		if c, ok := existing[list.addresses[i]]; ok && !c.Auto {
			list.result.Already++
		}
	}
	return list.result, nil
}

// An importEntry is an entry of a list.
type importEntry struct {
	folder  string
	outline feed.Outline
	address string // what to subscribe to
	name    string // of a private feed; its address is secret
	private bool   // only this node polls it
	found   bool   // a page advertises it
	err     error  // why it cannot be subscribed to
}

// An importList collects what a list subscribes to, each address once.
type importList struct {
	result       ImportResult
	existing     map[string]Channel
	addresses    []string
	secrets      []string               // addresses of private feeds
	descriptions map[string]Description // by address
}

func (l *importList) fail(address string, err error) {
	f := ImportFailure{URL: oneLine(WithoutPassword(address)), Error: oneLine(err.Error())}
	if c, ok := errors.AsType[*choiceError](err); ok {
		f.Choices = c.choices
	}
	l.result.Failed = append(l.result.Failed, f)
}

// add adds an entry, with the user's words about it.
func (l *importList) add(e *importEntry) {
	if e.err != nil {
		l.fail(e.outline.XMLURL, e.err)
		return
	}
	if e.found {
		l.result.Found++
	}
	d, seen := l.descriptions[e.address]
	switch {
	case seen:
	case e.private:
		l.secrets = append(l.secrets, e.address)
		d.Tags = l.existing[e.name].Tags
	default:
		l.addresses = append(l.addresses, e.address)
		d.Tags = l.existing[e.address].Tags // the list adds to the existing tags
	}
	if e.folder != "" {
		d.Tags = normalizeTags(append(d.Tags, e.folder))
	}
	if site, err := feed.Canonical(e.outline.HTMLURL); err == nil && d.Site == "" {
		d.Site = site
	}
	title := oneLine(feed.PlainTitle(e.outline.Text))
	if d.Title == "" && len(title) <= maxTitle && title != e.outline.XMLURL && title != e.address {
		d.Title = title
	}
	l.descriptions[e.address] = d
}

// readEntries returns the entries of a list that have an address.
func (s *Server) readEntries(r *http.Request, outlines []feed.Outline, list *importList) (entries []*importEntry) {
	for folder, o := range feed.Subscriptions(outlines) {
		if s.isPrivateAddress(o.XMLURL) {
			name, _ := s.findPrivate(o.XMLURL)
			entries = append(entries, &importEntry{folder: folder, outline: o, address: o.XMLURL, name: name, private: true})
			continue
		}
		address, err := s.resolveAddress(r, o.XMLURL)
		if err != nil {
			list.fail(o.XMLURL, err)
			continue
		}
		entries = append(entries, &importEntry{folder: folder, outline: o, address: address})
	}
	return entries
}

const (
	// maxDiscovered bounds the addresses of a list that are inspected, so that a list cannot make the node send
	// thousands of requests at once. Others are subscribed to as they are, and their first poll tells what they are.
	maxDiscovered = 256
	// discoverTime bounds the time of all these inspections together. Most web servers answer within a second.
	discoverTime = time.Minute
)

// discover inspects the new addresses of a list, as subscribe does, those first that do not look like feeds. An address
// that cannot be read now stays as it is: a list is often imported to save subscriptions from elsewhere, and the web
// server may be back tomorrow.
func (s *Server) discover(ctx context.Context, entries []*importEntry, existing map[string]Channel) {
	ctx, cancel := context.WithTimeout(ctx, discoverTime)
	defer cancel()
	byAddress := map[string][]*importEntry{}
	var unknown []string
	for _, e := range entries {
		if _, ok := existing[e.address]; ok || e.private {
			continue
		}
		if byAddress[e.address] == nil {
			unknown = append(unknown, e.address)
		}
		byAddress[e.address] = append(byAddress[e.address], e)
	}
	slices.SortStableFunc(unknown, func(a, b string) int { return cmp.Compare(feedWords(a), feedWords(b)) })
	inParallel(unknown[:min(len(unknown), maxDiscovered)], func(_ int, address string) {
		inspectCtx, cancel := context.WithTimeout(ctx, inspectTime)
		defer cancel()
		to, _, _, err := s.chooseTarget(inspectCtx, address)
		_, isChoice := errors.AsType[*choiceError](err)
		for _, e := range byAddress[address] {
			switch {
			case err == nil:
				e.address, e.found = to, to != address
			case isChoice || errors.Is(err, ErrNotFeed) || errors.Is(err, ErrNotPage):
				e.err = err
			}
		}
	})
}

// feedWords counts the words in an address that addresses of feeds have.
func feedWords(address string) (n int) {
	for _, word := range []string{"feed", "rss", "atom", "xml", "rdf", "json"} {
		n += strings.Count(strings.ToLower(address), word)
	}
	return n
}

// subscriptions returns the subscriptions by address.
func (s *Server) subscriptions(ctx context.Context) (map[string]Channel, error) {
	channels, err := s.subs.List(ctx)
	byURL := map[string]Channel{}
	for _, c := range channels {
		byURL[c.URL] = c
	}
	return byURL, err
}

// Bounds for the user's description of a subscription. Imported lists may contain anything, and the excess is
// dropped.
const (
	maxTags  = 16
	maxTag   = 256 // in bytes
	maxTitle = 256 // in bytes
	// maxFolders bounds the nesting of folders in an exported list. It is less than feed.ParseOPML accepts.
	maxFolders = 8
)

// checkTags returns an error if tags from a request exceed the bounds.
func checkTags(tags []string) error {
	if len(tags) > maxTags {
		return refuse(http.StatusBadRequest, "a subscription has at most %d tags, and these are %d", maxTags, len(tags))
	}
	for _, tag := range tags {
		if size := len(oneLine(tag)); size > maxTag {
			return refuse(http.StatusBadRequest, "a tag has at most %d bytes, and %.20q… has %d", maxTag, oneLine(tag), size)
		}
	}
	return nil
}

// normalizeTags returns tags as they are stored: single lines, without duplicates and without empty ones.
func normalizeTags(tags []string) []string {
	tidy := []string{}
	for _, tag := range tags {
		tag = oneLine(tag)
		if tag != "" && len(tag) <= maxTag && !slices.Contains(tidy, tag) && len(tidy) < maxTags {
			tidy = append(tidy, tag)
		}
	}
	return tidy
}

// subscribeAll subscribes to all addresses, and returns an error or nil for each.
func (s *Server) subscribeAll(ctx context.Context, addresses []string, descriptions map[string]Description) []error {
	errs := make([]error, len(addresses))
	inParallel(addresses, func(i int, address string) {
		errs[i] = s.subs.Subscribe(ctx, address, false)
		if d := descriptions[address]; errs[i] == nil && !d.empty() {
			errs[i] = s.subs.Describe(ctx, address, d)
		}
	})
	return errs
}

// inParallel calls f for every address of a list, for parallelImports at the same time.
func inParallel(addresses []string, f func(i int, address string)) {
	slots := make(chan struct{}, parallelImports)
	var all sync.WaitGroup
	for i, address := range addresses {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			f(i, address)
		})
	}
	all.Wait()
}

// titleOrAddress returns a channel's title, or its address if it has no title.
func titleOrAddress(title, address string) string {
	if t := strings.TrimSpace(title); t != "" {
		return t
	}
	return address
}
