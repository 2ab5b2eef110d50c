package daemon

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"tidings/corona/coronapb"
	"tidings/internal/env"
)

// A partial document adds and changes items of a private feed. Nothing follows from what it lacks.
func TestPrivateFeedsMergePartialDocuments(t *testing.T) {
	b := newPrivateBench(t, t.TempDir())
	part := func(items ...string) env.Answer {
		a := rss(items...)
		a.Status = http.StatusIMUsed
		a.Body = []byte(strings.Replace(string(a.Body), "<title>News</title><link>https://example.org/</link><description/><ttl>90</ttl>", "<title/><link/><description/>", 1))
		return a
	}
	last := func() env.Request { return b.requests[len(b.requests)-1] }
	b.answers[privateURL] = rss("2", "two", "1", "one")
	f := b.mustSubscribe(privateURL)
	if first := last(); first.Partial {
		t.Errorf("the first request is %+v", first)
	}
	for _, step := range []struct {
		answer env.Answer
		titles string
		asked  string // the ETag of the next request
		kind   coronapb.State_Kind
	}{
		{part("3", "three", "1", "ONE"), "three two ONE", `"3three1ONE"`, coronapb.State_OK},
		{part("9", "nine"), "nine three two ONE", `"9nine"`, coronapb.State_OK}, // no item is known
		{part(), "nine three two ONE", `""`, coronapb.State_OK},
		{env.Answer{Status: 226, Body: []byte("<html/>"), ETag: `"x"`}, "nine three two ONE", `""`, coronapb.State_NOT_A_FEED},
		{env.Answer{Status: 226, ETag: `"x"`}, "nine three two ONE", `""`, coronapb.State_NOT_A_FEED},
		{rss("10", "ten", "9", "nine"), "ten nine three two ONE", `"10ten9nine"`, coronapb.State_OK},
	} {
		b.answers[privateURL] = step.answer
		b.poll(f)
		if got := b.titles(f); got != step.titles || f.State.Kind != step.kind {
			t.Errorf("after %s: %s, %v", step.answer.Body, got, f.State)
		}
		if c := f.contents; c.head.Title != "News" || f.Hints.TTL != 90*time.Minute {
			t.Errorf("after %s: %q, %v", step.answer.Body, c.head.Title, f.Hints.TTL)
		}
		failing := f.Fails > 0
		b.answers[privateURL] = env.Answer{Status: http.StatusNotModified}
		if !failing {
			b.poll(f)
			if r := last(); r.ETag != step.asked || !r.Partial {
				t.Errorf("the request is %+v", r)
			}
			continue
		}
		b.answers[privateURL] = env.Answer{Status: http.StatusNotFound}
		b.poll(f)
		if r := last(); r.Partial {
			t.Error("it asks for a part again although it could not read the last one")
		}
	}
	// Parts alone do not fill the memory.
	for i := range 2*keepPrivateItems + 100 {
		b.answers[privateURL] = part(fmt.Sprint("n", i), "next")
		for at := range f.contents.entries {
			f.contents.entries[at].Arrived = f.contents.entries[at].Arrived.Add(-time.Hour)
		}
		b.poll(f)
	}
	if n := len(f.contents.entries); n < keepPrivateItems || n > 2*keepPrivateItems+1 {
		t.Errorf("%d items are kept", n)
	}
}
