package proxy

import (
	"bytes"
	"cmp"
	"encoding/json"
	"html/template"
	"net/http"
	"net/url"
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

// A liveRow tells a page the new state of a subscription, of what needs attention, or of an import, as the page shows it.
type liveRow struct {
	ID      string `json:"id"`
	Trouble bool   `json:"trouble"`
	HTML    string `json:"html"` // the line below the title
	Why     string `json:"why"`  // HTML, too: what is said about a problem
}

// A liveView is what a page shows of numbers and subscriptions: the events that tell of them.
type liveView struct {
	order  []string // of keys of events
	events map[string]liveEvent
}

type liveEvent struct {
	kind string // number, row, part or reload
	data any
	mark any // changes whenever a page has to be told
}

// LiveAddress returns the address of the stream that keeps this list up to date. It names the rows, because one that changes
// may no longer be one of those that the query finds.
func (l listing) LiveAddress() string {
	q := url.Values{}
	for _, c := range l.Rows {
		q.Add("row", rowID(c.URL))
	}
	return withQuery(livePath, q)
}

// live streams what a page shows, and then what changes: the numbers of the start page, what needs attention if the page asks
// for that, the states of the subscriptions that the page shows, or the progress of an import. The page may be older than the
// stream, because browsers open pages that nobody looks at yet.
func (s *Server) live(w http.ResponseWriter, r *http.Request) error {
	release, err := s.takeStream()
	if err != nil {
		return err
	}
	defer release()
	rows := map[string]bool{}
	for _, id := range r.URL.Query()["row"] {
		rows[id] = true
	}
	changed := s.changes(r)
	view, took, err := s.liveView(r, rows)
	if err != nil {
		return err
	}
	send, told := beginStream(w), liveView{}
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
		if view, took, err = s.liveView(r, rows); err != nil {
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

// liveView returns what a page with some rows shows now, and how long it took to find out.
func (s *Server) liveView(r *http.Request, rows map[string]bool) (v liveView, took time.Duration, err error) {
	began := time.Now()
	if id := r.URL.Query().Get("import"); id != "" {
		v, err = s.liveImport(r, id)
		return v, time.Since(began), err
	}
	var t tally
	var shown []Channel // in the rows
	see := func(c *Channel) {
		if t.see(c); rows[rowID(c.URL)] {
			shown = append(shown, *c)
		}
	}
	var findings []Finding
	trouble, attention := s.newTroubled(), r.URL.Query().Has("attention")
	if attention {
		findings, err = s.subs.Doctor(r.Context(), func(c *Channel) {
			see(c)
			trouble.see(c)
		})
	} else {
		err = s.subs.Each(r.Context(), see)
	}
	if err != nil {
		return v, 0, err
	}
	v.events = map[string]liveEvent{}
	l := s.language(r)
	templates := s.pages.templates[l]
	for _, n := range s.numbers(l, t) {
		v.add("number "+n.ID, liveEvent{"number", liveNumber{n.ID, n.Value}, n.Value})
	}
	for i := range shown {
		id, c := rowID(shown[i].URL), channelView{shown[i]}
		facts, since := "facts", r.URL.Query()["shown"]
		if len(since) > 0 {
			facts = "shown"
			if err := v.addFresh(templates, c, since[0]); err != nil {
				return v, 0, err
			}
		}
		row, err := liveRowOf(templates, facts, id, c, s.config.Now())
		if err != nil {
			return v, 0, err
		}
		mark, err := liveRowOf(templates, facts, id, c, time.Time{}) // without times in words, which change without a reason
		if err != nil {
			return v, 0, err
		}
		v.add(id, liveEvent{"row", row, mark})
	}
	if attention {
		if err := s.addAttention(&v, r, findings, trouble); err != nil {
			return v, 0, err
		}
	}
	return v, time.Since(began), nil
}

// addFresh offers the items that a subscription has got since a page of it was made.
func (v *liveView) addFresh(templates *template.Template, c channelView, since string) error {
	if c.Newest == nil || iso(c.Newest) <= since {
		return nil
	}
	var link bytes.Buffer
	err := templates.ExecuteTemplate(&link, "fresh", c.URL)
	v.add("fresh", liveEvent{"part", liveRow{ID: "fresh", HTML: link.String()}, link.String()})
	return err
}

// liveRowOf returns the state of a subscription, as a page shows it at a time, with the facts of a template.
func liveRowOf(templates *template.Template, name, id string, c channelView, now time.Time) (liveRow, error) {
	var facts, why bytes.Buffer
	err := templates.ExecuteTemplate(&facts, name, page{Now: now, Data: c})
	if err == nil {
		err = templates.ExecuteTemplate(&why, "trouble", page{Now: now, Data: c})
	}
	return liveRow{id, c.Failing(), facts.String(), why.String()}, err
}

// addAttention adds what needs attention: an event for the node, one for each place of a feed, and one for what is not shown.
func (s *Server) addAttention(v *liveView, r *http.Request, findings []Finding, trouble *troubled) error {
	status, err := s.subs.Status(r.Context())
	if err != nil {
		return err
	}
	a, err := s.attention(r, status, findings, trouble)
	if err != nil {
		return err
	}
	templates := s.pages.templates[s.language(r)]
	add := func(id, name string, data, timeless any, isTrouble bool) {
		var shown, mark bytes.Buffer
		err = cmp.Or(err, templates.ExecuteTemplate(&shown, name, data), templates.ExecuteTemplate(&mark, name, timeless))
		v.add(id, liveEvent{"part", liveRow{id, isTrouble, shown.String(), ""}, mark.String()})
	}
	add("a-node", "sentences", a, a, false)
	for _, p := range a.Places() {
		if f := p.Feed; f != nil {
			add(p.ID, "attention", page{Now: s.config.Now(), Data: f}, page{Data: f}, f.Failing())
		} else {
			v.add(p.ID, liveEvent{"part", liveRow{ID: p.ID}, ""})
		}
	}
	add("a-more", "more", a, a, false)
	day := newTimeline(s.language(r), s.config.News, s.config.Now())
	add("t-words", "day", day, day, false)
	return err
}

func (v *liveView) add(key string, e liveEvent) {
	v.order = append(v.order, key)
	v.events[key] = e
}
