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
	// maxListSize is the largest OPML upload in bytes: as large as feed.ParseOPML accepts, plus the overhead of a
	// form.
	maxListSize = 5<<20 + 64<<10
	// parallelImports is how many subscriptions of a list are made at the same time: enough to share the syncs of
	// the node's disk.
	parallelImports = 16
)

// ImportResult is the result of importing a list.
type ImportResult struct {
	Subscribed int             `json:"subscribed"` // including those in Already
	Already    int             `json:"already"`    // number that existed before
	Failed     []ImportFailure `json:"failed"`
}

// New returns the number of new subscriptions.
func (i ImportResult) New() int { return i.Subscribed - i.Already }

// ImportFailure is an entry of a list that could not be subscribed to.
type ImportFailure struct {
	URL   string `json:"url"`
	Error string `json:"error"`
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
	var root feed.Outline
	folders := map[string][]feed.Outline{}
	for _, c := range channels {
		title := titleOrAddress(c.Title, c.URL)
		o := feed.Outline{Text: title, Title: title, Type: "rss", XMLURL: c.URL, HTMLURL: c.Site}
		switch {
		case c.Private && (!rewrite || r.URL.Query().Get("private") != "1"):
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
	return nil
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
	_, outlines, err := feed.ParseOPML(doc)
	if err != nil {
		return ImportResult{}, refuse(http.StatusBadRequest, "%v", err)
	}
	existing, err := s.subscriptions(r.Context())
	if err != nil {
		return ImportResult{}, err
	}
	result := ImportResult{Failed: []ImportFailure{}}
	failed := func(raw string, err error) {
		result.Failed = append(result.Failed, ImportFailure{oneLine(WithoutPassword(raw)), oneLine(err.Error())})
	}
	var addresses, secrets []string
	descriptions := map[string]Description{} // by address, as written if that is secret
	feeds := 0
	for folder, o := range feed.Subscriptions(outlines) {
		feeds++
		private := s.isPrivateAddress(o.XMLURL)
		address, err := o.XMLURL, error(nil)
		if !private {
			address, err = s.resolveAddress(r, o.XMLURL)
		}
		if err != nil {
			failed(o.XMLURL, err)
			continue
		}
		d, seen := descriptions[address]
		switch {
		case seen:
		case private:
			secrets = append(secrets, address)
			name, _ := s.findPrivate(address)
			d.Tags = existing[name].Tags
		default:
			addresses = append(addresses, address)
			d.Tags = existing[address].Tags // the list adds to the existing tags
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
		descriptions[address] = d
	}
	if feeds == 0 {
		return ImportResult{}, refuse(http.StatusBadRequest, "the list contains no feeds")
	}
	for _, address := range secrets {
		done, err := s.subscribePrivately(r, PrivateFeed{Address: address, Description: descriptions[address], Later: true})
		if err != nil {
			failed(address, err)
			continue
		}
		result.Subscribed++
		if done.Already {
			result.Already++
		}
	}
	for i, err := range s.subscribeAll(r.Context(), addresses, descriptions) {
		if err != nil {
			failed(addresses[i], err)
			continue
		}
		result.Subscribed++
		if c, ok := existing[addresses[i]]; ok && !c.Auto {
			result.Already++
		}
	}
	return result, nil
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
	slots := make(chan struct{}, parallelImports)
	var all sync.WaitGroup
	for i, address := range addresses {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			errs[i] = s.subs.Subscribe(ctx, address, false)
			if d := descriptions[address]; errs[i] == nil && !d.empty() {
				errs[i] = s.subs.Describe(ctx, address, d)
			}
		})
	}
	all.Wait()
	return errs
}

// titleOrAddress returns a channel's title, or its address if it has no title.
func titleOrAddress(title, address string) string {
	if t := strings.TrimSpace(title); t != "" {
		return t
	}
	return address
}
