package proxy

import (
	"context"
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
	// maxList is the largest list taken, as large as feed.ParseOPML reads, and
	// what a form wraps around it.
	maxListSize = 5<<20 + 64<<10
	// importing is how many subscriptions of a list are made at once: enough
	// that they share the syncs of the node's disk.
	parallelImports = 16
)

// Imported is what became of a list of subscriptions.
type ImportResult struct {
	Subscribed int             `json:"subscribed"` // those already there included
	Already    int             `json:"already"`    // those
	Failed     []ImportFailure `json:"failed"`
}

// New is how many subscriptions are new.
func (i ImportResult) New() int { return i.Subscribed - i.Already }

// Failed is a line of a list that led to no subscription.
type ImportFailure struct {
	URL   string `json:"url"`
	Error string `json:"error"`
}

func (s *Server) apiOPML(w http.ResponseWriter, r *http.Request) (any, error) {
	if err := allow(w, r, http.MethodGet, http.MethodPost); err != nil {
		return nil, err
	}
	if r.Method != http.MethodPost {
		return nil, s.exportOPML(w, r)
	}
	doc, err := readBody(w, r, maxListSize)
	if err != nil {
		return nil, err
	}
	return s.importOPML(w, r, doc)
}

// exportOPML writes the list of subscriptions: with our addresses, or those of the
// origins, with which a reader does without us. Pages are no feeds there, and left out.
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
	var root feed.Outline
	folders := map[string][]feed.Outline{}
	for _, c := range channels {
		title := titleOrAddress(c.Title, c.URL)
		o := feed.Outline{Text: title, Title: title, Type: "rss", XMLURL: c.URL, HTMLURL: c.Site}
		switch {
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
	_, _ = w.Write(feed.AppendOPML(nil, opmlTitle, root.Outlines)) // a reader that went away hears nothing
	return nil
}

// folder returns the folder of a tag, which is a path below root. Folders that are missing are added.
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

// importOPML subscribes to all feeds of a list, ours or any program's. A line that
// fails does not keep the others from being tried. However long that takes, as on a slow
// disk it does, who has sent the list is told what became of it.
func (s *Server) importOPML(w http.ResponseWriter, r *http.Request, doc []byte) (ImportResult, error) {
	answer := http.NewResponseController(w)
	_ = answer.SetWriteDeadline(time.Time{}) // a connection that cannot is none of http.Server's
	defer func() { _ = answer.SetWriteDeadline(time.Now().Add(writeTime)) }()
	_, outlines, err := feed.ParseOPML(doc)
	if err != nil {
		return ImportResult{}, refuse(http.StatusBadRequest, "%v", err)
	}
	there, err := s.subscriptions(r.Context())
	if err != nil {
		return ImportResult{}, err
	}
	result := ImportResult{Failed: []ImportFailure{}}
	failed := func(raw string, err error) {
		result.Failed = append(result.Failed, ImportFailure{oneLine(WithoutPassword(raw)), oneLine(err.Error())})
	}
	var addresses []string
	of := map[string]Description{} // by address
	feeds := 0
	for folder, o := range feed.Subscriptions(outlines) {
		feeds++
		address, err := s.resolveAddress(r, o.XMLURL)
		if err != nil {
			failed(o.XMLURL, err)
			continue
		}
		d, seen := of[address]
		if !seen {
			addresses = append(addresses, address)
			d.Tags = there[address].Tags // the list adds to them
		}
		if folder != "" {
			d.Tags = normalizeTags(append(d.Tags, folder))
		}
		if site, err := feed.Canonical(o.HTMLURL); err == nil && d.Site == "" {
			d.Site = site
		}
		if title := oneLine(o.Text); d.Title == "" && len(title) <= maxTitle && title != o.XMLURL && title != address {
			d.Title = title
		}
		of[address] = d
	}
	if feeds == 0 {
		return ImportResult{}, refuse(http.StatusBadRequest, "the list contains no feeds")
	}
	for i, err := range s.subscribeAll(r.Context(), addresses, of) {
		if err != nil {
			failed(addresses[i], err)
			continue
		}
		result.Subscribed++
		if c, ok := there[addresses[i]]; ok && !c.Auto {
			result.Already++
		}
	}
	return result, nil
}

// subscriptions are the subscriptions by address.
func (s *Server) subscriptions(ctx context.Context) (map[string]Channel, error) {
	channels, err := s.subs.List(ctx)
	of := map[string]Channel{}
	for _, c := range channels {
		of[c.URL] = c
	}
	return of, err
}

// Limits of what users say of a subscription. What is beyond them is left out: a list of another program may have anything.
const (
	maxTags  = 16
	maxTag   = 256 // bytes
	maxTitle = 256 // bytes
	// maxFolders is how many folders within each other an exported list has: fewer than feed.ParseOPML reads.
	maxFolders = 8
)

// checkTags refuses tags that a person gives and that are beyond the limits.
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

// tidyTags are tags as they are kept: each once, on one line, none of them empty.
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

// subscribeAll subscribes to each address, and returns what came of each.
func (s *Server) subscribeAll(ctx context.Context, addresses []string, of map[string]Description) []error {
	errs := make([]error, len(addresses))
	next := make(chan int)
	var workers sync.WaitGroup
	for range min(parallelImports, len(addresses)) {
		workers.Go(func() {
			for i := range next {
				errs[i] = s.subs.Subscribe(ctx, addresses[i], false)
				if d := of[addresses[i]]; errs[i] == nil && !d.empty() {
					errs[i] = s.subs.Describe(ctx, addresses[i], d)
				}
			}
		})
	}
	for i := range addresses {
		next <- i
	}
	close(next)
	workers.Wait()
	return errs
}

// orAddress is a channel's title, or what stands for one.
func titleOrAddress(title, address string) string {
	if t := strings.TrimSpace(title); t != "" {
		return t
	}
	return address
}
