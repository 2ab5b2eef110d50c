package proxy

import (
	"net/url"
	"strings"
	"testing"
)

// Headers Accept of browsers and of feed readers.
const (
	acceptOfChromium = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8,application/signed-exchange;v=b3;q=0.7"
	acceptOfFirefox  = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
	acceptOfFreshRSS = "application/atom+xml, application/rss+xml, application/rdf+xml;q=0.9, application/xml;q=0.8, text/xml;q=0.8, text/html;q=0.7, unknown/unknown;q=0.1, application/unknown;q=0.1, */*;q=0.1"
	acceptOfMiniflux = "application/xml, application/atom+xml, application/rss+xml, application/rdf+xml, application/feed+json, text/html, */*;q=0.9"
)

// A browser that opens the address of a feed gets the readable page. Feed readers get the feed.
func TestABrowserGetsTheReadablePage(t *testing.T) {
	const navigates, upgrades = "Sec-Fetch-Mode", "Upgrade-Insecure-Requests"
	for _, c := range []struct {
		name    string
		headers []string
		page    bool
	}{
		{"Chromium", []string{"Accept", acceptOfChromium, navigates, "navigate", upgrades, "1"}, true},
		{"Firefox", []string{"Accept", acceptOfFirefox, navigates, "navigate", upgrades, "1"}, true},
		{"Safari", []string{"Accept", acceptOfFirefox, upgrades, "1"}, true},
		{"a script of a page", []string{"Accept", "*/*", navigates, "cors"}, false},
		{"a picture of a page", []string{"Accept", acceptOfChromium, navigates, "no-cors"}, false},
		{"curl and newsboat", []string{"Accept", "*/*"}, false},
		{"no Accept", nil, false},
		{"FreshRSS", []string{"Accept", acceptOfFreshRSS}, false},
		{"Miniflux", []string{"Accept", acceptOfMiniflux}, false},
		{"Miniflux, as a browser", []string{"Accept", acceptOfMiniflux, upgrades, "1"}, false},
		{"a reader that accepts what browsers do", []string{"Accept", acceptOfFirefox}, false},
		{"Chromium without the right to see pages", []string{"Accept", acceptOfChromium, navigates, "navigate", accessHeader, "wrong"}, false},
	} {
		b := newTestServer(t)
		for _, target := range []string{"/" + rssURL, b.tokenTarget(rssURL), "/feed?url=" + url.QueryEscape(rssURL)} {
			delete(b.node.subscribed, rssURL)
			if r := b.ask("GET", target, c.headers...); r.StatusCode != 200 {
				t.Errorf("%s, %s: %d for a feed that is not followed", c.name, target, r.StatusCode)
			}
			b.node.subscribed[rssURL] = false
			r := b.ask("GET", target, c.headers...)
			text := body(t, r)
			if c.page != (r.StatusCode == 303 && r.Header.Get("Location") == "/show?url="+url.QueryEscape(rssURL)) || !c.page && !strings.Contains(text, "<rss") {
				t.Errorf("%s, %s: %d, %s, %.80s", c.name, target, r.StatusCode, r.Header.Get("Location"), text)
			}
		}
		r := b.ask("GET", "/feed?format=atom&url="+url.QueryEscape(rssURL), c.headers...)
		if text := body(t, r); r.StatusCode != 200 || !strings.Contains(text, "<feed") {
			t.Errorf("%s: a format by name: %d %.80s", c.name, r.StatusCode, text)
		}
	}
	for accept, want := range map[string]bool{acceptOfChromium: true, "text/html": true, "TEXT/HTML; q=0.5": true, "text/html;q=0.5, */*;q=0.5": false, "text/html;q=x": false, "": false, "application/xhtml+xml": false} {
		if got := prefersHTML(accept); got != want {
			t.Errorf("%q: %v", accept, got)
		}
	}
}
