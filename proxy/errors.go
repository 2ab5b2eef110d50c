package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"

	"tidings/internal/locale"
)

// Errors of [Subscriptions] and [Publishing] that decide the HTTP status. Readers see the text of the error that
// wraps them.
var (
	ErrNotFeed        = errors.New("not a feed")                       // the origin answered with something else
	ErrNotPage        = errors.New("not a page with text")             // the same for the address of a page
	ErrForbidden      = errors.New("this address may not be polled")   // private addresses, denied hosts
	ErrNotFound       = errors.New("does not exist")                   // 404
	ErrGone           = errors.New("gone for good")                    // 410
	ErrUnreachable    = errors.New("the web server cannot be reached") // and there is no copy
	ErrTimeout        = errors.New("the web server is too slow")       // and there is no copy
	ErrBusy           = errors.New("try again later")                  // limits of the origin or of the node
	ErrFull           = errors.New("no space left")                    // too many subscriptions, or the disk is full
	ErrNoSubscription = errors.New("there is no such subscription")    // of Unsubscribe and others
	ErrKnown          = errors.New("other nodes know already")         // of SubscribeQuietly
	ErrRejected       = errors.New("not published")                    // of Push and Write: the feed's owners refused the item; the text says why
	ErrPending        = errors.New("not published yet")                // of Push and Write: no quorum has the item yet, or an earlier one
	ErrInvalidItem    = errors.New("this cannot be published")         // of Push and Write: no node would accept this item
	ErrTooLarge       = errors.New("too large to publish")             // of Write
	ErrJoining        = errors.New(`the node has not found its network yet, and keeps looking for it: see "tidings doctor"`)
	errStopping       = errors.New("the node is shutting down") // of the server itself
)

// errorStatuses maps errors to HTTP statuses. If an origin does not answer with a feed, the status is 502 and not
// 404. Readers may take 404 for the end of a feed, and a captive portal must not end a feed.
var errorStatuses = []struct {
	err    error
	status int
}{
	{ErrQuery, http.StatusBadRequest},
	{ErrInvalidItem, http.StatusBadRequest},
	{ErrTarget, http.StatusBadRequest},
	{ErrToken, http.StatusBadRequest},
	{ErrTooLarge, http.StatusRequestEntityTooLarge},
	{ErrForbidden, http.StatusForbidden},
	{ErrNoKey, http.StatusForbidden},
	{ErrKnown, http.StatusConflict},
	{ErrRejected, http.StatusConflict},
	{ErrNotFound, http.StatusNotFound},
	{ErrNoSubscription, http.StatusNotFound},
	{ErrNoTarget, http.StatusNotFound},
	{ErrNoCandidate, http.StatusNotFound},
	{ErrNoToken, http.StatusNotFound},
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

// A ReadError says why an address cannot be read.
type ReadError struct {
	URL    string
	Kind   error  // one of the errors above
	Reason string // the cause, for people
}

// Error returns a sentence about the address.
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

// A requestError is an error in the reader's request.
type requestError struct {
	status  int
	message locale.Text
}

// Error returns the message in English.
func (r requestError) Error() string { return r.message.String() }

func refuse(status int, format string, args ...any) error {
	return requestError{status, locale.Say(format, args...)}
}

// refusalOf returns the text of an error of refuse; ok is false if err is none, or says more than that.
func refusalOf(err error) (text locale.Text, ok bool) {
	refused, ok := errors.AsType[requestError](err)
	return refused.message, ok && refused.Error() == err.Error()
}

// statusOf returns the HTTP status of an error.
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

// isTemporary reports whether an error may be gone at the next attempt, so that an older copy is better than the
// error.
func isTemporary(err error) bool { return statusOf(err) >= 500 }

// retryAfterS is how long a reader is told to wait, in seconds. Well-behaved readers do not come back sooner
// anyway.
const retryAfterS = "60"

// writeErrorHeaders writes the headers of an error, and returns its status and text. The request is not logged,
// because its path may contain a token.
func (s *Server) writeErrorHeaders(w http.ResponseWriter, err error) (status int, message string) {
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

// writeTextError answers with an error in one line of text.
func (s *Server) writeTextError(w http.ResponseWriter, err error) {
	status, message := s.writeErrorHeaders(w, err)
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = fmt.Fprintln(w, message) // an error means that the reader has disconnected
}

// maxLine bounds the length of error texts and headers in bytes, because both may contain texts of origins.
const maxLine = 400

// oneLine makes a text a single line of at most maxLine bytes.
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
