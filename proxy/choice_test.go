package proxy

import (
	"fmt"
	"html"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// Subscribing to a page subscribes to its only feed, or offers a choice. So does subscribing to an address as a
// page that is not one.
func TestSubscribingToAPage(t *testing.T) {
	const at, feedURL = "https://page.example/", "https://page.example/feed.xml"
	one := Choice{URL: feedURL, Title: "Posts <b>", Kind: KindFeed}
	two := Choice{URL: "https://page.example/comments.xml", Kind: KindFeed}
	comments := Choice{URL: "https://page.example/talk.xml", Title: "Talk (comments)", Kind: KindFeed, Comments: true}
	self := Choice{URL: "page+" + at, Kind: KindPage}
	for name, c := range map[string]struct {
		look    Inspection
		known   bool
		ask     string
		to      string
		choices []Choice
	}{
		"a feed":                {Inspection{Feed: true}, false, at, at, nil},
		"a page with its feed":  {Inspection{Page: true, Feeds: []Choice{one}}, false, at, feedURL, nil},
		"one that is not there": {Inspection{Page: true, Feeds: []Choice{{URL: "https://page.example/old.xml", Kind: KindFeed}}}, false, at, "", []Choice{self}},
		"one of two":            {Inspection{Page: true, Feeds: []Choice{{URL: "https://page.example/old.xml", Kind: KindFeed}, one}}, false, at, feedURL, nil},
		"comments only":         {Inspection{Page: true, Feeds: []Choice{comments}}, false, at, "", []Choice{comments, self}},
		"a page":                {Inspection{Page: true}, false, at, "", []Choice{self}},
		"a list of things":      {Inspection{Page: true, NotFeedReason: "not a feed: a document of <urlset>"}, false, at, "", []Choice{self}},
		"a page with two":       {Inspection{Page: true, Feeds: []Choice{one, two}}, false, at, "", []Choice{one, two, self}},
		"large, with two":       {Inspection{Feeds: []Choice{one, two}}, false, at, "", []Choice{one, two}},
		"the page itself":       {Inspection{Page: true, Feeds: []Choice{one}}, false, "page+" + at, "page+" + at, nil},
		"a feed, as a page":     {Inspection{Page: true, Feed: true}, false, "page+" + at, "", []Choice{{URL: at, Kind: KindFeed}}},
		"a page without text":   {Inspection{Feeds: []Choice{one}}, false, "page+" + at, "", []Choice{one}},
		"the same, with two":    {Inspection{Feeds: []Choice{one, two}}, false, "page+" + at, "", []Choice{one, two}},
		"known":                 {Inspection{Page: true}, true, at, at, nil},
	} {
		t.Run(name, func(t *testing.T) {
			b := newTestServer(t)
			b.node.inspections[at], b.node.inspections["page+"+at], b.node.inspections[feedURL] = c.look, c.look, Inspection{Feed: true}
			b.node.inspections[two.URL], b.node.inspections[comments.URL] = Inspection{Feed: true}, Inspection{Feed: true}
			if c.known {
				b.node.subscribed[at] = false
			}
			var answer struct {
				SubscribeMessage
				ErrorResponse
			}
			status := b.call("POST", "subscribe", `{"url":"`+c.ask+`"}`, &answer)
			form, location, text := b.post("/subscribe", url.Values{"url": {c.ask}})
			if c.choices == nil {
				if status != 200 || answer.URL != c.to || answer.Advertised != (c.to != c.ask) || !strings.HasSuffix(answer.ReadURL, "/"+c.to) {
					t.Errorf("%d %+v", status, answer)
				}
				if _, ok := b.node.subscriptions()[c.to]; !ok || form != 303 || !strings.HasSuffix(location, url.QueryEscape(c.to)) {
					t.Errorf("not subscribed to %s: %d %s", c.to, form, location)
				}
				return
			}
			if status != 300 || !slices.Equal(answer.Choices, c.choices) || answer.Error == "" || !strings.HasPrefix(answer.Error, c.look.NotFeedReason) {
				t.Errorf("%d %+v", status, answer)
			}
			for _, choice := range c.choices {
				if form != 300 || !strings.Contains(html.UnescapeString(text), `value="`+choice.URL+`"`) || strings.Contains(text, "<b>") {
					t.Errorf("%d: no %s among the choices", form, choice.URL)
				}
			}
			if len(b.node.subscriptions()) > 0 {
				t.Error("subscribed to one of several")
			}
		})
	}
}

// An address that certainly is no feed is not subscribed to. An address that cannot be read now is, with a warning.
func TestSubscribingToAnUnreadableAddress(t *testing.T) {
	const at, page = "https://page.example/", "page+https://page.example/"
	for _, c := range []struct {
		at     string
		err    error
		status int
	}{
		{at, ErrNotFeed, 502}, {at, ErrNotFound, 404}, {at, ErrGone, 410}, {at, ErrForbidden, 403},
		{at, ErrUnreachable, 200}, {at, ErrTimeout, 200}, {at, ErrBusy, 200},
		{page, ErrNotPage, 502}, {page, ErrNotFound, 404}, {page, ErrGone, 410}, {page, ErrForbidden, 403},
		{page, ErrUnreachable, 200}, {page, ErrTimeout, 200}, {page, ErrBusy, 200},
	} {
		b := newTestServer(t)
		b.node.inspectErrors[c.at] = c.err
		var answer struct {
			SubscribeMessage
			ErrorResponse
		}
		status := b.call("POST", "subscribe", `{"url":"`+c.at+`"}`, &answer)
		_, subscribed := b.node.subscriptions()[c.at]
		if status != c.status || subscribed != (status == 200) || !strings.Contains(answer.Warning+answer.Error, c.err.Error()) {
			t.Errorf("%s: %v: %d, %v %+v", c.at, c.err, status, subscribed, answer)
		}
	}
}

// A subscription of which no item has been read yet returns a warning each time somebody subscribes.
func TestSubscribingTwice(t *testing.T) {
	const at = "https://page.example/"
	for name, c := range map[string]struct {
		channel Channel
		unseen  error
		doubt   string
	}{
		"unreachable":          {Channel{State: "unreachable", Error: "no such host"}, nil, "no such host"},
		"not polled yet":       {Channel{State: StateNew}, ErrTimeout, ErrTimeout.Error()},
		"seen, not polled yet": {Channel{State: StateNew}, nil, ""},
		"empty":                {Channel{State: StateOK, Error: "no items at present"}, nil, ""},
	} {
		b := newTestServer(t)
		b.node.subscribed[at], b.node.channels[at], b.node.inspectErrors[at] = false, c.channel, c.unseen
		var answer SubscribeMessage
		if status := b.call("POST", "subscribe", `{"url":"`+at+`"}`, &answer); status != 200 || !answer.Already || answer.Warning != c.doubt {
			t.Errorf("%s: %d %+v", name, status, answer)
		}
	}
	b := newTestServer(t)
	b.node.subscribed[at] = true // made by a reader
	var answer SubscribeMessage
	if b.call("POST", "subscribe", `{"url":"`+at+`"}`, &answer); answer.Already {
		t.Error("a subscription made by reading counts as one that was asked for")
	}
}

// A document that differs from the requested page may be a login wall, or may be right. It is subscribed to with a
// warning.
func TestSubscribingToADoubtfulPageWarns(t *testing.T) {
	const page = "page+https://page.example/"
	b := newTestServer(t)
	b.node.inspections[page] = Inspection{Page: true, Warning: "a wall in its place"}
	var answer SubscribeMessage
	if status := b.call("POST", "subscribe", `{"url":"`+page+`"}`, &answer); status != 200 || answer.Warning != "a wall in its place" || len(b.node.subscriptions()) != 1 {
		t.Errorf("%d %+v", status, answer)
	}
}

// The address of a page can be unwrapped as that of a feed can.
func TestPagesAreReadLikeFeeds(t *testing.T) {
	b := newTestServer(t)
	for _, channel := range []string{"page+https://page.example/a?b=1", "page+https://page.example/a%23?b=%25#select=%23a%20%5Bx%3D%22%26%22%5D"} {
		b.node.publish(t, channel, rssDoc(1, 2))
		read := b.server.ReadURL("", channel)
		for _, target := range []string{read, "/" + inPath(channel), "/feed?url=" + url.QueryEscape(channel)} {
			if r := b.ask("GET", target); r.StatusCode != 200 || !strings.Contains(body(t, r), "Item 2") {
				t.Errorf("%s: %d", target, r.StatusCode)
			}
		}
		if strings.Contains(read, "#") {
			t.Errorf("%s has a fragment, which readers do not send", read)
		}
		if inner, ok := unwrapNodeAddress("https://nas.example" + read); !ok || inner != channel {
			t.Errorf("%s leads to %q", read, inner)
		}
	}
}

// An address that says what counts on a page is tried before it is subscribed to: the form shows what counts, and
// subscribes when that is confirmed.
func TestWhatCountsIsShownFirst(t *testing.T) {
	const channel = "page+https://page.example/#select=.price"
	b := newTestServer(t)
	b.node.inspections[channel] = Inspection{Page: true, Counts: []string{"49 € <now>", "59 €"}}
	var answer SubscribeMessage
	status, _, text := b.post("/subscribe", url.Values{"url": {"page+https://page.example/#select= .price"}})
	if status != 200 || len(b.node.subscriptions()) != 0 || !strings.Contains(text, "49 € &lt;now&gt;") || !strings.Contains(text, `value="page&#43;`+channel[5:]+`"`) {
		t.Errorf("the form answers %d %s, with %v", status, text, b.node.subscriptions())
	}
	if status, _, text = b.post("/subscribe", url.Values{"url": {channel}, "tried": {"1"}}); status != 303 || len(b.node.subscriptions()) != 1 {
		t.Errorf("when confirmed it answers %d %s", status, text)
	}
	b = newTestServer(t)
	b.node.inspections[channel] = Inspection{Page: true, Counts: []string{"49 €"}}
	if status := b.call("POST", "subscribe", `{"url":"`+channel+`"}`, &answer); status != 200 || len(answer.Counts) != 1 || answer.URL != channel {
		t.Errorf("the API answers %d %+v", status, answer)
	}
	const gone = "page+https://page.example/#select=.gone"
	b.node.inspectErrors[gone] = &ReadError{URL: gone, Kind: ErrNotPage, Reason: "nothing on the page counts"}
	if _, _, text := b.post("/subscribe", url.Values{"url": {gone}}); !strings.Contains(text, "nothing on the page counts") || len(b.node.subscriptions()) != 1 {
		t.Errorf("nothing counts: %s", text)
	}
	if _, _, text := b.post("/subscribe", url.Values{"url": {"page+https://page.example/#select=..x"}}); !strings.Contains(text, "is not a selector that can be used") {
		t.Errorf("a bad selector: %s", text)
	}
}

// A page costs four requests at most, redirects included, whatever it advertises.
func TestAPageCostsFewRequests(t *testing.T) {
	const at = "https://page.example/"
	feeds := func(n int) (feeds []Choice) {
		for i := range n {
			feeds = append(feeds, Choice{URL: fmt.Sprintf("%sfeed%d", at, i), Kind: KindFeed})
		}
		return feeds
	}
	for name, c := range map[string]struct {
		redirected []int // feeds that lead back to the page
		requests   int
		offered    int
	}{
		"feeds":              {nil, 3, 16},
		"one that is a page": {[]int{1}, 4, 15},
		"two that are pages": {[]int{0, 1}, 3, 15},
	} {
		b := newTestServer(t)
		b.node.inspections[at] = Inspection{Page: true, Feeds: feeds(16)}
		for i, f := range feeds(16) {
			back := slices.Contains(c.redirected, i)
			b.node.inspections[f.URL] = Inspection{Feed: !back, Page: back, Redirected: back, Feeds: feeds(1)}
		}
		var answer ErrorResponse
		status := b.call("POST", "subscribe", `{"url":"`+at+`"}`, &answer)
		if status != 300 || len(answer.Choices) != c.offered+1 || b.node.requests != c.requests {
			t.Errorf("%s: %d, %d choices, %d requests", name, status, len(answer.Choices), b.node.requests)
		}
	}
}
