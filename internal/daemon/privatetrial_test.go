package daemon

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tidings/corona"
	"tidings/corona/coronapb"
	"tidings/internal/env"
	"tidings/proxy"
)

const triedURL = "https://example.org/f"

// Whether a new password is right is decided by an answer to a request with it, and by nothing else.
func TestANewPasswordIsJudgedByItsOwnAnswer(t *testing.T) {
	locked, busy, held := env.Answer{Status: 401}, env.Answer{Err: env.ErrBusy, Message: "full"}, env.Answer{Err: env.ErrBusy, Message: "held", RetryAfter: 2 * time.Hour}
	for _, c := range []struct {
		name    string
		before  env.Answer // to the old password
		limited bool       // the domain has asked for fewer requests
		answers []env.Answer
		warning string
		err     string
	}{
		{"right", locked, false, []env.Answer{rss("1", "one")}, "", ""},
		{"wrong", rss("1", "one"), false, []env.Answer{locked}, "", "nothing is changed"},
		{"not asked, after a failure", locked, false, []env.Answer{busy, busy, busy, busy, busy, busy, busy, busy, busy, busy}, "no answer yet: waiting for other requests", ""},
		{"not asked, after a success", rss("1", "one"), false, []env.Answer{held}, "no answer yet: example.org asks for fewer requests", ""},
		{"asked a little later", rss("1", "one"), false, []env.Answer{busy, locked}, "", "nothing is changed"},
		{"the domain is limited", locked, true, nil, "no answer yet: example.org asks for fewer requests", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newPrivateBench(t, t.TempDir())
				b.answers[triedURL] = rss("1", "one")
				f := b.mustSubscribe("https://ann:old@example.org/f")
				b.answers[triedURL] = c.before
				b.poll(f)
				if c.limited {
					b.limit("example.org", time.Now().Add(time.Hour), time.Now())
				}
				asked, left := 0, c.answers
				b.fetch = func(h env.Handle, r env.Request) {
					asked++
					if len(left) == 0 {
						t.Fatal("it asks too often")
					}
					a := left[0]
					a.FinalURL, left = r.URL, left[1:]
					b.answered(h, a)
				}
				running, stop := context.WithCancel(t.Context())
				ended := make(chan struct{})
				go func() { defer close(ended); b.run(running, b.rules) }()
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
				done, err := b.SubscribePrivately(ctx, proxy.PrivateFeed{Address: "https://ann:new@example.org/f"})
				cancel()
				stop()
				<-ended
				if c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) || c.err == "" && (err != nil || !strings.HasPrefix(done.Warning, c.warning) || c.warning == "" && done.Warning != "") {
					t.Errorf("%+v %v", done, err)
				}
				if c.err != "" && (f.State.Kind != coronapb.State_OK || f.Fails > 0 || b.list()[0].Failing()) {
					t.Errorf("the state with the old password is %+v", f.State)
				}
				want := "Basic YW5uOm5ldw=="
				if c.err != "" {
					want = "Basic YW5uOm9sZA=="
				}
				stored := newPrivateBench(t, b.dir).byName[f.Name]
				if f.Headers["Authorization"] != want || stored.Headers["Authorization"] != want {
					t.Errorf("the headers are %v, and %v in its file", f.Headers, stored.Headers)
				}
				if c.warning != "" && (f.stateName() != proxy.StateNew || f.State.Next.Before(time.Now())) {
					t.Errorf("its state is %s, the next poll at %v", f.stateName(), f.State.Next)
				}
			})
		})
	}
}

// A poll with the old password, whose answer is read while the new one is given, says nothing about the new one.
func TestAnAnswerToTheOldPassword(t *testing.T) {
	b := newPrivateBench(t, t.TempDir())
	b.answers[triedURL] = rss("1", "one")
	f := b.mustSubscribe("https://ann:old@example.org/f")
	b.fetch = func(env.Handle, env.Request) {}
	b.poll(f)
	old := f.poll
	try, err := b.open("https://ann:new@example.org/f", map[string]string{}, false)
	if err != nil {
		t.Fatal(err)
	}
	b.pollDue(time.Now())
	asked := f.poll
	a := rss("1", "one", "2", "two")
	doc, err := corona.ReadFeed(triedURL, a)
	if err != nil {
		t.Fatal(err)
	}
	if b.conclude(old, a, doc, corona.Classify(a, doc, nil), time.Now()) || f.poll != asked || len(f.contents.entries) != 1 {
		t.Errorf("the answer is taken: %+v", f)
	}
	select {
	case <-try.answered:
		t.Error("the answer is told to the one who gave the new password")
	default:
	}
	if _, err := b.open("https://ann:third@example.org/f", map[string]string{}, false); err == nil || !strings.Contains(err.Error(), "another request") {
		t.Errorf("a third password at the same time: %v", err)
	}
}

// A list may be old, so a feed that exists keeps its password.
func TestAnImportedListKeepsThePassword(t *testing.T) {
	b := newPrivateBench(t, t.TempDir())
	b.answers[triedURL] = rss("1", "one")
	f := b.mustSubscribe("https://ann:good@example.org/f")
	headers := maps.Clone(f.Headers)
	done, err := b.subscribe(proxy.PrivateFeed{Address: "https://ann:old@example.org/f", Later: true, Description: proxy.Description{Tags: []string{"list"}}})
	if err != nil || !done.Already || !maps.Equal(f.Headers, headers) || len(f.Tags) != 1 {
		t.Errorf("%+v %v, and the headers are %v", done, err, f.Headers)
	}
}

// A new password leaves the other headers, and an empty header removes the one before.
func TestHeadersAreChangedOneByOne(t *testing.T) {
	b := newPrivateBench(t, t.TempDir())
	b.answers[triedURL] = rss("1", "one")
	done, err := b.subscribe(proxy.PrivateFeed{Address: "https://ann:old@example.org/f", Headers: map[string]string{"Cookie": "a=b", "X-Empty": ""}})
	if err != nil {
		t.Fatal(err)
	}
	f := b.byName[done.URL]
	b.mustSubscribe("https://ann:new@example.org/f")
	if want := (map[string]string{"Cookie": "a=b", "Authorization": "Basic YW5uOm5ldw=="}); !maps.Equal(f.Headers, want) {
		t.Errorf("the headers are %v", f.Headers)
	}
	if _, err := b.subscribe(proxy.PrivateFeed{Address: f.Name, Headers: map[string]string{"Cookie": ""}}); err != nil || len(f.Headers) != 1 {
		t.Errorf("%v, and the headers are %v", err, f.Headers)
	}
	many := map[string]string{}
	for i := range maxPrivateHeaders { // with the password there is one too many, which its file could not have
		many[fmt.Sprint("X-", i)] = "1"
	}
	for _, address := range []string{f.Name, "https://bob:pass@example.org/other"} {
		if _, err := b.subscribe(proxy.PrivateFeed{Address: address, Headers: many}); err == nil || !strings.Contains(err.Error(), "at most 16 headers") || len(f.Headers) != 1 {
			t.Errorf("%v, and the headers are %v", err, f.Headers)
		}
	}
}
