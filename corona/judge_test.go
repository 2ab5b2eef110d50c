package corona

import (
	"strings"
	"testing"
	"time"

	"tidings/corona/coronapb"
	"tidings/internal/env"
	"tidings/internal/feed"
)

// Whatever an origin does gives a clear state: what it is, in words for a person.
func TestEveryAnswerHasItsStateAndWords(t *testing.T) {
	whole := rss("A feed", "", "one", "two")
	for _, c := range []struct {
		what  string
		a     env.Answer
		kind  coronapb.State_Kind
		words string // a part of them; "-": none
	}{
		{"unreachable", env.Answer{Err: env.ErrDial, Words: "connection refused"}, coronapb.State_UNREACHABLE, "connection refused"},
		{"no name", env.Answer{Err: env.ErrDNS, Words: "no such host"}, coronapb.State_UNREACHABLE, "no such host"},
		{"no words", env.Answer{Err: env.ErrDNS}, coronapb.State_UNREACHABLE, "dns"},
		{"bad certificate", env.Answer{Err: env.ErrTLS, Words: "the certificate expired on 3 May 2026"}, coronapb.State_UNREACHABLE, "expired"},
		{"too slow", env.Answer{Err: env.ErrTimeout, Words: "no answer in 20 s"}, coronapb.State_UNREACHABLE, "20 s"},
		{"redirect loop", env.Answer{Err: env.ErrRedirect, Words: "redirected in a circle"}, coronapb.State_UNREACHABLE, "circle"},
		{"packed badly", env.Answer{Err: env.ErrEncoding, Words: "gzip: broken"}, coronapb.State_UNREACHABLE, "gzip"},
		{"broken off", env.Answer{Err: env.ErrBroken, Words: "the answer broke off"}, coronapb.State_UNREACHABLE, "broke off"},
		{"too many at once", env.Answer{Err: env.ErrBusy, Words: "too many requests wait"}, coronapb.State_UNREACHABLE, "wait"},
		{"100 MB", env.Answer{Err: env.ErrTooLarge, Words: "more than 10 MiB"}, coronapb.State_TOO_LARGE, "10 MiB"},
		{"gzip bomb", env.Answer{Err: env.ErrTooLarge, Words: "unpacks to more than 10 MiB"}, coronapb.State_TOO_LARGE, "unpacks"},
		{"redirect to 127.0.0.1", env.Answer{Err: env.ErrRefused, Words: "127.0.0.1 is not a public address"}, coronapb.State_REFUSED, "127.0.0.1"},
		{"credentials in the URL", env.Answer{Err: env.ErrURL, Words: "credentials in the address"}, coronapb.State_REFUSED, "credentials"},
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
		{"403 of a limiter", env.Answer{Status: 403, RetryAfter: time.Minute}, coronapb.State_LIMITED, "left alone"},
		{"404", env.Answer{Status: 404}, coronapb.State_MISSING, "no such feed"},
		{"410", env.Answer{Status: 410}, coronapb.State_GONE, "gone"},
		{"429", env.Answer{Status: 429}, coronapb.State_LIMITED, "left alone"},
		{"500", env.Answer{Status: 500}, coronapb.State_FAILING, "500"},
		{"503", env.Answer{Status: 503}, coronapb.State_LIMITED, "left alone"},
		{"a status of its own", env.Answer{Status: 299}, coronapb.State_FAILING, "299"},
	} {
		var f *feed.Feed
		var err error
		if c.a.Status == 200 && len(c.a.Body) > 0 {
			f, err = feed.Parse(c.a.Body, c.a.ContentType)
		}
		s := judge(c.a, f, err)
		if s.Kind != c.kind || c.words == "-" && s.Words != "" || c.words != "-" && !strings.Contains(s.Words, c.words) {
			t.Errorf("%s: %v, %q; want %v with %q", c.what, s.Kind, s.Words, c.kind, c.words)
		}
	}
}

// What had to be done to a document before it could be read is no failure, but is
// said.
func TestARepairedDocumentIsAGoodOneWithWords(t *testing.T) {
	for what, doc := range map[string]string{
		"the wrong charset":     strings.Replace(rss("Caf\xe9", "", "one"), `version="1.0"?`, `version="1.0" encoding="utf-8"?`, 1),
		"a million empty items": "<rss version='2.0'><channel><title>Empty</title>" + strings.Repeat("<item></item>", 1e5) + "<item><title>x</title></item></channel></rss>",
	} {
		f, err := feed.Parse([]byte(doc), "application/rss+xml")
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if s := judge(env.Answer{Status: 200, Body: []byte(doc)}, f, nil); s.Kind != coronapb.State_OK || s.Words == "" {
			t.Errorf("%s: %v, %q", what, s.Kind, s.Words)
		}
	}
}

// Of all is well, the last and the next poll follow from the interval; of anything
// else nothing does.
func TestAStateIsProjectedOnlyWhileAllIsWell(t *testing.T) {
	at := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	ok := State{Kind: coronapb.State_OK, Polled: at, Next: at.Add(30 * time.Minute)}
	now := at.Add(100 * time.Minute)
	if s := ok.Projected(now); !s.Polled.Equal(at.Add(90*time.Minute)) || !s.Next.Equal(at.Add(120*time.Minute)) {
		t.Errorf("polled %v, next %v", s.Polled, s.Next)
	}
	for _, s := range []State{
		{Kind: coronapb.State_FAILING, Polled: at, Next: at.Add(time.Minute)},
		{Kind: coronapb.State_OK, Next: at.Add(time.Minute)},
		{Kind: coronapb.State_OK, Polled: at, Next: at},
		{Kind: coronapb.State_OK, Polled: at, Next: now.Add(time.Second)},
	} {
		if s.Projected(now) != s {
			t.Errorf("%+v is projected to %+v", s, s.Projected(now))
		}
	}
}
