package proxy

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"tidings/internal/feed"
	"tidings/internal/locale"
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
	templates map[*locale.Language]*template.Template
	assets    map[string]asset // by path
	sanitiser sanitiser
	siteIcons bool // the icons of sites are shown
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

func newPages(siteIcons bool) *pages {
	p := &pages{sanitiser: newSanitiser(), siteIcons: siteIcons, templates: map[*locale.Language]*template.Template{}, assets: map[string]asset{
		stylePath:  newAsset(stylePath, "text/css; charset=utf-8", plot.CSS),
		scriptPath: newAsset(scriptPath, "text/javascript; charset=utf-8", ""),
		iconPath:   newAsset(iconPath, "image/svg+xml", ""),
	}}
	english := template.Must(template.New("").Funcs(p.functions(locale.English)).ParseFS(web, "web/*.html"))
	for _, path := range []string{stylePath, iconPath} { // the page of searches has its own addresses of them
		p.assets[searchesPath+path[1:]] = p.assets[path]
	}
	for _, l := range append(slices.Clone(languages()), locale.Pseudo) {
		p.templates[l] = template.Must(english.Clone()).Funcs(p.functions(l))
	}
	return p
}

// functions returns the functions that templates have in a language. t and th write texts. th is for texts that contain
// elements of HTML; see package locale.
func (p *pages) functions(l *locale.Language) template.FuncMap {
	return template.FuncMap{
		"t":        func(text any, arguments ...any) string { return say(l, text, arguments) },
		"th":       l.HTML,
		"duration": func(now time.Time, since *time.Time) string { return l.Text(lasting(now, since)) },
		"time":     func(now time.Time, t *time.Time) template.HTML { return timeElement(t, "", l.Text(relative(now, t))) },
		"timeAt":   func(now, t time.Time) template.HTML { return timeElement(&t, "", l.Text(relative(now, &t))) },
		"timeFor": func(now time.Time, since *time.Time) template.HTML {
			return timeElement(since, " data-for", l.Text(lasting(now, since)))
		},
		"exact":       func(seconds *float64) string { return l.Text(spanOf(*seconds)) },
		"count":       func(n int) string { return l.Say("%d", n) },
		"scriptTexts": func() string { return scriptTexts(l) },
		"language":    func() *locale.Language { return l },
		"languages":   languages,
		"host":        hostOf, "rowID": rowID, "sentence": sentence,
		"asset": p.address, "siteIcon": p.siteIconOf, "plot": svg, "qr": qrCode, "isLocal": isLocalAddress,
		"stateText": stateText, "provenanceNote": provenanceNote, "provenanceWords": provenanceWords,
		"healthWords": func(h HealthChange) template.HTML { return healthWords(l, h) },
		"choose":      func(options []option, chosen string) choice { return choice{options, chosen} },
		"part":        func(now time.Time, is any) page { return page{Now: now, Data: is} },
	}
}

// say writes a text of a template: a string with arguments, or a [locale.Text].
func say(l *locale.Language, text any, arguments []any) string {
	if ready, ok := text.(locale.Text); ok {
		return l.Text(ready)
	}
	return l.Say(text.(string), arguments...)
}

// svg returns a chart as a part of a page. The chart has escaped its texts.
func svg(c *plot.Chart) template.HTML { return template.HTML(c.SVG()) }

// A choice is a list of options, of which one is chosen.
type choice struct {
	Options []option
	Chosen  string
}

// navigation holds the pages that every page leads to.
var navigation = []option{
	{subscriptionsPath, locale.Say("Subscriptions")}, {watchPath, locale.Say("Keywords")}, {NotifyPath, locale.Say("Notifications")},
	{"/channels", locale.Say("Polling")}, {"/network", locale.Say("Network")}, {listsPath, locale.Say("Import and export")},
	{nodePath, locale.Say("This node")},
}

// A page is the input of every template. Data is specific to the template.
type page struct {
	Title      locale.Text
	Path       string
	Address    string // of the page, with its query
	Navigation []option
	Message    *shownMessage // nil if there is none
	Version    string
	Now        time.Time
	Refresh    int // seconds after which a browser without scripts loads the page again; 0: never
	Data       any
}

// writePage renders a page completely before it sends any of it.
func (s *Server) writePage(w http.ResponseWriter, r *http.Request, status int, name string, title locale.Text, data any) error {
	var b bytes.Buffer
	p := page{Title: title, Path: r.URL.Path, Address: addressOf(r), Navigation: navigation, Message: s.messageFor(r), Version: s.config.Version, Now: s.config.Now(), Data: data}
	if changing, ok := data.(interface{ Refresh() int }); ok {
		p.Refresh = changing.Refresh()
	}
	l := s.language(r)
	err := s.pages.templates[l].ExecuteTemplate(&b, name, p)
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", pagePolicy)
	if strings.HasPrefix(r.URL.Path, searchesPath) {
		h.Set("Content-Security-Policy", searchesPolicy)
	}
	h.Set("Content-Language", l.Tag)
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
	title := locale.Say("Error")
	if status == http.StatusNotFound {
		title = locale.Say("Not found")
	}
	text := locale.Verbatim(message)
	if refusal, ok := refusalOf(err); ok {
		text = refusal
	}
	if s.writePage(w, r, status, "error.html", title, text) != nil {
		s.writeTextError(w, err)
	}
}

// writeErrorTo shows an error as a page if the node's user opens an address in a browser. Everybody else gets a line
// of text: feed readers, programs, browsers on other machines, which cannot load the styles of a page, and links of other
// sites.
func (s *Server) writeErrorTo(w http.ResponseWriter, r *http.Request, err error) {
	if isNavigation(r) && !isCrossSite(r) && s.auth.isAuthorized(r) {
		s.writeErrorPage(w, r, err)
		return
	}
	s.writeTextError(w, err)
}

// channelView is a channel as shown to people.
type channelView struct{ Channel }

// Name returns the channel's title, or its address if it has no title.
func (c channelView) Name() string { return titleOrAddress(c.Title, c.URL) }

// New reports whether the channel was not polled yet.
func (c channelView) New() bool { return c.State == StateNew }

// Problem describes the channel's problem in a sentence, if the node reports the problem without a subject. It is empty
// for other problems, whose reports are sentences themselves.
func (c channelView) Problem() locale.Text {
	gone, isGone := strings.CutPrefix(c.Error, "gone for good ")
	missing, isMissing := strings.CutPrefix(c.Error, "does not exist, or may not be read ")
	switch _, isPage := feed.DocumentURL(c.URL); {
	case isGone && isPage:
		return locale.Say("The page is gone for good %s.", gone)
	case isGone:
		return locale.Say("The feed is gone for good %s.", gone)
	case isMissing && isPage:
		return locale.Say("The page does not exist, or may not be read %s.", missing)
	case isMissing:
		return locale.Say("The feed does not exist, or may not be read %s.", missing)
	}
	return nil
}

func (s *Server) add(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	address, err := s.resolveAddress(r, withCounts(q.Get("url"), q))
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
		return s.writePage(w, r, http.StatusMultipleChoices, "choose.html", locale.Say("Choice of feeds"), struct {
			Text    locale.Text
			Choices []Choice
		}{p.message, p.choices})
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
	text := locale.Say("Subscribed, but nothing can be read there yet: %s", done.Warning)
	if done.Already {
		text = locale.Say("You had subscribed before, and nothing can be read there yet: %s", done.Warning)
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
