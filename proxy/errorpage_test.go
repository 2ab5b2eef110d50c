package proxy

import (
	"net/http"
	"strings"
	"testing"
)

// The node's user sees errors as pages that lead on. Programs, feed readers and strangers get a line of text, and the API
// answers with JSON.
func TestErrorsArePagesForPeople(t *testing.T) {
	b := newTestServer(t)
	b.node.fail("https://h.example/down", &ReadError{URL: "https://h.example/down", Kind: ErrUnreachable, Reason: "no such host"})
	person := []string{"Sec-Fetch-Site", "none", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}
	stranger := append([]string{accessHeader, "wrong"}, person...)
	follower := []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}
	for _, c := range []struct {
		target  string
		headers []string
		status  int
		kind    string
	}{
		{"/nowhere?x=1", person, http.StatusNotFound, "text/html; charset=utf-8"},
		{"/nowhere", nil, http.StatusNotFound, "text/plain; charset=utf-8"},
		{"/subscriptions", follower, http.StatusForbidden, "text/plain; charset=utf-8"},
		{keywordsPath + "00.atom", follower, http.StatusNotFound, "text/plain; charset=utf-8"},
		{"/https://h.example/down", person, http.StatusBadGateway, "text/html; charset=utf-8"},
		{"/https://h.example/down", nil, http.StatusBadGateway, "text/plain; charset=utf-8"},
		{"/https://h.example/down", stranger, http.StatusBadGateway, "text/plain; charset=utf-8"},
		{keywordsPath + "00.atom", person, http.StatusNotFound, "text/html; charset=utf-8"},
		{apiPath + "nowhere", append([]string{apiHeader, "1"}, person...), http.StatusNotFound, "application/json"},
	} {
		r := b.ask("GET", c.target, c.headers...)
		text := body(t, r)
		if kind := r.Header.Get("Content-Type"); r.StatusCode != c.status || kind != c.kind {
			t.Errorf("%s for %q: %d %s, want %d %s", c.target, c.headers, r.StatusCode, kind, c.status, c.kind)
		}
		if isPage := strings.Contains(c.kind, "html"); isPage != strings.Contains(text, `<nav aria-label="Pages">`) {
			t.Errorf("%s for %q: %s", c.target, c.headers, text)
		}
	}
	if text := body(t, b.ask("GET", "/no%3Cwhere", person...)); !strings.Contains(text, "<title>Not found</title>") || !strings.Contains(text, "This node has no page /no%3Cwhere") {
		t.Error(text)
	}
}
