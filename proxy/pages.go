package proxy

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"tidings/internal/feed"
	"tidings/internal/plot"
)

//go:embed web
var web embed.FS

// Static files, by their paths.
const (
	stylePath  = "/style.css"
	scriptPath = "/page.js"
	iconPath   = "/icon.svg"
)

// pages holds the templates and static files.
type pages struct {
	templates *template.Template
	assets    map[string]asset // by path
	sanitiser sanitiser
}

// An asset is a static file.
type asset struct {
	content        []byte
	tag, mediaType string
}

// newAsset reads an embedded file and appends more to it.
func newAsset(path, mediaType, more string) asset {
	content, err := web.ReadFile("web" + path)
	if err != nil {
		panic(err) // the file is embedded
	}
	content = append(content, more...)
	sum := sha256.Sum256(content)
	return asset{content, hex.EncodeToString(sum[:8]), mediaType}
}

// address returns the address of a static file, which changes with its content.
func (p *pages) address(path string) string { return path + "?" + p.assets[path].tag }

// static serves a static file.
func (s *Server) static(w http.ResponseWriter, r *http.Request) error {
	a := s.pages.assets[r.URL.Path]
	h := w.Header()
	h.Set("Content-Type", a.mediaType)
	h.Set("Etag", `"`+a.tag+`"`)
	h.Set("Cache-Control", "max-age=86400") // the address contains the tag
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(a.content))
	return nil
}

func newPages() *pages {
	p := &pages{sanitiser: newSanitiser(), assets: map[string]asset{
		stylePath:  newAsset(stylePath, "text/css; charset=utf-8", plot.CSS),
		scriptPath: newAsset(scriptPath, "text/javascript; charset=utf-8", ""),
		iconPath:   newAsset(iconPath, "image/svg+xml", ""),
	}}
	functions := template.FuncMap{"when": formatRelative, "iso": iso, "host": hostOf, "plural": Plural[int], "rowID": rowID, "count": formatCount,
		"duration": formatDuration, "sentence": sentence, "exact": formatSecondsPtr, "provenanceName": provenanceName, "provenanceNote": provenanceNote,
		"asset": p.address, "plot": svg, "qr": qrCode, "isLocal": isLocalAddress, "choose": func(options []option, chosen string) choice { return choice{options, chosen} }, "part": func(now time.Time, is any) page { return page{Now: now, Data: is} }}
	p.templates = template.Must(template.New("").Funcs(functions).ParseFS(web, "web/*.html"))
	return p
}

// svg returns a chart as a part of a page. The chart has escaped its texts.
func svg(c plot.Chart) template.HTML { return template.HTML(c.SVG()) }

// A choice is a list of options, of which one is chosen.
type choice struct {
	Options []option
	Chosen  string
}

// navigation holds the pages that every page leads to.
var navigation = []option{
	{subscriptionsPath, "Subscriptions"}, {watchPath, "Keywords"}, {NotifyPath, "Notifications"}, {"/channels", "Polling"},
	{"/network", "Network"}, {listsPath, "Import and export"}, {nodePath, "This node"},
}

// A page is the input of every template. Data is specific to the template.
type page struct {
	Title      string
	Path       string
	Navigation []option
	Message    *shownMessage // nil if there is none
	Version    string
	Now        time.Time
	Refresh    int // seconds after which a browser without scripts loads the page again; 0: never
	Data       any
}

// writePage renders a page completely before it sends any of it.
func (s *Server) writePage(w http.ResponseWriter, r *http.Request, status int, name, title string, data any) error {
	var b bytes.Buffer
	p := page{Title: title, Path: r.URL.Path, Navigation: navigation, Message: s.messageFor(r), Version: s.config.Version, Now: s.config.Now(), Data: data}
	if changing, ok := data.(interface{ Refresh() int }); ok {
		p.Refresh = changing.Refresh()
	}
	err := s.pages.templates.ExecuteTemplate(&b, name, p)
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", pagePolicy)
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
	channel, ok, err := s.findChannel(r.Context(), address)
	if err != nil {
		return err
	}
	if !ok {
		return refuse(http.StatusNotFound, "there is no subscription to %s", oneLine(address))
	}
	s.complete(r, &channel)
	p := showPage{Channel: newChannelView(channel), JustAdded: q.Get("new") != ""}
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
	err := parseForm(w, r, maxRequest)
	return r.PostForm.Get(name), err
}

// parseForm reads a form of at most limit bytes.
func parseForm(w http.ResponseWriter, r *http.Request, limit int64) error {
	r.Body = http.MaxBytesReader(w, r.Body, limit)
	return bodyError(r.ParseForm())
}

func (s *Server) subscribeForm(w http.ResponseWriter, r *http.Request) error {
	raw, err := formValue(w, r, "url")
	if err != nil {
		return err
	}
	if q := (SubscribeMessage{URL: raw, Private: r.PostForm.Get("private") != ""}); s.isPrivate(q) {
		done, err := s.subscribePrivately(r, PrivateFeed{Address: raw})
		if err == nil {
			s.showSubscribed(w, r, done)
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
	s.showSubscribed(w, r, done)
	return nil
}

// showSubscribed leads to the page of a subscription that was just made, with a warning if nothing can be read there yet.
func (s *Server) showSubscribed(w http.ResponseWriter, r *http.Request, done SubscribeMessage) {
	parameter := "url=" + url.QueryEscape(done.URL)
	if done.Warning == "" {
		http.Redirect(w, r, "/show?new=1&"+parameter, http.StatusSeeOther)
		return
	}
	text := "Subscribed, but nothing can be read there yet: " + done.Warning
	if done.Already {
		text = "You had subscribed before, and nothing can be read there yet: " + done.Warning
	}
	s.redirectWith(w, r, "/show?"+parameter, message{Text: text, Problem: true})
}

func (s *Server) unsubscribeForm(w http.ResponseWriter, r *http.Request) error {
	address, err := s.formAddress(w, r)
	if err != nil {
		return err
	}
	return s.unsubscribeFrom(w, r, []string{address}, ownPage(r.PostForm.Get("back"), "/"))
}
