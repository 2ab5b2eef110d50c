package proxy

import (
	"crypto/rand"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"tidings/internal/locale"
)

// A message tells a person on the next page what a form has done.
type message struct {
	Text    locale.Text
	Problem bool     // it did not go as the person may expect
	Undo    []string // the subscriptions that have ended, which the button "Undo" makes again
	until   time.Time
}

// shownMessage is a message as a page shows it.
type shownMessage struct {
	message
	Token string
	Back  string // the page, without the message
}

const (
	// messageParameter is the parameter of an address that names the message to show.
	messageParameter = "said"
	// messageTime is how long a message is shown, and what it tells can be undone. It is long enough to read the message,
	// and to notice a mistake.
	messageTime = 10 * time.Minute
	// maxMessages bounds the messages in memory. At the bound the oldest one is forgotten, and what it tells cannot be
	// undone any more.
	maxMessages = 256
)

// redirectWith sends the browser to another page of this node, which shows a message.
func (s *Server) redirectWith(w http.ResponseWriter, r *http.Request, to string, m message) {
	m.until = s.config.Now().Add(messageTime)
	token := rand.Text()
	s.messages.put(token, m, 1)
	separator := "?"
	if strings.Contains(to, "?") {
		separator = "&"
	}
	http.Redirect(w, r, to+separator+messageParameter+"="+token, http.StatusSeeOther)
}

// messageFor returns the message that a page has to show, or nil.
func (s *Server) messageFor(r *http.Request) *shownMessage {
	q := r.URL.Query()
	token := q.Get(messageParameter)
	m, ok := s.messages.get(token)
	if !ok || !s.config.Now().Before(m.until) {
		return nil
	}
	return &shownMessage{m, token, addressOf(r)}
}

// addressOf returns the address of a page of this node, without the message that it shows.
func addressOf(r *http.Request) string {
	q := r.URL.Query()
	q.Del(messageParameter)
	return withQuery(r.URL.Path, q)
}

// withQuery returns the address of a page of this node.
func withQuery(path string, q url.Values) string {
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}

// ownPage returns the address of a page of this node from a form, and fallback if it is none. A form must not lead a
// person to another site.
func ownPage(address, fallback string) string {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "" || u.Host != "" || u.Opaque != "" {
		return fallback
	}
	if !slices.Contains([]string{"/", "/show", "/add", importPath}, u.Path) && !slices.ContainsFunc(navigation, func(o option) bool { return o.Value == u.Path }) {
		return fallback
	}
	return withQuery(u.Path, u.Query())
}

// undoForm makes the subscriptions again that have ended with a message.
func (s *Server) undoForm(w http.ResponseWriter, r *http.Request) error {
	token, err := formValue(w, r, messageParameter)
	if err != nil {
		return err
	}
	m, ok := s.messages.take(token)
	if !ok || len(m.Undo) == 0 || !s.config.Now().Before(m.until) {
		return refuse(http.StatusGone, "this cannot be undone any more: subscribe again")
	}
	again := 0
	var forgotten error
	for i, address := range m.Undo {
		switch err := s.subs.Resubscribe(r.Context(), address); {
		case err == nil:
			again++
		case errors.Is(err, ErrNoSubscription): // another try would not help, and the others can be made again
			forgotten = err
		default:
			m.Undo = m.Undo[i:] // the button undoes the others
			s.messages.put(token, m, 1)
			return err
		}
	}
	if again == 0 {
		return forgotten
	}
	text := locale.Say("Subscribed again to %s, with title, tags and settings", locale.Say("%d feeds", again))
	s.redirectWith(w, r, ownPage(r.PostForm.Get("back"), "/"), partly(text, forgotten))
	return nil
}
