package proxy

import (
	"bytes"
	"cmp"
	"net/http"
)

// A livePart tells a page what a part of it shows now.
type livePart struct {
	ID      string `json:"id"`
	Trouble bool   `json:"trouble"`
	HTML    string `json:"html"`
}

// shownMark begins the marks of parts of a page that may be empty, which a page that comes back has to be told, too.
const shownMark = "shown "

// addAttention adds what needs attention: an event for the node, one for each place of a feed, and one for what is not shown.
func (s *Server) addAttention(v *liveView, r *http.Request, channels []Channel) error {
	status, err := s.subs.Status(r.Context())
	if err != nil {
		return err
	}
	a, err := s.attention(r, status, channels)
	if err != nil {
		return err
	}
	add := func(id, template string, data, timeless any, isTrouble bool) {
		var shown, mark bytes.Buffer
		err = cmp.Or(err, s.pages.templates.ExecuteTemplate(&shown, template, data), s.pages.templates.ExecuteTemplate(&mark, template, timeless))
		v.add(id, liveEvent{"part", livePart{id, isTrouble, shown.String()}, shownMark + mark.String()})
	}
	add("a-node", "sentences", a, a, false)
	for _, p := range a.Places() {
		if f := p.Feed; f != nil {
			add(p.ID, "attention", page{Now: s.config.Now(), Data: f}, page{Data: f}, f.HasProblem)
		} else {
			v.add(p.ID, liveEvent{"part", livePart{ID: p.ID}, shownMark})
		}
	}
	add("a-more", "more", a, a, false)
	return err
}
