package proxy

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
)

// A person names a feed by its address, its title, or words that fit no other one.
func TestFeedsAreNamedByWords(t *testing.T) {
	channels := []Channel{
		{URL: "https://a.example/feed", Title: "The Daily"}, {URL: "https://b.example/feed", Title: "The Daily News"},
		{URL: "https://b.example/feed/comments", Title: "Comments"}, {URL: "https://c.example/1", Title: "Twins"}, {URL: "https://c.example/2", Title: "twins"}, {URL: "https://d.example/"},
	}
	for typed, want := range map[string]string{
		"": "", "  ": "", "https://b.example/feed": "b.example/feed", "the daily": "a.example/feed", "daily news": "b.example/feed", "daily": "a.example/feed b.example/feed",
		"TWINS": "c.example/1 c.example/2", "b.example": "b.example/feed/comments b.example/feed", "d.example": "d.example/", "nothing": "",
	} {
		var got []string
		feeds := newTypedFeed(typed)
		for i := range channels {
			feeds.see(&channels[i])
		}
		for _, key := range feeds.found() {
			got = append(got, strings.TrimPrefix(key.url, "https://"))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q means %q, want %q", typed, got, want)
		}
	}
}

// A target is told of the feeds that a person types. Words that fit several feeds are refused.
func TestFeedsOfATargetAreTyped(t *testing.T) {
	targets := &memoryNotifications{}
	b := newTestServer(t, func(c *Config) { c.Notifications, c.Keywords = targets, &memoryKeywords{} })
	for _, address := range []string{rssURL, atomURL, jsonURL} {
		b.node.Subscribe(t.Context(), address, false)
	}
	send := func(feeds ...string) (int, string) {
		r := b.send(request("POST", NotifyPath, strings.NewReader(url.Values{"to": {"https://hooks.example/"}, "feed": feeds}.Encode()), "Content-Type", "application/x-www-form-urlencoded"))
		return r.StatusCode, body(t, r)
	}
	if status, page := send("an rss", "", jsonURL); status != 200 || fmt.Sprint(targets.targets[0].Feeds) != fmt.Sprint([]string{rssURL, jsonURL}) {
		t.Errorf("%d %v %s", status, targets.targets, page)
	}
	if status, page := send("h.example"); status != 400 || !strings.Contains(page, "fits 3 feeds") || len(targets.targets) != 1 {
		t.Errorf("%d %s", status, page)
	}
}

// The page of the network asks which feed is meant.
func TestTheNetworkPageAsksWhichFeed(t *testing.T) {
	b := newTestServer(t)
	b.node.network = Network{Name: "town", EstimateN: 8, Members: []Member{{ID: idAt(0), PeerID: "me", Role: RoleSelf}, {ID: idAt(90), PeerID: "other", Role: "leaf"}}}
	for _, address := range []string{rssURL, atomURL, jsonURL} {
		b.node.Subscribe(t.Context(), address, false)
	}
	b.node.channels[jsonURL] = Channel{Private: true}
	for typed, want := range map[string][]string{
		"h.example": {"Several feeds fit", `href="/network?channel=https%3a%2f%2fh.example%2ffeed.xml"`, "h.example/atom?a=1&amp;b=2"}, "<b>": {"No feed that you follow fits “&lt;b&gt;”"}, "a json": {"only this node polls it"},
	} {
		page := body(t, b.ask("GET", "/network?channel="+url.QueryEscape(typed)))
		for _, text := range want {
			if !strings.Contains(page, text) {
				t.Errorf("%q: no %s in %s", typed, text, page)
			}
		}
	}
	many := newManyServer(t, 300)
	page := body(t, many.ask("GET", "/network?channel=person"))
	if strings.Count(page, "<option") != maxSuggestions || !strings.Contains(page, "280 more feeds fit") || len(page) > maxPage {
		t.Errorf("%d bytes: %s", len(page), page)
	}
}
