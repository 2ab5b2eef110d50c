package proxy

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"
)

// memoryPrivate keeps private feeds in a memoryNode. All have the document of rssURL.
type memoryPrivate struct {
	node  *memoryNode
	feeds map[string]PrivateFeed // by name
	err   error                  // returned by SubscribePrivately
}

const (
	privateToken = "00112233445566778899aabbccddeeff"
	privateName  = PrivateName + "h.example/12345678"
)

func (m *memoryPrivate) SubscribePrivately(_ context.Context, p PrivateFeed) (SubscribeMessage, error) {
	m.node.mu.Lock()
	defer m.node.mu.Unlock()
	if m.err != nil {
		return SubscribeMessage{}, m.err
	}
	_, already := m.feeds[privateName]
	m.feeds[privateName] = p
	m.node.sources[privateName] = m.node.sources[rssURL]
	m.node.subscribed[privateName] = false
	m.node.channels[privateName] = Channel{Private: true, ReadURL: PrivateReadPath(privateToken), Tags: p.Description.Tags}
	return SubscribeMessage{URL: privateName, ReadURL: PrivateReadPath(privateToken), Already: already, Private: true}, nil
}

func (m *memoryPrivate) FindPrivate(address string) (string, bool) {
	m.node.mu.Lock()
	defer m.node.mu.Unlock()
	p, ok := m.feeds[privateName]
	return privateName, ok && (address == privateName || address == PrivateReadPath(privateToken) || address == p.Address)
}

func newPrivateServer(t *testing.T) (*testServer, *memoryPrivate) {
	private := &memoryPrivate{feeds: map[string]PrivateFeed{}}
	b := newTestServer(t, func(c *Config) { c.Private = private })
	private.node = b.node
	return b, private
}

// Each of these requests asks for a private feed, and none of them reaches the subscriptions of the network.
func TestRequestsForPrivateFeeds(t *testing.T) {
	const known = "https://other.example" + privatePath + privateToken
	for _, c := range []struct{ request, address, header string }{
		{`{"url":" https://ann:geheim@h.example/a "}`, "https://ann:geheim@h.example/a", ""},
		{`{"url":"ann:geheim@h.example/a"}`, "https://ann:geheim@h.example/a", ""},
		{`{"url":"feed:https://ann:geheim@h.example/a"}`, "feed:https://ann:geheim@h.example/a", ""},
		{`{"url":"https://h.example/a?b","private":true}`, "https://h.example/a?b", ""},
		{`{"url":"localhost:8000/a","private":true}`, "http://localhost:8000/a", ""},
		{`{"url":"https://h.example/a","headers":{"Cookie":"geheim"}}`, "https://h.example/a", "geheim"},
		{`{"url":"` + known + `"}`, known, ""},
	} {
		b, private := newPrivateServer(t)
		var got SubscribeMessage
		if status := b.call("POST", "subscribe", c.request, &got); status != 200 || got.URL != privateName || got.ReadURL != "http://"+host+PrivateReadPath(privateToken) || !got.Private {
			t.Errorf("%s: %d %+v", c.request, status, got)
		}
		if p := private.feeds[privateName]; p.Address != c.address || p.Headers["Cookie"] != c.header {
			t.Errorf("%s: it is %+v", c.request, p)
		}
		if n := len(b.node.subscriptions()); n != 1 {
			t.Errorf("%s: %d subscriptions", c.request, n)
		}
	}
	b, _ := newPrivateServer(t)
	for _, c := range []struct{ request, say string }{
		{`{"url":"page+https://ann:geheim@h.example/"}`, "a page cannot be private"},
		{`{"url":"https://h.example/","private":true,"least":"publisher"}`, "not signed"},
	} {
		var got ErrorResponse
		if status := b.call("POST", "subscribe", c.request, &got); status != 400 || !strings.Contains(got.Error, c.say) || strings.Contains(got.Error, "geheim") {
			t.Errorf("%s: %d %+v", c.request, status, got)
		}
	}
	// A node without private feeds must not follow such an address with the network instead.
	b = newTestServer(t)
	for _, request := range []string{`{"url":"` + rssURL + `","private":true}`, `{"url":"` + rssURL + `","headers":{"Cookie":"a"}}`, `{"url":"https://ann:geheim@h.example/feed.xml"}`} {
		var got ErrorResponse
		if status := b.call("POST", "subscribe", request, &got); status < 400 || len(b.node.subscriptions()) != 0 {
			t.Errorf("%s: %d %+v", request, status, got)
		}
	}
}

func TestPrivateFeedsAreReadByTheirTokenOnly(t *testing.T) {
	b, private := newPrivateServer(t)
	path := PrivateReadPath(privateToken)
	if r := b.ask("GET", path); r.StatusCode != 404 {
		t.Errorf("before subscribing: %d", r.StatusCode)
	}
	if status, location, text := b.post("/subscribe", url.Values{"url": {rssURL}, "private": {"1"}}); status != 303 || location != "/show?new=1&url="+url.QueryEscape(privateName) {
		t.Fatalf("%d %s %s", status, location, text)
	}
	for target, want := range map[string]int{
		path: 200, path + "?format=json&limit=1": 200, path + "?format=pdf": 400, path + "0": 404, PrivateReadPath(privateToken[1:]): 404,
		"/" + privateName: 404, "/f/" + b.server.tokens.token(privateName) + "/" + privateName: 400, "/feed?url=" + privateName: 400,
	} {
		r := b.ask("GET", target, accessHeader, "")
		if got := body(t, r); r.StatusCode != want && !(want >= 400 && r.StatusCode >= 400) || want == 200 != strings.Contains(got, "Item 2") {
			t.Errorf("%s: %d %s", target, r.StatusCode, got)
		}
	}
	// Another machine can read it, as it can read other feeds with a token.
	r := request("GET", path, nil, accessHeader, "")
	r.RemoteAddr = "192.0.2.1:40000"
	if r := b.send(r); r.StatusCode != 200 {
		t.Errorf("from another machine: %d", r.StatusCode)
	}
	home := body(t, b.ask("GET", "/"))
	if !strings.Contains(home, "<span>private</span>") || !strings.Contains(home, `name="private"`) || !strings.Contains(home, "http://"+host+path) || !strings.Contains(home, "<span><bdi>h.example</bdi></span>") {
		t.Errorf("the start page is %s", home)
	}
	if show := body(t, b.ask("GET", "/show?url="+privateName)); !strings.Contains(show, "Private: only this node polls this feed") || !strings.Contains(show, "Item 2") {
		t.Errorf("its page is %s", show)
	}
	private.err = fmt.Errorf("h.example: no, %w", ErrNotFound)
	if status, _, text := b.post("/subscribe", url.Values{"url": {"https://ann:geheim@h.example/"}}); status != 404 || !strings.Contains(text, "h.example: no") || strings.Contains(text, "geheim") {
		t.Errorf("%d %s", status, text)
	}
	for _, address := range []string{"http://" + host + path, privateName, rssURL} {
		b.node.subscribed[privateName] = false
		var got SubscribeMessage
		if status := b.call("POST", "unsubscribe", `{"url":"`+address+`"}`, &got); status != 200 || got.URL != privateName {
			t.Errorf("unsubscribe from %s: %d %+v", address, status, got)
		}
	}
}

func TestImportedPasswordsBecomePrivate(t *testing.T) {
	b, private := newPrivateServer(t)
	const list = `<opml version="2.0"><body><outline text="Work"><outline text="Mine" htmlUrl="https://h.example/" xmlUrl="https://ann:geheim@h.example/a"/></outline>` +
		`<outline text="Shop"><outline xmlUrl="https://ann:geheim@h.example/a"/></outline><outline xmlUrl="` + rssURL + `"/></body></opml>`
	var result ImportResult
	if b.call("POST", "opml", list, &result); result.Subscribed != 2 || result.Already != 0 || len(result.Failed) != 0 {
		t.Errorf("%+v", result)
	}
	if p := private.feeds[privateName]; p.Address != "https://ann:geheim@h.example/a" || !p.Later || p.Description.Title != "Mine" || strings.Join(p.Description.Tags, " ") != "Work Shop" {
		t.Errorf("%+v", p)
	}
	for query, feeds := range map[string]int{"": 0, "?rewrite=0": 0, "?rewrite=0&private=1": 0, "?private=1": 1} {
		out := body(t, b.ask("GET", apiPath+"opml"+query, "Tidings", "1"))
		if n := strings.Count(out, `xmlUrl="http://`+host+PrivateReadPath(privateToken)); n != feeds*2 || strings.Contains(out, "geheim") { // a line in each folder
			t.Errorf("%s: %d private feeds in %s", query, n, out)
		}
	}
	private.err = fmt.Errorf("no: %w", ErrFull)
	if b.call("POST", "opml", list, &result); len(result.Failed) != 1 || strings.Contains(fmt.Sprint(result), "geheim") {
		t.Errorf("%+v", result)
	}
}

// A name that no private feed has, or that several have, is said to be one, and so is a name where a key is needed.
func TestNamesOfPrivateFeedsThatLeadNowhere(t *testing.T) {
	b, _ := newPrivateServer(t)
	b.call("POST", "subscribe", `{"url":"https://ann:geheim@h.example/a"}`, new(SubscribeMessage))
	for _, c := range []struct{ call, address, say string }{
		{"subscribe", "private:h.example/87654321", "no private feed has this name"},
		{"subscribe", "http://" + host + PrivateReadPath(privateToken[1:]+"0"), "tidings list shows their names"},
		{"unsubscribe", "private:h.example/87654321", "no private feed has this name"},
		{"unsubscribe", "private:h.example", "or several have"},
		{"unsubscribe", "http://" + host + PrivateReadPath("0"), "no private feed has this name"},
		{"unsubscribe", PrivateReadPath("0"), "no private feed has this name"},
		{"trust", "private:h.example/87654321", "no private feed has this name"},
		{"trust", privateName, "has no key"},
		{"publisher", privateName, "has no key"},
	} {
		var got ErrorResponse
		if status := b.call("POST", c.call, `{"url":"`+c.address+`"}`, &got); status != 404 && status != 400 || !strings.Contains(got.Error, c.say) {
			t.Errorf("%s %s: %d %s", c.call, c.address, status, got.Error)
		}
	}
}
