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

// watchSecurity lets the page of keyword subscriptions run its one script, which asks for a preview as one
// types. All else that a page may not, it may not.
const watchSecurity = pageSecurity + "; script-src 'self'; connect-src 'self'"

// A watchPage is that of keyword subscriptions.
type watchPage struct {
	Watching
	Query   string
	Preview previewed
	Fresh   *Watch // it was just watched
	Script  string
}

// previewed is a preview, for people.
type previewed struct {
	Error string
	None  bool // nothing was asked
	Query string
	*Trial
	Items []shownItem
}

// watch shows the keyword subscriptions, and tries a query.
func (s *Server) watch(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	text := strings.TrimSpace(q.Get("q"))
	preview, err := s.preview(r, text)
	if err != nil {
		return err
	}
	if q.Has("part") { // what the script shows in its place
		var b bytes.Buffer
		if err := s.pages.templates.ExecuteTemplate(&b, "preview", page{Now: s.config.Now(), Is: preview}); err != nil {
			return err
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		_, _ = w.Write(b.Bytes()) // a browser that went away hears nothing
		return nil
	}
	p := watchPage{Query: text, Preview: preview, Script: scriptPath + "?" + s.pages.scriptTag}
	all, err := s.watches(r)
	if err != nil {
		return err
	}
	if p.Watching, err = s.watching(r.Context(), all); err != nil {
		return err
	}
	for i := range p.Watches {
		if fresh := q.Get("new"); fresh != "" && strings.Contains(p.Watches[i].ReadURL, keywordsPath+fresh+".") {
			p.Fresh = &p.Watches[i]
		}
	}
	return s.writePage(w, r, http.StatusOK, "watch.html", "Keywords", p)
}

// preview tries a query. That it cannot be tried is part of the page.
func (s *Server) preview(r *http.Request, text string) (p previewed, err error) {
	if text == "" {
		return previewed{None: true}, nil
	}
	of, err := s.config.Keywords.Preview(r.Context(), text)
	if errors.Is(err, ErrQuery) {
		return previewed{Error: line(err.Error())}, nil
	}
	if err != nil {
		return p, err
	}
	p.Query, p.Trial = of.Query, of.trial(s.config.Kept)
	for _, e := range of.Entries {
		m := *e.Meaning
		p.Items = append(p.Items, shownItem{
			Title: cmp.Or(strings.TrimSpace(m.Title), "(untitled)"), Link: s.pages.clean.link(m.Link),
			Author: e.Source.Title, At: At(e.Arrived),
		})
	}
	return p, nil
}

// watches lists the keyword subscriptions, with addresses to read at.
func (s *Server) watches(r *http.Request) ([]Watch, error) {
	all, err := s.config.Keywords.Watches(r.Context())
	for i := range all {
		all[i].ReadURL = s.WatchURL(s.base(r), all[i].Number)
	}
	return all, err
}

// formQuery reads the query of a form.
func (s *Server) formQuery(w http.ResponseWriter, r *http.Request) (string, error) {
	r.Body = http.MaxBytesReader(w, r.Body, maxRequest)
	if err := bodyFault(r.ParseForm()); err != nil {
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
	of, err := s.config.Keywords.Watch(r.Context(), text)
	if err != nil {
		return err
	}
	http.Redirect(w, r, watchPath+"?new="+s.sealer.token(of.Number), http.StatusSeeOther)
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

// watchPages answers at watchPath: what is there, or a new one.
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
	h.Set("Cache-Control", "max-age=86400") // its address changes with it
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(s.pages.script))
	return nil
}
