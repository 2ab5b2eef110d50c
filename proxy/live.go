package proxy

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"time"
)

const (
	livePath = "/live"
	// liveInterval is the time after which a page that is open looks for changes that the journal of news does not tell of,
	// such as polls.
	liveInterval = 10 * time.Second
	// liveQuiet is the least time between two updates of a page, so that a burst of news is one update.
	liveQuiet = time.Second
	// liveShare bounds the time that updates take: the node waits this many times as long as it took to find what has changed.
	liveShare = 20
)

// A liveNumber tells a page the new value of a number.
type liveNumber struct {
	ID    string `json:"id"`
	Value string `json:"value"`
}

// A liveRow tells a page the new state of a subscription, as the page shows it.
type liveRow struct {
	ID      string `json:"id"`
	Trouble bool   `json:"trouble"`
	HTML    string `json:"html"`
}

// A liveView is what a page shows of numbers and subscriptions. Values are the events that tell of them.
type liveView struct {
	order  []string // of keys of events
	events map[string]liveEvent
}

type liveEvent struct {
	kind string // number, row, part or reload
	data any
	mark string // changes whenever a page has to be told
}

// LiveAddress returns the address of the stream that keeps this list up to date.
func (l listing) LiveAddress() string {
	q := l.values()
	q.Set("rows", strconv.Itoa(l.size))
	return withQuery(livePath, q)
}

// live streams what changes on a page: the numbers of the start page, the states of the subscriptions that the page
// shows, or the progress of an import. An update has only what has changed.
func (s *Server) live(w http.ResponseWriter, r *http.Request) error {
	select {
	case s.streams <- struct{}{}:
		defer func() { <-s.streams }()
	default:
		return refuse(http.StatusServiceUnavailable, "%d pages and programs are reading events already: close one of them", maxStreams)
	}
	q := r.URL.Query()
	rows, _ := strconv.Atoi(q.Get("rows"))
	rows = min(max(1, rows), listRows)
	query := parseListQuery(q)
	changed := s.changes(r)
	view, took, err := s.liveView(r, query, rows)
	if err != nil {
		return err
	}
	send := beginStream(w)
	if !send(": changes of this page\n\n") {
		return nil
	}
	told := liveView{}
	if !q.Has("all") {
		told = view
	}
	pulse := time.NewTicker(liveInterval)
	defer pulse.Stop()
	for {
		if !view.tell(send, told) || http.NewResponseController(w).Flush() != nil {
			return nil
		}
		told = view
		if !pause(r, max(liveQuiet, liveShare*took)) {
			return nil
		}
		select {
		case <-changed:
		case <-pulse.C:
			if !send(": \n\n") {
				return nil
			}
		case <-r.Context().Done():
			return nil
		}
		changed = s.changes(r)
		if view, took, err = s.liveView(r, query, rows); err != nil {
			return nil // the browser asks again
		}
	}
}

// pause waits; it returns false if the request has ended.
func pause(r *http.Request, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.Context().Done():
		return false
	}
}

// tell sends the events whose marks differ from those of an earlier view.
func (v liveView) tell(send func(string, ...any) bool, told liveView) bool {
	for _, key := range v.order {
		e := v.events[key]
		if told.events[key].mark == e.mark {
			continue
		}
		var data bytes.Buffer
		encoder := json.NewEncoder(&data) // which ends the line
		encoder.SetEscapeHTML(false)      // the update is no part of a page, and shorter without
		if encoder.Encode(e.data) != nil || !send("event: %s\ndata: %s\n", e.kind, data.Bytes()) {
			return false
		}
	}
	return true
}

// changes returns a channel that is closed when what a page shows may have changed.
func (s *Server) changes(r *http.Request) <-chan struct{} {
	if run, err := s.imports.find(r.URL.Query().Get("import")); err == nil {
		return run.changed()
	}
	return s.config.News.Changed()
}

// liveView returns what a page shows now, and how long it took to find out.
func (s *Server) liveView(r *http.Request, query listQuery, rows int) (v liveView, took time.Duration, err error) {
	began := time.Now()
	if id := r.URL.Query().Get("import"); id != "" {
		v, err = s.liveImport(id)
		return v, time.Since(began), err
	}
	channels, err := s.subs.List(r.Context())
	if err != nil {
		return v, 0, err
	}
	v.events = map[string]liveEvent{}
	for _, n := range s.numbers(channels) {
		v.add("number "+n.ID, liveEvent{"number", liveNumber{n.ID, n.Value}, n.Value})
	}
	for _, c := range s.listing(r, channels, query, rows).Rows {
		var b bytes.Buffer
		if err := s.pages.templates.ExecuteTemplate(&b, "facts", page{Now: s.config.Now(), Data: c}); err != nil {
			return v, 0, err
		}
		var mark bytes.Buffer // without times in words, which change without a reason
		if err := s.pages.templates.ExecuteTemplate(&mark, "facts", page{Data: c}); err != nil {
			return v, 0, err
		}
		id := rowID(c.URL)
		v.add(id, liveEvent{"row", liveRow{id, c.HasProblem, b.String()}, mark.String()})
	}
	return v, time.Since(began), nil
}

func (v *liveView) add(key string, e liveEvent) {
	v.order = append(v.order, key)
	v.events[key] = e
}
