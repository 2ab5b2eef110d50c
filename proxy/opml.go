package proxy

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"

	"tidings/internal/feed"
)

const (
	opmlTitle = "Subscriptions in tidings"
	opmlType  = "text/x-opml; charset=utf-8"
	// maxListSize is the largest list that can be imported, in bytes: as large as feed.ParseList accepts, plus the overhead of a
	// form.
	maxListSize = 32<<20 + 64<<10
)

func (s *Server) apiOPML(w http.ResponseWriter, r *http.Request) (any, error) {
	if r.Method != http.MethodPost {
		return nil, s.exportOPML(w, r)
	}
	doc, err := readBody(w, r, maxListSize)
	if err != nil {
		return nil, err
	}
	return s.importNow(w, r, doc)
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
	list := opmlList{rewrite: rewrite, private: r.URL.Query().Get("private") == "1"}
	err := s.subs.Each(r.Context(), func(c *Channel) {
		shown := *c
		s.complete(r, &shown)
		list.add(&shown)
	})
	if err != nil {
		return err
	}
	list.write(w)
	return nil
}

// An opmlList is a list of subscriptions that is sent; see exportOPML.
type opmlList struct {
	rewrite, private bool
	feeds            []opmlFeed
}

type opmlFeed struct {
	sortKey
	title, site, address string // the address is that for readers
	tags                 []string
}

// add adds a subscription, if the list is to have it.
func (l *opmlList) add(c *Channel) {
	f := opmlFeed{newSortKey(byTitle, c), titleOrAddress(c.Title, c.URL), c.Site, c.URL, c.Tags}
	switch {
	case c.Private && !(l.rewrite && l.private):
		return
	case l.rewrite:
		f.address = c.ReadURL
	case c.Kind == KindPage:
		return
	}
	l.feeds = append(l.feeds, f)
}

// write sends the list, in the order of titles.
func (l *opmlList) write(w http.ResponseWriter) {
	slices.SortFunc(l.feeds, func(a, b opmlFeed) int { return a.compare(b.sortKey) })
	var root feed.Outline
	folders := map[string][]feed.Outline{}
	for _, f := range l.feeds {
		o := feed.Outline{Text: f.title, Title: f.title, Type: "rss", XMLURL: f.address, HTMLURL: f.site}
		if len(f.tags) == 0 {
			root.Outlines = append(root.Outlines, o)
		}
		for _, tag := range f.tags {
			folders[tag] = append(folders[tag], o)
		}
	}
	for _, tag := range slices.Sorted(maps.Keys(folders)) {
		in := folder(&root, tag)
		in.Outlines = append(in.Outlines, folders[tag]...)
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

// subscriptions returns the subscriptions by address.
func (s *Server) subscriptions(ctx context.Context) (map[string]Channel, error) {
	channels, err := s.subs.List(ctx)
	byURL := map[string]Channel{}
	for _, c := range channels {
		byURL[c.URL] = c
	}
	return byURL, err
}

// subscriptionsTo returns the subscriptions to some addresses by address.
func (s *Server) subscriptionsTo(ctx context.Context, addresses []string) (map[string]Channel, error) {
	part, err := s.subs.ListPart(ctx, ListQuery{Limit: len(addresses), URLs: addresses})
	byURL := map[string]Channel{}
	for _, c := range part.Channels {
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
	maxNote  = 4 << 10
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

// titleOrAddress returns a channel's title, or its address if it has no title.
func titleOrAddress(title, address string) string {
	if t := strings.TrimSpace(title); t != "" {
		return t
	}
	return address
}
