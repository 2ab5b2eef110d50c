package websub

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"hash"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	// MaxNotification bounds a notification, in bytes. A hub sends the new items, or the whole document.
	MaxNotification = 4 << 20
	// MaxQuery bounds the question of a hub, in bytes: its topic, encoded, and a challenge.
	MaxQuery = 10 << 10
	// maxReason bounds the words of a hub that refuses, in bytes.
	maxReason = 200
)

// The lease is what a hub says, within these bounds. A hub that says none gets the one that was wanted.
const (
	wantedLease = 10 * 24 * time.Hour
	minLease    = 2 * time.Minute
	maxLease    = 30 * 24 * time.Hour
)

// deniedRetry is the time after which a hub that has refused is asked again.
const deniedRetry = 24 * time.Hour

// A Response is what a hub is answered.
type Response struct {
	Status int
	Body   string
}

// Confirm answers the question of a hub whether a request is meant, at the callback address that ends in path. The hub gets
// its challenge back if the request is pending, and 404 otherwise. A hub may also say that it refuses.
func (s *Subscriber) Confirm(path string, query url.Values) Response {
	sub, now := s.byPath[path], s.clock.Now()
	mode, challenge := query.Get("hub.mode"), query.Get("hub.challenge")
	if sub == nil || query.Get("hub.topic") != sub.topic.URL {
		s.stats.Unasked++
		return Response{Status: 404}
	}
	switch {
	case mode == "denied" && sub.pending != modeUnsubscribe:
		sub.denied = strings.ToValidUTF8(query.Get("hub.reason"), "\uFFFD")
		if sub.denied = strings.ToValidUTF8(sub.denied[:min(len(sub.denied), maxReason)], ""); sub.denied == "" {
			sub.denied = "without a reason"
		}
		sub.pending, sub.lease, sub.tries, sub.next = "", time.Time{}, 0, now.Add(s.jitter(deniedRetry))
		s.stats.Denied++
	case challenge == "" || mode != sub.pending || mode == "":
		s.stats.Unasked++
		return Response{Status: 404}
	case mode == modeUnsubscribe:
		s.forget(sub)
		return Response{200, challenge}
	default:
		lease := leaseOf(query.Get("hub.lease_seconds"))
		sub.pending, sub.denied, sub.fault, sub.tries = "", "", "", 0
		sub.lease, sub.next = now.Add(lease), now.Add(lease*3/4+time.Duration(s.Rand.Int64N(int64(lease/10)))) // four fifths, give or take
		s.stats.Confirmed++
	}
	s.plan(sub, now)
	s.save(sub, func(error) {}) // after a crash the hub is asked again
	s.events.Changed(sub.channel)
	return Response{200, challenge}
}

// leaseOf reads the length of a lease.
func leaseOf(seconds string) time.Duration {
	n, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil || n <= 0 {
		return wantedLease
	}
	return min(max(time.Duration(min(n, int64(maxLease/time.Second)))*time.Second, minLease), maxLease)
}

// A Notification is what somebody has sent to a callback address.
type Notification struct {
	Channel     string
	ContentType string
	Body        []byte
	signature   string
	secret      string
}

// Notify takes a notification. A callback address that does not exist any more answers 410, so that the hub gives up.
// Whether a notification is the hub's is not told to its sender.
func (s *Subscriber) Notify(path, signature, contentType string, body []byte) Response {
	sub := s.byPath[path]
	switch {
	case sub == nil || sub.pending == modeUnsubscribe:
		s.stats.Unasked++
		return Response{Status: 410}
	case len(body) > MaxNotification:
		return Response{Status: 413}
	}
	s.stats.Notified++
	s.events.Notified(Notification{Channel: sub.channel, ContentType: contentType, Body: body, signature: signature, secret: sub.secret})
	return Response{Status: 202}
}

// methods are the hash functions that prove a secret. SHA-1 is none any more.
var methods = map[string]func() hash.Hash{"sha256": sha256.New, "sha384": sha512.New384, "sha512": sha512.New}

// Proven reports whether a notification has a signature that only somebody with the subscription's secret can make. It
// reads the whole body.
func (n *Notification) Proven() bool {
	method, digits, _ := strings.Cut(n.signature, "=")
	newHash := methods[strings.ToLower(strings.TrimSpace(method))]
	if newHash == nil || len(digits) > 2*sha512.Size {
		return false
	}
	got, err := hex.DecodeString(digits)
	if err != nil {
		return false
	}
	mac := hmac.New(newHash, []byte(n.secret))
	mac.Write(n.Body)
	return hmac.Equal(got, mac.Sum(nil))
}
