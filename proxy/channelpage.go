package proxy

import (
	"cmp"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"time"

	"tidings/internal/feed"
	"tidings/internal/locale"
)

// showPage is the page of one subscription.
type showPage struct {
	Channel   channelView
	Items     []itemView
	More      int    // number of items that are not shown
	JustAdded bool   // the subscription was just made
	Error     string // why there are no items
	Stale     string
	PollNow   pollNow
	Polling   pollingView
	Trust     trust
	Health    []HealthChange // the latest first
	Counts    *countsView    // nil: the channel is no page
}

// itemView is an item as shown to people. Its HTML is sanitised.
type itemView struct {
	Title, Link, Author string
	At                  *time.Time
	Content             template.HTML
	Changes             []hunk // of a page, in place of the content
	Provenance          string
	Withdrawn           bool
	TooLong             bool // the page has no room for the content
	Open                bool // the content is shown at first
}

const (
	// maxPageItems bounds the items on the page of a subscription. The page is a sample of what readers get, not a feed
	// reader.
	maxPageItems = 20
	// maxPageText bounds the contents of all items on the page, in bytes. Further items are shown without their contents.
	maxPageText = 40 << 10
	// openItems is the number of items whose contents are shown at first.
	openItems = 2
	// maxHealthChanges bounds the changes of health on the page.
	maxHealthChanges = 20
)

func (s *Server) show(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	address, err := s.resolveAddress(r, q.Get("url"))
	if err != nil {
		return err
	}
	channel, err := s.findChannel(r.Context(), address)
	if err != nil {
		return err
	}
	s.complete(r, &channel)
	p := showPage{Channel: channelView{channel}, JustAdded: q.Get("new") != "", Trust: trustOf(&channel), Counts: countsOf(address)}
	if !p.Channel.New() { // a new channel would wait for the origin
		p.read(r, s)
	}
	if p.Health, err = s.config.News.HealthOf(address, maxHealthChanges); err != nil {
		return err
	}
	now := s.config.Now()
	p.PollNow = s.pollNow(&channel, now)
	if p.Polling, err = s.polling(r, &channel, now); err != nil {
		return err
	}
	return s.writePage(w, r, http.StatusOK, "show.html", locale.Verbatim(p.Channel.Name()), &p)
}

// LiveAddress returns the address of the stream that keeps the page up to date, and that tells of items which are newer than
// those that it shows.
func (p *showPage) LiveAddress() string {
	q := url.Values{"row": {rowID(p.Channel.URL)}, "shown": {iso(p.Channel.Newest)}}
	return withQuery(livePath, q)
}

// read fills in the items. An error is shown on the page.
func (p *showPage) read(r *http.Request, s *Server) {
	window, err := s.subs.Read(r.Context(), p.Channel.URL)
	if err != nil {
		if p.Error = oneLine(err.Error()); p.isShown(p.Error) {
			p.Error = ""
		}
		return
	}
	if !p.isShown(window.Stale) {
		p.Stale = window.Stale
	}
	entries := window.Document.Entries
	shown := entries[:min(maxPageItems, len(entries))]
	p.More = len(entries) - len(shown)
	room, l := maxPageText, s.language(r)
	for i, e := range shown {
		v := s.pages.showItem(l, e, cmp.Or(window.Document.Base, p.Channel.URL))
		if n := len(v.Content); n <= room {
			room -= n
		} else {
			v.Content, v.TooLong = "", true
		}
		if v.Open = i < openItems; p.Counts != nil {
			v.Changes = changesOf(v.Content)
		}
		p.Items = append(p.Items, v)
	}
}

// Facts returns facts about the polling, without the rank of this node: the table has the turns of all.
func (p *showPage) Facts() []locale.Text {
	c := p.Channel.Channel
	c.Rank, c.PhaseS = nil, nil
	return c.PollingFacts()
}

// isShown reports whether the channel's own error already says the same.
func (p *showPage) isShown(message string) bool {
	return p.Channel.Error != "" && strings.Contains(message, p.Channel.Error)
}

func (p *pages) showItem(l *locale.Language, e feed.Entry, base string) itemView {
	m, _ := e.Item.Meaning(base) // an unreadable item is shown without its content
	at := m.Published
	for _, other := range []time.Time{m.Updated, e.Arrived} {
		if at.IsZero() {
			at = other
		}
	}
	return itemView{
		Title: cmp.Or(feed.PlainTitle(m.Title), l.Say("(untitled)")), Link: p.sanitiser.link(m.Link), Author: m.Author(),
		At: OptionalTime(at), Content: p.sanitiser.html(l, cmp.Or(m.Content, m.Summary)), Provenance: e.Provenance,
		Withdrawn: e.Withdrawn,
	}
}

// trust says in plain words why the items of a channel can be believed.
type trust struct {
	Words  []locale.Text
	Key    string // fingerprint of the publisher's key
	Since  *time.Time
	Former []FormerKey
}

func trustOf(c *Channel) (t trust) {
	say := func(text locale.Text) { t.Words = append(t.Words, text) }
	switch {
	case c.Private:
		say(locale.Say("Only this node reads this feed, so every item is what the web server sent to this node."))
	case c.Provenance == ProvenancePublisher:
		say(locale.Say("The publisher signs the items, and this node checks every signature. No other node can change an item or invent one."))
	case c.Provenance == ProvenanceWitnessed:
		say(locale.Say("Most of the items were read on the web server by several nodes, each by itself, and these nodes agree on them."))
	case c.Items > 0:
		say(locale.Say("One node read most of the items on the web server and passed them on. No other node has confirmed them yet, and no publisher has signed them."))
	}
	switch c.MinProvenance {
	case ProvenancePublisher:
		say(locale.Say("You see only items that the publisher has signed."))
	case ProvenanceWitnessed:
		say(locale.Say("You see an item when several nodes have read it on the web server."))
	}
	if t.Key = c.Publisher; t.Key == "" && !c.Private {
		say(locale.Say("The feed names no key of its publisher. Publishers can sign what they publish with tidings publish."))
	}
	t.Since, t.Former = c.PublisherSince, c.FormerKeys
	return t
}

// provenanceWords says of one item why it can be believed, in a few words.
func provenanceWords(provenance string) locale.Text {
	seen, ok := strings.CutPrefix(provenance, ProvenanceWitnessed+" ")
	n, of, counted := strings.Cut(seen, "/")
	switch {
	case ok && counted:
		return locale.Say("seen by %s of %s nodes", n, of)
	case provenance == ProvenancePublisher:
		return locale.Say("signed by the publisher")
	case provenance == "single":
		return locale.Say("seen by one node")
	case provenance == ProvenanceWitnessed:
		return locale.Say("witnessed")
	case provenance == "contested":
		return locale.Say("contested")
	case provenance == "varies":
		return locale.Say("varies")
	case provenance == "unconfirmed":
		return locale.Say("unconfirmed")
	}
	return locale.Verbatim(provenance)
}

// movedWords begins the report of a feed that has moved. Its new address follows.
const movedWords = "its web server says that it is now at "

// healthWords says in a sentence what has happened to a feed. What web servers and other nodes have reported is in English.
func healthWords(l *locale.Language, h HealthChange) template.HTML {
	report := sentence(h.Text)
	address, hasMoved := strings.CutPrefix(h.Text, movedWords)
	switch {
	case h.Kind == "failing":
		return l.HTML("It had failed for a day: <span lang=\"en\">%s</span>", report)
	case h.Kind == "gone":
		return l.HTML("It is gone: <span lang=\"en\">%s</span>", report)
	case h.Kind == "recovered":
		return l.HTML("It can be read again.")
	case hasMoved:
		return l.HTML("Its web server says that it is now at %s", address)
	}
	return template.HTML(`<span lang="en">` + template.HTMLEscapeString(report) + "</span>")
}

// A countsView says which parts of a page count.
type countsView struct {
	Page                 string // address of the page
	Select, Omit, Number string
	Added                bool // removals do not count
	Any                  bool // the address says what counts
}

// countsOf returns what counts on the page of a channel; nil if it is no page.
func countsOf(address string) *countsView {
	document, isPage := feed.DocumentURL(address)
	if !isPage {
		return nil
	}
	_, fragment, _ := strings.Cut(address, "#")
	v := countsView{Page: document}
	for part := range strings.SplitSeq(fragment, "&") { // of a canonical address; see selection.Rule
		name, raw, _ := strings.Cut(part, "=")
		value, err := url.PathUnescape(raw)
		if err != nil {
			continue
		}
		switch name {
		case "select":
			v.Select = value
		case "omit":
			v.Omit = value
		case "number":
			v.Number = value
		case "only":
			v.Added = true
		default:
			continue
		}
		v.Any = true
	}
	return &v
}

// withCounts returns the address of a page with what a form says that counts on it.
func withCounts(address string, q url.Values) string {
	var parts []string
	for _, name := range []string{"number", "omit", "only", "select"} {
		if v := strings.TrimSpace(q.Get(name)); v != "" {
			parts = append(parts, name+"="+strings.ReplaceAll(url.QueryEscape(v), "+", "%20"))
		}
	}
	if len(parts) == 0 {
		return address
	}
	document, isPage := feed.DocumentURL(strings.TrimSpace(address))
	if !isPage {
		document, _, _ = strings.Cut(document, "#")
	}
	return feed.PageChannel(document) + "#" + strings.Join(parts, "&")
}
