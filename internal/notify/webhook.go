package notify

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Webhooks are those of https://www.standardwebhooks.com: each message has an id, by which a receiver knows one that comes
// again, and a signature over the id, the time and the body.

// Webhook is the kind of a webhook.
const Webhook = "webhook"

const (
	// secretPrefix begins the secrets of webhooks.
	secretPrefix = "whsec_"
	// secretBytes is the size of a new secret, within the 24 to 64 bytes of the standard.
	secretBytes = 32
)

// NewSecret returns a secret for a webhook.
func NewSecret() string {
	var b [secretBytes]byte
	_, _ = rand.Read(b[:]) // it never fails
	return secretPrefix + base64.StdEncoding.EncodeToString(b[:])
}

// webhook returns the webhook at an address.
func (s *Sender) webhook(u *url.URL, secret string) (*Target, error) {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, secretPrefix))
	switch {
	case u.Hostname() == "":
		return nil, errors.New("the address of the webhook has no host: give one such as https://hooks.example/ferry")
	case u.Scheme == "http" && !s.config.AllowPrivate:
		return nil, errors.New("a webhook needs https, because anybody on the way could read what you follow; a node with --allow-private-origins accepts http for your own network")
	case err != nil || len(key) == 0:
		return nil, errors.New("the secret of the webhook is not valid: remove the target and add it again")
	}
	send := func(ctx context.Context, messages []Message) error {
		for i := range messages {
			if err := s.post(ctx, u, key, &messages[i]); err != nil {
				return err
			}
		}
		return nil
	}
	return &Target{Kind: Webhook, Shown: u.Scheme + "://" + hostOf(u) + "/…", Batch: 1, Send: send}, nil
}

// post sends one message to a webhook.
func (s *Sender) post(ctx context.Context, to *url.URL, key []byte, m *Message) error {
	r := newRequest(http.MethodPost, to, m.JSON)
	now := strconv.FormatInt(time.Now().Unix(), 10)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Webhook-Id", m.ID)
	r.Header.Set("Webhook-Timestamp", now)
	r.Header.Set("Webhook-Signature", sign(key, m.ID, now, m.JSON))
	return s.exchange(ctx, r)
}

// sign returns the signature of a message.
func sign(key []byte, id, seconds string, body []byte) string {
	h := hmac.New(sha256.New, key)
	_, _ = fmt.Fprintf(h, "%s.%s.%s", id, seconds, body)
	return "v1," + base64.StdEncoding.EncodeToString(h.Sum(nil))
}

// newRequest returns a request whose address is known to be valid.
func newRequest(method string, to *url.URL, body []byte) *http.Request {
	r := &http.Request{Method: method, URL: to, Host: to.Host, Header: http.Header{}, ContentLength: int64(len(body))}
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	if user := to.User; user != nil {
		password, _ := user.Password()
		r.SetBasicAuth(user.Username(), password)
	}
	return r
}

// exchange sends a request. The error is nil if the answer says that it was taken.
func (s *Sender) exchange(ctx context.Context, r *http.Request) error {
	ctx, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	r.Header.Set("User-Agent", s.config.Agent)
	answer, err := s.client.Do(r.WithContext(ctx))
	if err != nil {
		return failureOf(err)
	}
	defer func() { _ = answer.Body.Close() }()
	_, _ = io.CopyN(io.Discard, answer.Body, maxAnswer) // the status counts
	if answer.StatusCode/100 == 2 {
		return nil
	}
	return statusFailure(answer, time.Now())
}

// statusFailure returns what a status means for the message. Only those that speak of the message itself are final: a
// receiver that does not know the password, or the path, may be set up in a minute.
func statusFailure(answer *http.Response, now time.Time) *Failure {
	f := &Failure{Text: fmt.Sprintf("the receiver answers %d %s", answer.StatusCode, http.StatusText(answer.StatusCode)), Wait: retryAfter(answer.Header, now)}
	switch answer.StatusCode {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity:
		f.Final = true
	case http.StatusGone:
		f.Final, f.Gone = true, true
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		f.Text += ": redirects are not followed, so add the target with the address to which it redirects"
		if to, err := answer.Location(); err == nil {
			f.Text += ", at " + hostOf(to)
		}
	}
	return f
}
