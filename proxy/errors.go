package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"
)

// Errors of [Subscriptions] on which the server acts. Wrapped in words, those are
// what the reader is told.
var (
	ErrNotFeed        = errors.New("not a feed")                       // the origin answered with something else
	ErrNotPage        = errors.New("not a page with text")             // the same of a page
	ErrForbidden      = errors.New("this address may not be polled")   // private addresses, denied hosts
	ErrNotFound       = errors.New("does not exist")                   // 404
	ErrGone           = errors.New("gone for good")                    // 410
	ErrUnreachable    = errors.New("the web server cannot be reached") // and no copy of it
	ErrTimeout        = errors.New("the web server is too slow")       // and no copy of it
	ErrBusy           = errors.New("try again later")                  // limits of the origin, or the node's
	ErrFull           = errors.New("no space left")                    // subscriptions, or the disk
	ErrNoSubscription = errors.New("there is no such subscription")    // Unsubscribe
	ErrRejected       = errors.New("not published")                    // Push, Write: refused; the words say why
	ErrPending        = errors.New("not published yet")                // Push, Write: nobody has taken it, or what comes before it
	ErrInvalidItem    = errors.New("this cannot be published")         // Push, Write: whoever is asked
	ErrTooLarge       = errors.New("too large to publish")             // Write
	ErrJoining        = errors.New(`the node has not found its network yet, and keeps looking for it: see "tidings doctor"`)
	errStopping       = errors.New("the node is shutting down") // the server's own
)

// statuses says what HTTP calls an error. An origin that does not answer with a
// feed is the origin's fault, not an absence: a reader that takes 404 for an end
// must not end with a captive portal.
var errorStatuses = []struct {
	err    error
	status int
}{
	{ErrQuery, http.StatusBadRequest},
	{ErrInvalidItem, http.StatusBadRequest},
	{ErrTooLarge, http.StatusRequestEntityTooLarge},
	{ErrForbidden, http.StatusForbidden},
	{ErrNoKey, http.StatusForbidden},
	{ErrRejected, http.StatusConflict},
	{ErrNotFound, http.StatusNotFound},
	{ErrNoSubscription, http.StatusNotFound},
	{ErrGone, http.StatusGone},
	{ErrNotFeed, http.StatusBadGateway},
	{ErrNotPage, http.StatusBadGateway},
	{ErrUnreachable, http.StatusBadGateway},
	{ErrTimeout, http.StatusGatewayTimeout},
	{context.DeadlineExceeded, http.StatusGatewayTimeout},
	{ErrBusy, http.StatusServiceUnavailable},
	{ErrPending, http.StatusServiceUnavailable},
	{context.Canceled, http.StatusServiceUnavailable},
	{ErrJoining, http.StatusServiceUnavailable},
	{errStopping, http.StatusServiceUnavailable},
	{ErrFull, http.StatusInsufficientStorage},
}

// A Trouble is the error of an address that cannot be read.
type ReadError struct {
	URL    string
	Kind   error  // one of those above
	Reason string // why
}

// Error is a sentence about the address.
func (t *ReadError) Error() string {
	switch {
	case errors.Is(t.Kind, ErrGone):
		return t.URL + " is " + t.Reason
	case errors.Is(t.Kind, ErrNotFound):
		return t.URL + " " + t.Reason
	}
	return t.URL + ": " + t.Reason
}

// Unwrap returns the kind.
func (t *ReadError) Unwrap() error { return t.Kind }

// A refusal is an error of the reader's own request.
type requestError struct {
	status  int
	message string
}

func (r requestError) Error() string { return r.message }

func refuse(status int, format string, args ...any) error {
	return requestError{status, fmt.Sprintf(format, args...)}
}

// statusOf is the HTTP status of an error.
func statusOf(err error) int {
	if r, ok := errors.AsType[requestError](err); ok {
		return r.status
	}
	if _, ok := errors.AsType[*choiceError](err); ok {
		return http.StatusMultipleChoices
	}
	for _, s := range errorStatuses {
		if errors.Is(err, s.err) {
			return s.status
		}
	}
	return http.StatusInternalServerError
}

// passing reports whether an error may be gone at the next attempt, so that an
// older copy is better than the error.
func isTemporary(err error) bool { return statusOf(err) >= 500 }

// retryAfterS is what a reader that came too soon is told to wait, in seconds:
// no reader that behaves comes back sooner anyway.
const retryAfterS = "60"

// setFault writes the headers of an error, and returns its status and words. The
// request is not logged: its path may hold a token.
func (s *Server) writeErrorHeaders(w http.ResponseWriter, err error) (status int, words string) {
	status = statusOf(err)
	if status == http.StatusInternalServerError {
		s.config.Log.Warn("request failed", "err", err)
	}
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	if status == http.StatusServiceUnavailable {
		h.Set("Retry-After", retryAfterS)
	}
	return status, oneLine(err.Error())
}

// fail answers with an error in one line of text.
func (s *Server) writeTextError(w http.ResponseWriter, err error) {
	status, words := s.writeErrorHeaders(w, err)
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = fmt.Fprintln(w, words) // a reader that went away hears nothing
}

// maxLine is the longest error or header of ours in bytes; the words of origins
// find their way into both.
const maxLine = 400

// line makes one line of words.
func oneLine(s string) string {
	s = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(s, "�"), func(r rune) bool {
		return r <= ' ' || r == 0x7f
	}), " ")
	if len(s) <= maxLine {
		return s
	}
	cut := maxLine
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}
