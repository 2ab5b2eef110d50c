package proxy

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"tidings/internal/feed"
)

//go:embed web
var web embed.FS

const stylePath = "/style.css"

// pages holds the templates and static files.
type pages struct {
	templates     *template.Template
	style, script asset
	sanitiser     sanitiser
}

// An asset is a static file.
type asset struct {
	content        []byte
	tag, mediaType string
}

func newAsset(file, mediaType string) asset {
	content, err := web.ReadFile("web/" + file)
	if err != nil {
		panic(err) // the file is embedded
	}
	sum := sha256.Sum256(content)
	return asset{content, hex.EncodeToString(sum[:8]), mediaType}
}

func (a asset) serve(w http.ResponseWriter, r *http.Request) error {
	h := w.Header()
	h.Set("Content-Type", a.mediaType)
	h.Set("Etag", `"`+a.tag+`"`)
	h.Set("Cache-Control", "max-age=86400") // the address contains the tag
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(a.content))
	return nil
}

func newPages() *pages {
	functions := template.FuncMap{"when": formatRelative, "iso": iso, "host": hostOf, "plural": Plural[int],
		"duration": formatDuration, "sentence": sentence, "exact": formatSecondsPtr, "provenanceName": provenanceName, "provenanceNote": provenanceNote,
		"part": func(now time.Time, is any) page { return page{Now: now, Data: is} }}
	return &pages{
		templates: template.Must(template.New("").Funcs(functions).ParseFS(web, "web/*.html")),
		style:     newAsset("style.css", "text/css; charset=utf-8"),
		script:    newAsset("watch.js", "text/javascript; charset=utf-8"),
		sanitiser: newSanitiser(),
	}
}

// provenanceName returns the word by which pages show an item's provenance. "single" alone would not say that the
// item is vouched for by a single node.
func provenanceName(provenance string) string {
	if provenance == "single" {
		return "one node"
	}
	return provenance
}

// provenanceNote explains a provenance in one sentence, or returns "" if the word is clear.
func provenanceNote(provenance string) string {
	switch {
	case provenance == "single":
		return "One node found this on the web server, and no other node and no signature confirms it"
	case strings.HasPrefix(provenance, ProvenanceWitnessed):
		return "That many of the nodes that keep this feed found this on the web server themselves"
	case provenance == "contested":
		return "Most of the nodes that keep this feed looked for this on the web server and did not find it"
	case provenance == "varies":
		return "The web server shows each node something else here"
	case provenance == "unconfirmed":
		return "The network says that this key belongs to the feed, and this node has not seen the key on the web server"
	}
	return ""
}

// A page is the input of every template. Data is specific to the template.
type page struct {
	Title   string
	Style   string
	Version string
	Now     time.Time
	Data    any
}

// writePage renders a page completely before it sends any of it.
func (s *Server) writePage(w http.ResponseWriter, r *http.Request, status int, name, title string, data any) error {
	var b bytes.Buffer
	err := s.pages.templates.ExecuteTemplate(&b, name, page{
		Title: title, Style: stylePath + "?" + s.pages.style.tag, Version: s.config.Version, Now: s.config.Now(), Data: data,
	})
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", pagePolicy)
	if name == "watch.html" {
		h.Set("Content-Security-Policy", watchPolicy)
	}
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(b.Len()))
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(b.Bytes()) // an error means that the browser has disconnected
	}
	return nil
}

// writeErrorPage shows an error as a page.
func (s *Server) writeErrorPage(w http.ResponseWriter, r *http.Request, err error) {
	status, message := s.writeErrorHeaders(w, err)
	if s.writePage(w, r, status, "error.html", "Error", message) != nil {
		s.writeTextError(w, err)
	}
}

func (s *Server) style(w http.ResponseWriter, r *http.Request) error {
	return s.pages.style.serve(w, r)
}

// A Notice is a table of figures at the top of the start page.
type Notice struct {
	Title  string
	Text   string     // shown below the title
	Head   []string   // column names
	Rows   [][]string // the first cell of a row is its name
	Footer []string   // sentences below the table
}

// homePage is the start page.
type homePage struct {
	Notice      *Notice
	Paused      bool // the page does not refresh itself
	Status      Status
	Channels    []channelView
	Problems    int
	Bookmarklet template.URL // the bookmarklet
}

// channelView is a channel as shown to people.
type channelView struct {
	Channel
	Name       string
	HasProblem bool
	New        bool
}

// Problem describes the channel's problem in a sentence, or returns "" if there is none.
func (c channelView) Problem() string {
	_, isPage := feed.DocumentURL(c.URL)
	subject := "The feed "
	if isPage {
		subject = "The page "
	}
	switch message := c.Error; {
	case message == "":
		return ""
	case strings.HasPrefix(message, "gone "):
		return sentence(subject + "is " + message)
	case strings.HasPrefix(message, "does not "):
		return sentence(subject + message)
	default:
		return sentence(message)
	}
}

func newChannelView(c Channel) channelView {
	return channelView{
		Channel:    c,
		Name:       titleOrAddress(c.Title, c.URL),
		HasProblem: c.Failing(),
		New:        c.State == StateNew,
	}
}

func (s *Server) home(w http.ResponseWriter, r *http.Request) error {
	status, err := s.subs.Status(r.Context())
	if err != nil {
		return err
	}
	channels, err := s.list(r)
	if err != nil {
		return err
	}
	h := homePage{Status: status, Bookmarklet: bookmarklet(scheme(r) + "://" + r.Host)}
	if s.config.Notice != nil {
		n := s.config.Notice()
		h.Notice = &n
		// Automatic refreshing can be paused (WCAG 2.2, 2.2.2), so that it does not interrupt a person who fills in
		// the form below.
		if h.Paused = r.URL.Query().Has("still"); !h.Paused {
			w.Header().Set("Refresh", "2")
		}
	}
	var others []channelView // channels with problems come first
	for _, c := range channels {
		if view := newChannelView(c); view.HasProblem {
			h.Channels = append(h.Channels, view)
		} else {
			others = append(others, view)
		}
	}
	h.Problems = len(h.Channels)
	h.Channels = append(h.Channels, others...)
	return s.writePage(w, r, http.StatusOK, "home.html", "tidings", h)
}

// bookmarklet returns a script that leads from any page to /add, with the feed that the page advertises or with the
// page itself. The script runs in the context of that page.
func bookmarklet(base string) template.URL {
	const script = `javascript:(function(){` +
		`var l=document.querySelector('link[rel~="alternate"][type="application/atom+xml"],` +
		`link[rel~="alternate"][type="application/rss+xml"],link[rel~="alternate"][type="application/feed+json"]');` +
		`location.href=%BASE%+'/add?url='+encodeURIComponent(l?l.href:location.href)})()`
	quoted := "'" + template.JSEscapeString(base) + "'"
	return template.URL(url.PathEscape(strings.Replace(script, "%BASE%", quoted, 1)))
}

// showPage is the page of one subscription.
type showPage struct {
	Channel   channelView
	Items     []itemView
	More      int    // number of items that are not shown
	JustAdded bool   // the subscription was just made
	Error     string // why there are no items
	Stale     string
}

// itemView is an item as shown to people. Its HTML is sanitised.
type itemView struct {
	Title, Link, Author string
	At                  *time.Time
	Content             template.HTML
	Provenance          string
	Withdrawn           bool
}

// maxPageItems bounds the items on the page of a subscription. The page is a sample of what readers get, not a feed
// reader.
const maxPageItems = 20

func (s *Server) show(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	address, err := s.resolveAddress(r, q.Get("url"))
	if err != nil {
		return err
	}
	channels, err := s.list(r)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(channels, func(c Channel) bool { return c.URL == address })
	if i < 0 {
		return refuse(http.StatusNotFound, "there is no subscription to %s", oneLine(address))
	}
	p := showPage{Channel: newChannelView(channels[i]), JustAdded: q.Get("new") != ""}
	if !p.Channel.New { // a new channel would wait for the origin
		p.read(r, s)
	}
	return s.writePage(w, r, http.StatusOK, "show.html", p.Channel.Name, p)
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
	for _, e := range shown {
		p.Items = append(p.Items, s.pages.showItem(e, cmp.Or(window.Document.Base, p.Channel.URL)))
	}
}

// isShown reports whether the channel's own error already says the same.
func (p *showPage) isShown(message string) bool {
	return p.Channel.Error != "" && strings.Contains(message, p.Channel.Error)
}

func (p *pages) showItem(e feed.Entry, base string) itemView {
	m, _ := e.Item.Meaning(base) // an unreadable item is shown without its content
	at := m.Published
	for _, other := range []time.Time{m.Updated, e.Arrived} {
		if at.IsZero() {
			at = other
		}
	}
	return itemView{
		Title: cmp.Or(feed.PlainTitle(m.Title), "(untitled)"), Link: p.sanitiser.link(m.Link), Author: m.Author(),
		At: OptionalTime(at), Content: p.sanitiser.html(cmp.Or(m.Content, m.Summary)), Provenance: e.Provenance,
		Withdrawn: e.Withdrawn,
	}
}

func (s *Server) add(w http.ResponseWriter, r *http.Request) error {
	address, err := s.resolveAddress(r, r.URL.Query().Get("url"))
	if err != nil {
		return err
	}
	return s.offerSubscription(w, r, address)
}

// formAddress reads the address from a form.
func (s *Server) formAddress(w http.ResponseWriter, r *http.Request) (string, error) {
	raw, err := formValue(w, r, "url")
	if err != nil {
		return "", err
	}
	return s.resolveAddress(r, raw)
}

// formValue reads a field of a form.
func formValue(w http.ResponseWriter, r *http.Request, name string) (string, error) {
	r.Body = http.MaxBytesReader(w, r.Body, maxRequest)
	err := bodyError(r.ParseForm())
	return r.PostForm.Get(name), err
}

func (s *Server) subscribeForm(w http.ResponseWriter, r *http.Request) error {
	raw, err := formValue(w, r, "url")
	if err != nil {
		return err
	}
	if q := (SubscribeMessage{URL: raw, Private: r.PostForm.Get("private") != ""}); s.isPrivate(q) {
		done, err := s.subscribePrivately(r, PrivateFeed{Address: raw})
		if err == nil {
			http.Redirect(w, r, "/show?new=1&url="+url.QueryEscape(done.URL), http.StatusSeeOther)
		}
		return err
	}
	address, err := s.resolveAddress(r, raw)
	if err != nil {
		return err
	}
	if saysWhatCounts(address) && r.PostForm.Get("tried") == "" {
		return s.offerSubscription(w, r, address)
	}
	done, err := s.subscribe(r.Context(), address, false) // the next page shows the state
	if p, ok := errors.AsType[*choiceError](err); ok {
		return s.writePage(w, r, http.StatusMultipleChoices, "choose.html", "Choice of feeds", struct {
			Text    string
			Choices []Choice
		}{p.Error(), p.choices})
	}
	if err != nil {
		return err
	}
	http.Redirect(w, r, "/show?new=1&url="+url.QueryEscape(done.URL), http.StatusSeeOther)
	return nil
}

func (s *Server) unsubscribeForm(w http.ResponseWriter, r *http.Request) error {
	address, err := s.formAddress(w, r)
	if err != nil {
		return err
	}
	if err := s.subs.Unsubscribe(r.Context(), address); err != nil {
		return err
	}
	http.Redirect(w, r, "/", http.StatusSeeOther)
	return nil
}

func (s *Server) importForm(w http.ResponseWriter, r *http.Request) error {
	r.Body = http.MaxBytesReader(w, r.Body, maxListSize)
	if err := bodyError(r.ParseMultipartForm(maxListSize)); err != nil {
		return err
	}
	file, _, err := r.FormFile("list")
	if err != nil {
		return refuse(http.StatusBadRequest, "no file chosen")
	}
	var doc bytes.Buffer
	if _, err := doc.ReadFrom(file); err != nil {
		return err
	}
	result, err := s.importOPML(w, r, doc.Bytes())
	if err != nil {
		return err
	}
	return s.writePage(w, r, http.StatusOK, "imported.html", "Import", result)
}

// formatRelative returns how long ago a time was, or how far in the future it is, for people.
func formatRelative(now time.Time, t *time.Time) string {
	if t == nil {
		return ""
	}
	d := now.Sub(*t)
	if -time.Second < d && d < time.Second {
		return "now"
	}
	if d < 0 {
		return "in " + FormatSpan(-d)
	}
	return FormatSpan(d) + " ago"
}

// formatDuration returns for how long a state has lasted.
func formatDuration(now time.Time, since *time.Time) string {
	if since == nil || now.Sub(*since) < time.Second {
		return "just now"
	}
	return "for " + FormatSpan(now.Sub(*since))
}

// formatSecondsPtr is formatSeconds for a known number.
func formatSecondsPtr(seconds *float64) string { return formatSeconds(*seconds) }

// sentence converts a text to a sentence: it capitalises the first letter and adds a full stop. A leading address
// keeps its first letter. A trailing address gets no full stop, because somebody could copy it with the address.
func sentence(s string) string {
	if s == "" {
		return ""
	}
	first, _, _ := strings.Cut(s, " ")
	if !strings.ContainsAny(first, "/.@") {
		r, size := utf8.DecodeRuneInString(s)
		s = string(unicode.ToUpper(r)) + s[size:]
	}
	last := s[strings.LastIndexByte(s, ' ')+1:]
	if strings.Contains(last, "/") || strings.HasSuffix(last, ".") || strings.HasSuffix(last, "?") || strings.HasSuffix(last, "…") {
		return s
	}
	return s + "."
}

// FormatSpan formats a duration for people, in one unit.
func FormatSpan(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < 2*time.Minute:
		return strconv.Itoa(int(d/time.Second)) + " s"
	case d < 2*time.Hour:
		return strconv.Itoa(int(d/time.Minute)) + " min"
	case d < 2*day:
		return strconv.Itoa(int(d/time.Hour)) + " h"
	}
	return strconv.Itoa(int(d/day)) + " days"
}

func iso(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// hostOf returns the host of an address, by which people recognise a feed.
func hostOf(channel string) string {
	if name, ok := strings.CutPrefix(channel, PrivateName); ok {
		host, _, _ := strings.Cut(name, "/")
		return host
	}
	address, _ := feed.DocumentURL(channel)
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	return strings.TrimPrefix(u.Host, "www.")
}

// Plural returns a number followed by the singular or the plural of a word.
func Plural[T int | int64 | uint64 | uint32](n T, one, many string) string {
	if n == 1 {
		many = one
	}
	return fmt.Sprintf("%d %s", n, many)
}
