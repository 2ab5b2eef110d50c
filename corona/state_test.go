package corona

import (
	"strings"
	"testing"
	"time"

	"tidings/corona/coronapb"
	"tidings/internal/env"
	"tidings/internal/feed"
)

// Every response gives a clear state, with a detail that people can read.
func TestEveryResponseHasAStateAndADetail(t *testing.T) {
	whole := rss("A feed", "", "one", "two")
	for _, c := range []struct {
		what  string
		a     env.Answer
		kind  coronapb.State_Kind
		words string // a part of them; "-": none
	}{
		{"unreachable", env.Answer{Err: env.ErrDial, Message: "connection refused"}, coronapb.State_UNREACHABLE, "connection refused"},
		{"no name", env.Answer{Err: env.ErrDNS, Message: "no such host"}, coronapb.State_UNREACHABLE, "no such host"},
		{"no words", env.Answer{Err: env.ErrDNS}, coronapb.State_UNREACHABLE, "dns"},
		{"bad certificate", env.Answer{Err: env.ErrTLS, Message: "the certificate expired on 3 May 2026"}, coronapb.State_UNREACHABLE, "expired"},
		{"too slow", env.Answer{Err: env.ErrTimeout, Message: "no answer in 20 s"}, coronapb.State_UNREACHABLE, "20 s"},
		{"redirect loop", env.Answer{Err: env.ErrRedirect, Message: "redirected in a circle"}, coronapb.State_UNREACHABLE, "circle"},
		{"packed badly", env.Answer{Err: env.ErrEncoding, Message: "gzip: broken"}, coronapb.State_UNREACHABLE, "gzip"},
		{"broken off", env.Answer{Err: env.ErrBroken, Message: "the answer broke off"}, coronapb.State_UNREACHABLE, "broke off"},
		{"too many at once", env.Answer{Err: env.ErrBusy, Message: "too many requests wait"}, coronapb.State_LIMITED, "wait"},
		{"100 MB", env.Answer{Err: env.ErrTooLarge, Message: "more than 10 MiB"}, coronapb.State_TOO_LARGE, "10 MiB"},
		{"gzip bomb", env.Answer{Err: env.ErrTooLarge, Message: "unpacks to more than 10 MiB"}, coronapb.State_TOO_LARGE, "unpacks"},
		{"redirect to 127.0.0.1", env.Answer{Err: env.ErrRefused, Message: "127.0.0.1 is not a public address"}, coronapb.State_REFUSED, "127.0.0.1"},
		{"credentials in the URL", env.Answer{Err: env.ErrURL, Message: "credentials in the address"}, coronapb.State_REFUSED, "credentials"},
		{"304", env.Answer{Status: 304}, coronapb.State_OK, "-"},
		{"200", env.Answer{Status: 200, Body: []byte(whole)}, coronapb.State_OK, "-"},
		{"200, nothing in it", env.Answer{Status: 200}, coronapb.State_NOT_A_FEED, "empty"},
		{"200, white space", env.Answer{Status: 200, Body: []byte(" \n")}, coronapb.State_NOT_A_FEED, "empty"},
		{"200, a page", env.Answer{Status: 200, ContentType: "text/html", Body: []byte("<!DOCTYPE html><html><body>Please log in</body></html>")}, coronapb.State_NOT_A_FEED, "not a feed"},
		{"200, JSON of another kind", env.Answer{Status: 200, Body: []byte(`{"error":"no such page"}`)}, coronapb.State_NOT_A_FEED, "not a feed"},
		{"truncated XML", env.Answer{Status: 200, Body: []byte(whole[:len(whole)-40])}, coronapb.State_BROKEN, "ends too early"},
		{"truncated JSON", env.Answer{Status: 200, Body: []byte(`{"version":"https://jsonfeed.org/version/1.1","items":[{"id":"1"`)}, coronapb.State_BROKEN, "ends too early"},
		{"a million nested tags", env.Answer{Status: 200, Body: []byte("<rss><channel>" + strings.Repeat("<a>", 1e6))}, coronapb.State_TOO_LARGE, "limits"},
		{"400", env.Answer{Status: 400}, coronapb.State_FAILING, "400"},
		{"401", env.Answer{Status: 401}, coronapb.State_MISSING, "401"},
		{"403", env.Answer{Status: 403}, coronapb.State_MISSING, "403"},
		{"403 of a limiter", env.Answer{Status: 403, RetryAfter: time.Minute}, coronapb.State_LIMITED, "fewer requests"},
		{"404", env.Answer{Status: 404}, coronapb.State_MISSING, "does not exist"},
		{"410", env.Answer{Status: 410}, coronapb.State_GONE, "gone"},
		{"429", env.Answer{Status: 429}, coronapb.State_LIMITED, "fewer requests"},
		{"500", env.Answer{Status: 500}, coronapb.State_FAILING, "500"},
		{"503", env.Answer{Status: 503}, coronapb.State_LIMITED, "fewer requests"},
		{"a status of its own", env.Answer{Status: 299}, coronapb.State_FAILING, "299"},
	} {
		var f *feed.Feed
		var err error
		if c.a.Status == 200 && len(c.a.Body) > 0 {
			f, err = feed.Parse(c.a.Body, c.a.ContentType)
		}
		s := Classify(c.a, f, err)
		if s.Kind != c.kind || c.words == "-" && s.Detail != "" || c.words != "-" && !strings.Contains(s.Detail, c.words) {
			t.Errorf("%s: %v, %q; want %v with %q", c.what, s.Kind, s.Detail, c.kind, c.words)
		}
	}
}

// A document that is incomplete for readers is a success with a detail. A document that was
// repaired without loss has no detail.
func TestAnIncompleteDocumentIsASuccessWithADetail(t *testing.T) {
	for _, c := range []struct{ what, doc, words string }{
		{"the wrong charset", strings.Replace(rss("Caf\xe9", "", "one"), `version="1.0"?`, `version="1.0" encoding="utf-8"?`, 1), ""},
		{"a million empty items", "<rss version='2.0'><channel><title>Empty</title>" + strings.Repeat("<item></item>", 1e5) + "<item><title>x</title></item></channel></rss>", ""},
		{"no items", rss("Alerts", ""), "no items at present"},
		{"a long text", rss("A", "", "one", strings.Repeat("x", feed.MaxItem)), "1 item larger than 1 MiB lost its largest parts"},
		{"too many items", "<rss version='2.0'><channel><title>Many</title>" + strings.Repeat("<item><title>x</title></item>", feed.MaxItems+3) + "</channel></rss>", "3 items beyond the first 2000 left out"},
	} {
		f, err := feed.Parse([]byte(c.doc), "application/rss+xml")
		if err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		if s := Classify(env.Answer{Status: 200, Body: []byte(c.doc)}, f, nil); s.Kind != coronapb.State_OK || s.Detail != c.words {
			t.Errorf("%s: %v, %q; want %q", c.what, s.Kind, s.Detail, c.words)
		}
	}
}

// As long as all is well and the poller is known to live, the last and the next poll follow from
// the interval. Nothing else is projected.
func TestStatesAreProjectedOnlyWhileThePollerIsKnownToLive(t *testing.T) {
	at := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	now := at.Add(100 * time.Minute)
	half := 30 * time.Minute
	ok := State{Kind: coronapb.State_OK, Polled: at, Next: at.Add(half), Why: "a rule"}
	for _, c := range []struct {
		what         string
		sure         time.Duration // before now
		polled, next time.Duration // after at
		why          string
	}{
		{"its poller lives", 0, 3 * half, 4 * half, "a rule"},
		{"by a clock that is ahead", -time.Hour, 3 * half, 4 * half, "a rule"},
		{"it lived lately", 15 * time.Minute, 2 * half, 4 * half, "a rule"},
		{"it lived an hour ago", time.Hour, half, 4 * half, "as planned: nothing heard from its poller for 60 min"},
		{"nothing was heard since", 24 * time.Hour, 0, 4 * half, "as planned: nothing heard from its poller for 1440 min"},
	} {
		s := ok.Projected(now, now.Add(-c.sure))
		if s.Kind != ok.Kind || !s.Polled.Equal(at.Add(c.polled)) || !s.Next.Equal(at.Add(c.next)) || s.Why != c.why {
			t.Errorf("%s: polled %v, next %v, %q", c.what, s.Polled, s.Next, s.Why)
		}
	}
	for _, s := range []State{
		{Kind: coronapb.State_FAILING, Polled: at, Next: now.Add(-time.Minute)},
		{Kind: coronapb.State_FAILING, Polled: at, Next: now.Add(time.Minute)},
		{Kind: coronapb.State_OK, Next: at.Add(time.Minute)},
		{Kind: coronapb.State_OK, Polled: at, Next: at},
		{Kind: coronapb.State_OK, Polled: at, Next: now.Add(time.Second)},
	} {
		if p := s.Projected(now, now); p != s {
			t.Errorf("%+v is projected to %+v", s, p)
		}
	}
	failing := State{Kind: coronapb.State_FAILING, Detail: "500", Since: at, Polled: at, Next: at.Add(half), Why: "a rule"}
	if s := failing.Projected(now, now); !s.Polled.IsZero() || !s.Next.IsZero() || s.Why == "a rule" || s.Detail != "500" || !s.Since.Equal(at) {
		t.Errorf("of a poll that failed over an hour ago, the state is %+v", s)
	}
}
