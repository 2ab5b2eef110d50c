package proxy

import (
	"bytes"
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"tidings/cobra/query"
	"tidings/internal/locale"
	"tidings/internal/plot"
)

const (
	watchPath   = "/watch"
	unwatchPath = "/unwatch"
)

// A watchPage is the page of keyword subscriptions.
type watchPage struct {
	WatchResponse
	Query     string
	Builder   queryBuilder
	Built     bool // the builder composed the query
	Preview   previewView
	JustAdded *Watch   // the search that was just added
	OnceURL   string   // the address of its feed that shows each story once
	Hints     []string // about its query
	List      watchListView
}

// previewView is a preview as shown to people.
type previewView struct {
	Error string
	Empty bool // no query was entered
	Query string
	Built string // the query that the builder composed, for the script
	*PreviewResult
	Items []previewItem
	Days  *plot.Chart // nil if there are too few days
}

// watch shows the keyword subscriptions, and tries a query.
func (s *Server) watch(w http.ResponseWriter, r *http.Request) error {
	q, l := r.URL.Query(), s.language(r)
	builder, built := readBuilder(q)
	text := cmp.Or(built, strings.TrimSpace(q.Get("q")))
	preview, err := s.preview(r, l, text)
	if err != nil {
		return err
	}
	preview.Built = built
	if q.Has("part") { // the script asks only for the preview
		var b bytes.Buffer
		if err := s.pages.templates[l].ExecuteTemplate(&b, "preview", page{Now: s.config.Now(), Data: preview}); err != nil {
			return err
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		_, _ = w.Write(b.Bytes()) // an error means that the browser has disconnected
		return nil
	}
	p := watchPage{Query: text, Builder: builder, Built: built != "", Preview: preview}
	list, err := watchListOf(url.Values{"from": q["from"], "filter": q["filter"]}, shownWatches)
	if err != nil {
		return err
	}
	page, err := s.watches(r, list)
	if err != nil {
		return err
	}
	if p.WatchResponse, err = s.watchScope(r.Context(), page.Watches); err != nil {
		return err
	}
	p.List = newWatchListView(list, page.Next, p.Total)
	if number, ok := s.keywordTokens.open(q.Get("new")); ok {
		if err := s.showAdded(r, &p, number); err != nil {
			return err
		}
	}
	return s.writePage(w, r, http.StatusOK, "watch.html", locale.Say("Keywords"), p)
}

// preview tries a query. If the query is invalid, the page shows the error.
func (s *Server) preview(r *http.Request, l *locale.Language, text string) (p previewView, err error) {
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
	p.Items, p.Days = s.previewItems(l, preview), daysPlot(l, preview.Days)
	return p, nil
}

// showAdded shows a search that was just added, unless it has ended.
func (s *Server) showAdded(r *http.Request, p *watchPage, number uint32) error {
	w, err := s.config.Keywords.LookUp(r.Context(), number)
	if errors.Is(err, ErrNoSubscription) {
		return nil
	}
	if err != nil {
		return err
	}
	w.ReadURL = s.WatchURL(s.base(r), number)
	p.JustAdded, p.OnceURL = &w, onceURL(w.ReadURL)
	if q, err := query.Parse(w.Query); err == nil { // the queries of earlier versions may be invalid
		p.Hints = q.Hints()
	}
	return nil
}

// formQuery reads the query from a form.
func (s *Server) formQuery(w http.ResponseWriter, r *http.Request) (string, error) {
	text, err := formValue(w, r, "q")
	if text = strings.TrimSpace(text); err == nil && text == "" {
		err = errEmptyQuery
	}
	return text, err
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
