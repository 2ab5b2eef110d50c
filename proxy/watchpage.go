package proxy

import (
	"bytes"
	"cmp"
	"errors"
	"net/http"
	"strings"
	"time"
)

const (
	watchPath   = "/watch"
	unwatchPath = "/unwatch"
	scriptPath  = "/watch.js"
)

// watchPolicy lets the page of keyword subscriptions run its script, which requests a preview while the user types.
// In all other respects it is pagePolicy.
const watchPolicy = pagePolicy + "; script-src 'self'; connect-src 'self'"

// A watchPage is the page of keyword subscriptions.
type watchPage struct {
	WatchResponse
	Query     string
	Preview   previewView
	JustAdded *Watch // the search that was just added
	Script    string
}

// previewView is a preview as shown to people.
type previewView struct {
	Error string
	Empty bool // no query was entered
	Query string
	*PreviewResult
	Items []itemView
}

// watch shows the keyword subscriptions, and tries a query.
func (s *Server) watch(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	text := strings.TrimSpace(q.Get("q"))
	preview, err := s.preview(r, text)
	if err != nil {
		return err
	}
	if q.Has("part") { // the script asks only for the preview
		var b bytes.Buffer
		if err := s.pages.templates.ExecuteTemplate(&b, "preview", page{Now: s.config.Now(), Data: preview}); err != nil {
			return err
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		_, _ = w.Write(b.Bytes()) // an error means that the browser has disconnected
		return nil
	}
	p := watchPage{Query: text, Preview: preview, Script: scriptPath + "?" + s.pages.scriptTag}
	all, err := s.watches(r)
	if err != nil {
		return err
	}
	if p.WatchResponse, err = s.watchScope(r.Context(), all); err != nil {
		return err
	}
	for i := range p.Watches {
		if fresh := q.Get("new"); fresh != "" && strings.Contains(p.Watches[i].ReadURL, keywordsPath+fresh+".") {
			p.JustAdded = &p.Watches[i]
		}
	}
	return s.writePage(w, r, http.StatusOK, "watch.html", "Keywords", p)
}

// preview tries a query. If the query is invalid, the page shows the error.
func (s *Server) preview(r *http.Request, text string) (p previewView, err error) {
	if text == "" {
		return previewView{Empty: true}, nil
	}
	preview, err := s.config.Keywords.Preview(r.Context(), text)
	if errors.Is(err, ErrQuery) {
		return previewView{Error: oneLine(err.Error())}, nil
	}
	if err != nil {
		return p, err
	}
	p.Query, p.PreviewResult = preview.Query, preview.result(s.config.MaxArticles)
	for _, e := range preview.Entries {
		m := *e.Meaning
		p.Items = append(p.Items, itemView{
			Title: cmp.Or(strings.TrimSpace(m.Title), "(untitled)"), Link: s.pages.sanitiser.link(m.Link),
			Author: e.Source.Title, At: OptionalTime(e.Arrived),
		})
	}
	return p, nil
}

// watches lists the keyword subscriptions, with the addresses at which to read them.
func (s *Server) watches(r *http.Request) ([]Watch, error) {
	all, err := s.config.Keywords.Watches(r.Context())
	for i := range all {
		all[i].ReadURL = s.WatchURL(s.base(r), all[i].Number)
	}
	return all, err
}

// formQuery reads the query from a form.
func (s *Server) formQuery(w http.ResponseWriter, r *http.Request) (string, error) {
	r.Body = http.MaxBytesReader(w, r.Body, maxRequest)
	if err := bodyError(r.ParseForm()); err != nil {
		return "", err
	}
	text := strings.TrimSpace(r.PostForm.Get("q"))
	if text == "" {
		return "", refuse(http.StatusBadRequest, "the query is empty; write a word to search for, such as: solar")
	}
	return text, nil
}

func (s *Server) watchForm(w http.ResponseWriter, r *http.Request) error {
	text, err := s.formQuery(w, r)
	if err != nil {
		return err
	}
	watch, err := s.config.Keywords.Watch(r.Context(), text)
	if err != nil {
		return err
	}
	http.Redirect(w, r, watchPath+"?new="+s.keywordTokens.token(watch.Number), http.StatusSeeOther)
	return nil
}

func (s *Server) unwatchForm(w http.ResponseWriter, r *http.Request) error {
	text, err := s.formQuery(w, r)
	if err != nil {
		return err
	}
	if _, err := s.unwatch(r.Context(), text); err != nil {
		return err
	}
	http.Redirect(w, r, watchPath, http.StatusSeeOther)
	return nil
}

// watchPages answers GET and POST at watchPath.
func (s *Server) watchPages(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		s.answer(w, r, http.MethodPost, s.watchForm)
		return
	}
	s.answer(w, r, http.MethodGet, s.watch)
}

func (s *Server) script(w http.ResponseWriter, r *http.Request) error {
	h := w.Header()
	h.Set("Content-Type", "text/javascript; charset=utf-8")
	h.Set("Etag", `"`+s.pages.scriptTag+`"`)
	h.Set("Cache-Control", "max-age=86400") // the address contains a hash of the content
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(s.pages.script))
	return nil
}
