package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"tidings/difference"
	"tidings/internal/feed"
)

// memoryPublishing is a node with one published feed.
type memoryPublishing struct {
	token   string
	pushed  [][]byte
	written []feed.Meaning
	least   string
	trusted bool
}

func (d *memoryPublishing) Push(_ context.Context, envelope []byte) (PublishResult, error) {
	switch string(envelope) {
	case "forged":
		return PublishResult{}, fmt.Errorf("%w: another key", ErrRejected)
	case "early":
		return PublishResult{}, fmt.Errorf("%w: nobody has taken it", ErrPending)
	case "garbage":
		return PublishResult{}, fmt.Errorf("%w: no envelope", ErrInvalidItem)
	}
	d.pushed = append(d.pushed, envelope)
	return PublishResult{URL: rssURL, Seq: uint64(len(d.pushed))}, nil
}

func (d *memoryPublishing) Publisher(_ context.Context, url string) (Publisher, error) {
	return Publisher{URL: url, Key: []byte("key"), Seq: 3, Items: []string{}}, nil
}

func (d *memoryPublishing) Write(_ context.Context, url string, said feed.Meaning) (PublishResult, error) {
	switch said.Title {
	case "Large":
		return PublishResult{}, fmt.Errorf("%w: 60000 bytes", ErrTooLarge)
	case "Empty":
		return PublishResult{}, fmt.Errorf("%w: it says nothing", ErrInvalidItem)
	case "Early":
		return PublishResult{URL: url, Seq: 5, Pending: "nobody has it yet"}, nil
	}
	d.written = append(d.written, said)
	return PublishResult{URL: url, Seq: 4}, nil
}

func (d *memoryPublishing) Token() string { return d.token }

func (d *memoryPublishing) Require(_ context.Context, _, least string) error {
	d.least = least
	return nil
}

func (d *memoryPublishing) Trust(_ context.Context, url string) error {
	if d.trusted {
		return fmt.Errorf("trust %s: %w", url, ErrNoSubscription)
	}
	d.trusted = true
	return nil
}

// publish sends a request to publish, with a token or without.
func (b *testServer) publish(text, token string, v any) int {
	b.Helper()
	headers := []string{"Tidings", "1", "Content-Type", "application/json"}
	if token != "" {
		headers = append(headers, "Authorization", token)
	}
	r := b.send(request("POST", apiPath+"publish", strings.NewReader(text), headers...))
	answer := body(b, r)
	if err := json.Unmarshal([]byte(answer), v); err != nil {
		b.Fatal(err)
	}
	checkAPI(b.T, "POST", "publish", text, r.StatusCode, answer)
	return r.StatusCode
}

func TestProgramsPublishWithTheToken(t *testing.T) {
	d := &memoryPublishing{token: "the token"}
	b := newTestServer(t, func(c *Config) { c.Publishing = d })
	draft := `{"url":"` + rssURL + `","id":"1","title":"T","content":"<p>C</p>"}`
	var got PublishResult
	if status := b.publish(draft, "Bearer the token", &got); status != http.StatusOK || got.Seq != 4 || got.URL != rssURL {
		t.Errorf("%d %+v", status, got)
	}
	if len(d.written) != 1 || d.written[0].GUID != "1" || d.written[0].Title != "T" || d.written[0].Content != "<p>C</p>" {
		t.Errorf("%+v", d.written)
	}
	for _, token := range []string{"", "the token", "Bearer ", "Bearer another"} {
		var fault ErrorResponse
		if status := b.publish(draft, token, &fault); status != http.StatusUnauthorized || fault.Error == "" {
			t.Errorf("with %q: %d %+v", token, status, fault)
		}
	}
	d.token = ""
	var fault ErrorResponse
	if status := b.publish(draft, "Bearer ", &fault); status != http.StatusForbidden || !strings.Contains(fault.Error, "--publish-key") {
		t.Errorf("a node without a key: %d %+v", status, fault)
	}
	if len(d.written) != 1 {
		t.Errorf("%d items were written", len(d.written))
	}
}

// A misspelt field is an error, because the item would be published without it.
func TestDraftsThatAreRefused(t *testing.T) {
	d := &memoryPublishing{token: "the token"}
	b := newTestServer(t, func(c *Config) { c.Publishing = d })
	for _, c := range []struct {
		draft, says string
		status      int
	}{
		{`{"url":"` + rssURL + `","id":"1","titel":"T"}`, `unknown field "titel"`, http.StatusBadRequest},
		{`{"url":"` + rssURL + `","id":7,"title":"T"}`, `"id" cannot be: number`, http.StatusBadRequest},
		{`["` + rssURL + `"]`, "one JSON object, not: array", http.StatusBadRequest},
		{`{"url":"` + rssURL + `"} {}`, "not several", http.StatusBadRequest},
		{`{"url":"` + rssURL + `","id":"1","title":"caf` + "\xe9" + `"}`, "UTF-8", http.StatusBadRequest},
		{`{"url":"` + rssURL + `","id":"1","title":"T","published":"yesterday"}`, `"published" is "yesterday"`, http.StatusBadRequest},
		{`{"url":"` + rssURL + `","id":"1","title":"T","published":"24 Nov 2026"}`, "2026-11-24T20:00:00Z", http.StatusBadRequest},
		{`{"url":"page+` + rssURL + `","id":"1","title":"T"}`, "is a page", http.StatusBadRequest},
		{`{"url":"` + rssURL + `","id":"1","title":"Empty"}`, "says nothing", http.StatusBadRequest},
		{`{"url":"` + rssURL + `","id":"1","title":"Large"}`, "60000 bytes", http.StatusRequestEntityTooLarge},
	} {
		var fault ErrorResponse
		status := b.publish(c.draft, "Bearer the token", &fault)
		if status != c.status || !strings.Contains(fault.Error, c.says) || strings.Contains(fault.Error, "Go ") || strings.Contains(fault.Error, "Draft") {
			t.Errorf("%s: %d %+v", c.draft, status, fault)
		}
	}
	if len(d.written) != 0 {
		t.Errorf("%d items were written", len(d.written))
	}
}

// An item that is signed and waits for a quorum is no failure, or the program would write it again.
func TestAPendingItemIsAccepted(t *testing.T) {
	b := newTestServer(t, func(c *Config) { c.Publishing = &memoryPublishing{token: "the token"} })
	var got PublishResult
	if status := b.publish(`{"url":"`+rssURL+`","id":"1","title":"Early","published":"2026-11-24T20:00:00Z"}`, "Bearer the token", &got); status != http.StatusAccepted || got.Seq != 5 || got.Pending == "" {
		t.Errorf("%d %+v", status, got)
	}
}

func TestAFeedAcceptsItsKeyAndTheNextOne(t *testing.T) {
	own, next, other := bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 32), bytes.Repeat([]byte{3}, 32)
	hash := difference.KeyHash(next)
	for _, c := range []struct {
		of   Publisher
		key  []byte
		took bool
		want string // part of the reason; "" if the key is accepted
	}{
		{Publisher{Key: own, NextKeyHash: hash[:], Seq: 1}, own, false, ""},
		{Publisher{Key: own, NextKeyHash: hash[:], Seq: 1}, next, false, ""},
		{Publisher{Key: own, NextKeyHash: hash[:], Seq: 1}, other, false, "to replace the key"},
		{Publisher{Key: own, Seq: 1, DocumentKey: other}, other, false, "--resume"},
		{Publisher{Key: own, Seq: 1, ClaimedKey: other}, other, false, ""},
		{Publisher{Key: own, Seq: 1, FormerKeys: [][]byte{next, other}}, other, false, "has replaced this one"},
		{Publisher{Key: own}, own, false, ""},
		{Publisher{Key: own, NoDocumentKey: "it does not answer"}, own, false, ""},
		{Publisher{Key: own, DocumentKey: other}, other, false, ""}, // changed before anything was published
		{Publisher{Key: own, NoDocumentKey: "it does not answer"}, other, false, "it does not answer"},
		{Publisher{DocumentKey: own}, own, false, ""},
		{Publisher{DocumentKey: own}, other, false, "names the key"},
		{Publisher{NoDocumentKey: "it answered 404"}, own, false, "it answered 404"},
		{Publisher{NoDocumentKey: "it answered 404"}, own, true, "it answered 404"},
		{Publisher{NoDocumentKey: "it does not answer", DocumentUnreachable: true}, own, false, "it does not answer"},
		{Publisher{NoDocumentKey: "it does not answer", DocumentUnreachable: true}, own, true, ""},
	} {
		if why := c.of.RejectReason(c.key, c.took); !strings.Contains(why, c.want) || c.want == "" && why != "" {
			t.Errorf("%+v says %q of %x, want %q", c.of, why, c.key[:1], c.want)
		}
	}
}

// An item in its publisher's envelope needs no token, because nobody else could have made it.
func TestEnvelopesArePushed(t *testing.T) {
	d := &memoryPublishing{}
	b := newTestServer(t, func(c *Config) { c.Publishing = d })
	ask := func(envelope string) (int, ErrorResponse) {
		var fault ErrorResponse
		text, err := json.Marshal(Draft{Envelope: []byte(envelope)})
		if err != nil {
			t.Fatal(err)
		}
		return b.publish(string(text), "", &fault), fault
	}
	var done PublishResult
	if status := b.publish(`{"envelope":"c2lnbmVk"}`, "", &done); status != http.StatusOK || len(d.pushed) != 1 || string(d.pushed[0]) != "signed" || done != (PublishResult{URL: rssURL, Seq: 1}) {
		t.Errorf("%d %+v", status, done)
	}
	for _, c := range []struct {
		envelope string
		status   int
		says     string
	}{
		{"forged", http.StatusConflict, "another key"},
		{"early", http.StatusServiceUnavailable, "nobody has taken it"},
		{"garbage", http.StatusBadRequest, "no envelope"},
	} {
		if status, fault := ask(c.envelope); status != c.status || !strings.Contains(fault.Error, c.says) {
			t.Errorf("%s: %d %+v", c.envelope, status, fault)
		}
	}
	if status, _ := ask(strings.Repeat("x", maxDraft)); status != http.StatusRequestEntityTooLarge {
		t.Errorf("too much: %d", status)
	}
}

func TestAPIPublisherAndTrust(t *testing.T) {
	d := &memoryPublishing{}
	b := newTestServer(t, func(c *Config) { c.Publishing = d })
	q := `{"url":"` + rssURL + `"}`
	var p Publisher
	if status := b.call("POST", "publisher", q, &p); status != http.StatusOK || p.Seq != 3 || p.URL != rssURL {
		t.Errorf("%d %+v", status, p)
	}
	var done SubscribeMessage
	if status := b.call("POST", "trust", q, &done); status != http.StatusOK || !d.trusted {
		t.Errorf("%d %+v", status, done)
	}
	var fault ErrorResponse
	if status := b.call("POST", "trust", q, &fault); status != http.StatusNotFound {
		t.Errorf("trusted already: %d %+v", status, fault)
	}
	if status := b.call("POST", "subscribe", `{"url":"`+rssURL+`","least":"publisher"}`, &done); status != http.StatusOK || d.least != ProvenancePublisher {
		t.Errorf("%d %+v, %q", status, done, d.least)
	}
	if status := b.call("POST", "subscribe", `{"url":"`+rssURL+`","least":"somebody"}`, &fault); status != http.StatusBadRequest {
		t.Errorf("%d %+v", status, fault)
	}
}
