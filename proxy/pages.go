package proxy

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"html"
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

// pages is what it takes to make pages.
type pages struct {
	templates *template.Template
	css       []byte
	cssTag    string
	script    []byte
	scriptTag string
	clean     cleaner
}

func newPages() *pages {
	css, err := web.ReadFile("web/style.css")
	if err != nil {
		panic(err) // it is part of the program
	}
	script, err := web.ReadFile("web/watch.js")
	if err != nil {
		panic(err) // likewise
	}
	tag := func(of []byte) string {
		sum := sha256.Sum256(of)
		return hex.EncodeToString(sum[:8])
	}
	functions := template.FuncMap{"when": when, "iso": iso, "host": hostOf, "plural": Plural[int],
		"lasting": lasting, "sentence": sentence, "at": at, "exact": exactly, "vouched": vouched, "vouching": vouching,
		"part": func(now time.Time, is any) page { return page{Now: now, Is: is} }}
	return &pages{
		templates: template.Must(template.New("").Funcs(functions).ParseFS(web, "web/*.html")),
		css:       css,
		cssTag:    tag(css),
		script:    script,
		scriptTag: tag(script),
		clean:     newCleaner(),
	}
}

// vouched is the word that a page shows for what vouches for an item. "single" alone would not say that it is
// one node that does.
func vouched(provenance string) string {
	if provenance == "single" {
		return "one node"
	}
	return provenance
}

// vouching explains that word in one sentence; "" if it says enough.
func vouching(provenance string) string {
	switch provenance {
	case "single":
		return "One node found this on the web server, and no other node and no signature confirms it"
	case "unconfirmed":
		return "The network says that this key belongs to the feed, and this node has not seen the key on the web server"
	}
	return ""
}

// A page is what every template gets; Is is its own part.
type page struct {
	Title   string
	Style   string
	Version string
	Now     time.Time
	Is      any
}

// writePage makes a page whole before it sends any of it.
func (s *Server) writePage(w http.ResponseWriter, r *http.Request, status int, name, title string, is any) error {
	var b bytes.Buffer
	err := s.pages.templates.ExecuteTemplate(&b, name, page{
		Title: title, Style: stylePath + "?" + s.pages.cssTag, Version: s.config.Version, Now: s.config.Now(), Is: is,
	})
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", pageSecurity)
	if name == "watch.html" {
		h.Set("Content-Security-Policy", watchSecurity)
	}
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(b.Len()))
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(b.Bytes()) // a browser that went away hears nothing
	}
	return nil
}

// failPage shows what went wrong.
func (s *Server) failPage(w http.ResponseWriter, r *http.Request, err error) {
	status, words := s.setFault(w, err)
	if s.writePage(w, r, status, "fault.html", "Error", words) != nil {
		s.fail(w, err)
	}
}

func (s *Server) style(w http.ResponseWriter, r *http.Request) error {
	h := w.Header()
	h.Set("Content-Type", "text/css; charset=utf-8")
	h.Set("Etag", `"`+s.pages.cssTag+`"`)
	h.Set("Cache-Control", "max-age=86400") // its address changes with it
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(s.pages.css))
	return nil
}

// A Notice is a table of figures above the start page.
type Notice struct {
	Title  string
	Words  string     // below the title
	Head   []string   // of the columns
	Rows   [][]string // the first cell names the row
	Footer []string   // sentences below
}

// homePage is the start page.
type homePage struct {
	Notice   *Notice
	Still    bool // the page does not show itself anew
	Status   Status
	Channels []shownChannel
	Troubled int
	Mark     template.URL // the bookmarklet
}

// shownChannel is a channel, for people.
type shownChannel struct {
	Channel
	Name    string
	Trouble bool
	New     bool
}

// Problem is what is wrong with the channel, as a sentence; "" if nothing is.
func (c shownChannel) Problem() string {
	_, isPage := feed.DocumentURL(c.URL)
	subject := "The feed "
	if isPage {
		subject = "The page "
	}
	switch words := c.Error; {
	case words == "":
		return ""
	case strings.HasPrefix(words, "gone "):
		return sentence(subject + "is " + words)
	case strings.HasPrefix(words, "does not "):
		return sentence(subject + words)
	default:
		return sentence(words)
	}
}

func showChannel(c Channel) shownChannel {
	return shownChannel{
		Channel: c,
		Name:    orAddress(c.Title, c.URL),
		Trouble: c.Failing(),
		New:     c.State == StateNew,
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
	h := homePage{Status: status, Mark: bookmarklet(scheme(r) + "://" + r.Host)}
	if s.config.Notice != nil {
		n := s.config.Notice()
		h.Notice = &n
		// What moves by itself can be held (WCAG 2.2, 2.2.2), so that who fills in the form
		// below is not interrupted.
		if h.Still = r.URL.Query().Has("still"); !h.Still {
			w.Header().Set("Refresh", "2")
		}
	}
	for _, c := range channels {
		shown := showChannel(c)
		if shown.Trouble {
			h.Troubled++
		}
		h.Channels = append(h.Channels, shown)
	}
	// What needs a look comes first.
	slices.SortStableFunc(h.Channels, func(a, b shownChannel) int {
		switch {
		case a.Trouble == b.Trouble:
			return 0
		case a.Trouble:
			return -1
		}
		return 1
	})
	return s.writePage(w, r, http.StatusOK, "home.html", "tidings", h)
}

// bookmarklet leads from any page to /add with the feed that the page names, or
// with the page itself. It runs on other pages.
func bookmarklet(base string) template.URL {
	const script = `javascript:(function(){` +
		`var l=document.querySelector('link[rel~="alternate"][type="application/atom+xml"],` +
		`link[rel~="alternate"][type="application/rss+xml"],link[rel~="alternate"][type="application/feed+json"]');` +
		`location.href=%BASE%+'/add?url='+encodeURIComponent(l?l.href:location.href)})()`
	quoted := "'" + template.JSEscapeString(base) + "'"
	return template.URL(url.PathEscape(strings.Replace(script, "%BASE%", quoted, 1)))
}

// showPage is one subscription.
type showPage struct {
	Channel shownChannel
	Items   []shownItem
	More    int    // items that are not shown
	Fresh   bool   // it was just subscribed to
	Error   string // why there are no items
	Stale   string
}

// shownItem is an item, for people; the HTML is clean.
type shownItem struct {
	Title, Link, Author string
	At                  *time.Time
	Content             template.HTML
	Provenance          string
}

// itemsShown is how many items the page of a subscription has: it shows what a
// reader would get, and is no reader.
const itemsShown = 20

func (s *Server) show(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	address, err := s.typed(r, q.Get("url"))
	if err != nil {
		return err
	}
	channels, err := s.list(r)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(channels, func(c Channel) bool { return c.URL == address })
	if i < 0 {
		return refuse(http.StatusNotFound, "there is no subscription to %s", line(address))
	}
	p := showPage{Channel: showChannel(channels[i]), Fresh: q.Get("new") != ""}
	if !p.Channel.New { // else one would wait for the origin
		p.read(r, s)
	}
	return s.writePage(w, r, http.StatusOK, "show.html", p.Channel.Name, p)
}

// read fills in the items. That they cannot be had is part of the page.
func (p *showPage) read(r *http.Request, s *Server) {
	window, err := s.subs.Read(r.Context(), p.Channel.URL)
	if err != nil {
		if p.Error = line(err.Error()); p.told(p.Error) {
			p.Error = ""
		}
		return
	}
	if !p.told(window.Stale) {
		p.Stale = window.Stale
	}
	entries := window.Document.Entries
	shown := entries[:min(itemsShown, len(entries))]
	p.More = len(entries) - len(shown)
	for _, e := range shown {
		p.Items = append(p.Items, s.pages.showItem(e, cmp.Or(window.Document.Base, p.Channel.URL)))
	}
}

// told reports whether the channel's own trouble says as much.
func (p *showPage) told(words string) bool {
	return p.Channel.Error != "" && strings.Contains(words, p.Channel.Error)
}

func (p *pages) showItem(e feed.Entry, base string) shownItem {
	m, _ := e.Item.Meaning(base) // what cannot be read is not shown
	at := m.Published
	for _, other := range []time.Time{m.Updated, e.Arrived} {
		if at.IsZero() {
			at = other
		}
	}
	return shownItem{
		// Many titles are escaped once too often.
		Title: cmp.Or(strings.TrimSpace(html.UnescapeString(m.Title)), "(untitled)"), Link: p.clean.link(m.Link), Author: m.Author,
		At: At(at), Content: p.clean.html(cmp.Or(m.Content, m.Summary)), Provenance: e.Provenance,
	}
}

func (s *Server) add(w http.ResponseWriter, r *http.Request) error {
	address, err := s.typed(r, r.URL.Query().Get("url"))
	if err != nil {
		return err
	}
	return s.writePage(w, r, http.StatusOK, "add.html", "Subscription", address)
}

// formAddress reads the address of a form.
func (s *Server) formAddress(w http.ResponseWriter, r *http.Request) (string, error) {
	r.Body = http.MaxBytesReader(w, r.Body, maxRequest)
	if err := bodyFault(r.ParseForm()); err != nil {
		return "", err
	}
	return s.typed(r, r.PostForm.Get("url"))
}

func (s *Server) subscribeForm(w http.ResponseWriter, r *http.Request) error {
	address, err := s.formAddress(w, r)
	if err != nil {
		return err
	}
	done, err := s.subscribe(r.Context(), address) // the page that follows says how it stands
	if p, ok := errors.AsType[*instead](err); ok {
		return s.writePage(w, r, http.StatusMultipleChoices, "choose.html", "Choice of feeds", struct {
			Words   string
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

func (s *Server) opmlPage(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		s.answer(w, r, http.MethodPost, s.importForm)
		return
	}
	s.answer(w, r, http.MethodGet, s.exportOPML)
}

func (s *Server) importForm(w http.ResponseWriter, r *http.Request) error {
	r.Body = http.MaxBytesReader(w, r.Body, maxList)
	if err := bodyFault(r.ParseMultipartForm(maxList)); err != nil {
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

// when says how long ago something was, or how long it will be, as people do.
func when(now time.Time, t *time.Time) string {
	if t == nil {
		return ""
	}
	d := now.Sub(*t)
	if -time.Second < d && d < time.Second {
		return "now"
	}
	if d < 0 {
		return "in " + Span(-d)
	}
	return Span(d) + " ago"
}

// lasting says for how long something has been so.
func lasting(now time.Time, since *time.Time) string {
	if since == nil || now.Sub(*since) < time.Second {
		return "just now"
	}
	return "for " + Span(now.Sub(*since))
}

// exactly is exact of a number that is known.
func exactly(seconds *float64) string { return exact(*seconds) }

// sentence makes one of words that may begin in lower case and have no end. An address keeps its first letter, and gets no
// full stop behind it that somebody could copy with it.
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

// shownTrouble is what is said of a channel's trouble, at a time.
type shownTrouble struct {
	Now     time.Time
	Channel shownChannel
}

func at(now time.Time, c shownChannel) shownTrouble { return shownTrouble{now, c} }

// Span is a duration for people, in one unit.
func Span(d time.Duration) string {
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

// hostOf is the host of an address, by which people know it.
func hostOf(channel string) string {
	address, _ := feed.DocumentURL(channel)
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	return strings.TrimPrefix(u.Host, "www.")
}

// Plural names a number of things, by the word for one of them and the word for several.
func Plural[T int | int64 | uint64 | uint32](n T, one, many string) string {
	if n == 1 {
		many = one
	}
	return fmt.Sprintf("%d %s", n, many)
}
