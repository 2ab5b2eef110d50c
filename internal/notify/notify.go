// Package notify sends messages to the places where programs and people want them: to webhooks, to services such as ntfy,
// Matrix and Telegram, and by e-mail.
//
//	s := notify.New(notify.Config{Control: fetch.DialControl(false, nil)})
//	target, err := s.Open("https://hooks.example/ferry", secret)
//	err = target.Send(ctx, messages)
//
// All connections to hosts that a user names are made by one dialer, whose Control function decides which may be reached.
//
// The package leaves to others which messages there are, when they are sent, and when one is sent again (internal/daemon,
// internal/news). Its errors contain neither passwords nor the paths of addresses, which are often secret.
package notify

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"

	"tidings/internal/check"
)

const (
	// maxAddress bounds the address of a target in bytes. Real ones have less than 300.
	maxAddress = 2048
	// sendTime bounds one delivery. A receiver that works longer should answer first.
	sendTime = 20 * time.Second
	// maxAnswer bounds how much of an answer is read, so that its connection can be used again.
	maxAnswer = 64 << 10
)

// Config says how a sender reaches its targets.
type Config struct {
	// Control is the Control function of the dialer, which refuses hosts that must not be reached. It has no default.
	Control func(network, address string, conn syscall.RawConn) error
	// AllowPrivate says that Control lets private addresses through. Targets there may do without encryption. Default
	// false.
	AllowPrivate bool
	// Agent is the User-Agent. Default "tidings".
	Agent string
	// Page is the address at which the user manages targets. Default empty: there is none.
	Page string
}

// Validate returns an error that names the first wrong field.
func (c Config) Validate() error {
	return check.That(c.Control != nil, "notify: Control", "is nil; it must be a function")
}

// A Message is one piece of news.
type Message struct {
	ID     string // the same whenever the message is sent again
	Time   time.Time
	Source string // name of the feed, the page or the search
	Title  string
	Link   string
	Text   string // in one line or more
	HTML   string // safe to show; may be empty
	JSON   []byte // the message for programs
}

// A Target is a place to which messages are sent.
type Target struct {
	Kind  string // "webhook", "mail", or the name of a service
	Shown string // its address without secrets
	// Batch is the largest number of messages of one Send, at least 1.
	Batch int
	// Pause is the shortest time between two calls of Send that its operator is used to.
	Pause time.Duration
	// Send sends messages, the oldest first. The error is a *Failure.
	Send func(ctx context.Context, messages []Message) error
}

// A Failure says why messages were not taken.
type Failure struct {
	Text  string
	Final bool          // the target will never take these messages
	Gone  bool          // the target will never take any message
	Wait  time.Duration // the target asks to be left alone for so long; 0: it does not
}

func (f *Failure) Error() string { return f.Text }

// A Sender opens targets. It is safe for concurrent use.
type Sender struct {
	config Config
	client *http.Client // follows no redirects
	dial   func(ctx context.Context, network, address string) (net.Conn, error)
	roots  *x509.CertPool // for e-mail; nil: those of the system
}

// New returns a sender. It panics if the configuration is invalid, which is a bug of the program.
func New(c Config) *Sender {
	if err := c.Validate(); err != nil {
		panic(err)
	}
	if c.Agent == "" {
		c.Agent = "tidings"
	}
	dialer := &net.Dialer{Timeout: sendTime / 2, Control: func(network, address string, conn syscall.RawConn) error {
		if err := c.Control(network, address, conn); err != nil {
			return refused{err}
		}
		return nil
	}}
	client := &http.Client{
		Transport: &http.Transport{
			Proxy:             nil, // a proxy would dial without Control
			DialContext:       dialer.DialContext,
			ForceAttemptHTTP2: true,
			IdleConnTimeout:   time.Minute,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return &Sender{config: c, client: client, dial: dialer.DialContext}
}

// refused is the error of Control.
type refused struct{ error }

// Open returns the target at an address. secret signs what webhooks get.
func (s *Sender) Open(address, secret string) (*Target, error) {
	u, err := parseAddress(address)
	if err != nil {
		return nil, err
	}
	switch u.Scheme {
	case "https", "http":
		return s.webhook(u, secret)
	case "matrix":
		return s.matrix(u)
	case "smtp", "smtps":
		return s.mail(u)
	}
	if _, known := services[u.Scheme]; known {
		return s.service(u)
	}
	return nil, fmt.Errorf("the address of a target begins with https:// for a webhook, smtp:// or smtps:// for e-mail, or the name of a service (%s), not with %s", serviceNames(), printable(u.Scheme+":"))
}

// parseAddress parses the address of a target. Its errors do not repeat the address.
func parseAddress(address string) (*url.URL, error) {
	if len(address) > maxAddress {
		return nil, fmt.Errorf("the address of the target has %d bytes, and at most %d are allowed", len(address), maxAddress)
	}
	address = strings.TrimSpace(address)
	u, err := url.Parse(address)
	switch {
	case strings.ContainsFunc(address, unicode.IsSpace):
		return nil, errors.New("the address of the target has a space in it: leave it out, or write %20 for one that belongs to it")
	case err != nil:
		why := err
		if inner, ok := errors.AsType[*url.Error](err); ok {
			why = inner.Err
		}
		if _, ok := errors.AsType[url.EscapeError](why); !ok {
			why = errors.New("it has a character that may not be there, or its port is not a number")
		}
		return nil, fmt.Errorf("the address of the target is not valid: %w", why)
	case u.Scheme == "":
		return nil, errors.New("the address of the target has no scheme: it begins with https:// for a webhook, or with one such as ntfy:// for a service")
	case !validPort(u.Port()):
		return nil, errors.New("the port of the target is not a number from 1 to 65535")
	case u.Fragment != "":
		return nil, errors.New("the address of the target has a part behind #, which no receiver sees: leave it out, or write %23 for a # that belongs to it")
	}
	return u, nil
}

// validPort says whether a port of an address can be one; "" is the usual one.
func validPort(port string) bool {
	n, err := strconv.Atoi(port)
	return port == "" || err == nil && n >= 1 && n <= 65535
}

// hostOf returns the host of an address with its port.
func hostOf(u *url.URL) string { return printable(u.Host) }

// printable makes a part of an address safe to print.
func printable(s string) string {
	q := strconv.Quote(s)
	return q[1 : len(q)-1]
}

// failureOf returns why a connection or a request failed, without the address.
func failureOf(err error) *Failure {
	if no, ok := errors.AsType[refused](err); ok {
		return &Failure{Text: no.Error() + ", and this node sends nothing there; if the receiver is yours, run the node with --allow-private-origins"}
	}
	if inner, ok := errors.AsType[*url.Error](err); ok { // its text has the whole address
		err = inner.Err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return &Failure{Text: fmt.Sprintf("no answer within %v", sendTime)}
	}
	return &Failure{Text: err.Error()}
}

// retryAfter returns for how long an answer asks to be left alone.
func retryAfter(h http.Header, now time.Time) time.Duration {
	text := strings.TrimSpace(h.Get("Retry-After"))
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}
