package proxy

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"tidings/internal/longtest"
)

// walks holds the tasks of people. Each is done on a node of its own, and its effect in the node is checked.
var walks = []struct {
	name string
	walk func(t *testing.T, by func(*testServer) *hand) // by opens the pages of a server
}{
	{"add", walkAdd}, {"find", walkFind}, {"fix", walkFix}, {"unsubscribe", walkUnsubscribe},
	{"import", walkImport}, {"watch", walkWatch}, {"page", walkPage}, {"invite", walkInvite}, {"token", walkToken},
}

// screens are those of a phone, a tablet and a computer, in CSS pixels.
var screens = [][2]int64{{360, 740}, {768, 1024}, {1440, 900}}

// A person can do each task by mouse and by keyboard, on screens of all sizes, in light and dark, which alternate. The fast tier
// walks each task once by each hand, on screens that alternate.
func TestWalks(t *testing.T) {
	browser := browserFor(t, 15*time.Minute)
	schemes, hands := []string{"light", "dark"}, []string{"mouse", "keyboard"}
	for i, task := range walks {
		for j, means := range hands {
			for k, screen := range screens {
				if !longtest.Long() && k != (2*i+j)%len(screens) {
					continue
				}
				scheme := schemes[(i+j+k)%len(schemes)]
				t.Run(fmt.Sprintf("%s/%s/%d/%s", task.name, means, screen[0], scheme), func(t *testing.T) {
					task.walk(t, func(b *testServer) *hand {
						return newHand(browser, t, b, means == "keyboard", screen[0], screen[1], scheme)
					})
				})
			}
		}
	}
}

// walkToken enters a token on the page of searches, tries a query, makes a search of it, and ends it.
func walkToken(t *testing.T, by func(*testServer) *hand) {
	tokens := &memoryTokens{token: &SearchToken{MaxSearches: 5}}
	b := newTestServer(t, func(c *Config) {
		c.Tokens, c.Keywords = tokens, &memoryKeywords{preview: &solarPreview}
	})
	h := by(b)
	h.open(searchesPath)
	h.write("#token", "wrong")
	h.press("form.add button")
	h.sees(".error", "The token is not valid")
	h.write("#token", memoryToken)
	h.press("form.add button")
	h.sees("#watched + p", "0 of 5")
	h.write("#q", "solar")
	h.press("[formaction]")
	h.sees("#preview", "solar")
	h.press("form.add button:not([formaction])")
	h.sees(".done .address", b.server.WatchURL(h.base, 0))
	h.sees("#watched + p", "1 of 5")
	h.press("form[action$=unwatch] button")
	h.sees("#watched + p", "0 of 5")
	if n := tokens.keywords.CountWatches(); n != 0 {
		t.Errorf("%d searches are left", n)
	}
	h.press("form[action$=leave] button")
	h.sees("label[for=token]", "Token")
}

// walkAdd subscribes to a feed, and takes its address for the reader.
func walkAdd(t *testing.T, by func(*testServer) *hand) {
	b := newTestServer(t)
	b.node.Subscribe(t.Context(), atomURL, false)
	h := by(b)
	h.write("#url", rssURL)
	h.press("form.add button")
	h.arrives("/show?new=1")
	h.sees(".done .address", b.server.ReadURL(h.base, rssURL))
	h.press(".done [data-copy]")
	h.copied(b.server.ReadURL(h.base, rssURL))
	if auto, ok := b.node.subscriptions()[rssURL]; !ok || auto {
		t.Error("the node does not subscribe to the feed")
	}
}

// subscribeMany makes 300 subscriptions with titles, and returns the address of one of them.
func subscribeMany(b *testServer) string {
	for i := range 300 {
		address := fmt.Sprintf("https://site-%03d.example/feed", i)
		b.node.Subscribe(b.Context(), address, false)
		b.node.channels[address] = Channel{State: StateOK, Title: fmt.Sprintf("Notes of site %d", i), Items: 3, Newest: OptionalTime(b.clock.Add(-time.Duration(i) * time.Hour))}
	}
	const wanted = "https://site-222.example/feed"
	b.node.channels[wanted] = Channel{State: StateOK, Title: "The Lighthouse Keeper"}
	return wanted
}

// walkFind finds one of 300 subscriptions by words of its title, and gives it a tag.
func walkFind(t *testing.T, by func(*testServer) *hand) {
	b := newTestServer(t)
	wanted := subscribeMany(b)
	h := by(b)
	h.shortcut("/", "#search")
	h.write("#search", "keeper light")
	h.press("[role=search] .row button")
	h.arrives(subscriptionsPath + "?q=keeper")
	h.until(`document.querySelectorAll(".rows > li").length === 1`, "a single row")
	h.row("j", "#"+rowID(wanted))
	h.press("#" + rowID(wanted) + " h3 a")
	h.arrives("/show?url=" + wanted)
	h.write("#tags", "sea")
	h.press(".edit button")
	h.arrives("/show?")
	h.sees("#tags", "sea")
	if c, err := b.server.findChannel(t.Context(), wanted); err != nil || !slices.Equal(c.Tags, []string{"sea"}) {
		t.Error("the subscription has the tags", c.Tags, err)
	}
}

// walkFix polls a feed that has moved, follows it to its new address, and ends the subscription to one that is gone.
func walkFix(t *testing.T, by func(*testServer) *hand) {
	b := newTestServer(t)
	for _, address := range []string{rssURL, atomURL, jsonURL} {
		b.node.Subscribe(t.Context(), address, false)
	}
	const moved = "https://new.example/feed"
	b.node.publish(t, moved, rssDoc(1, 2))
	b.node.channels[rssURL] = Channel{State: StateOK, Moved: moved, LastPoll: OptionalTime(b.clock.Add(-time.Hour)), NextPoll: OptionalTime(b.clock.Add(time.Hour))}
	b.node.channels[jsonURL] = Channel{State: "gone", Error: "gone for good (410)", Do: "unsubscribe"}
	h := by(b)
	h.press(`.attention h3 a[href*="feed.xml"]`)
	h.arrives("/show?url=" + rssURL)
	h.press(`form[action="/poll"] button`)
	h.arrives("/show?")
	h.sees(".said [role=status]", "")
	h.press(`.next a[href*="new.example"]`)
	h.arrives("/add?url=" + moved)
	h.press(`form[action="/subscribe"] button`)
	h.arrives("/show?new=1")
	h.open("/show?url=" + rssURL)
	h.press(`.deeds [data-unsubscribe]`)
	h.arrives("/?said=")
	h.open(subscriptionsPath)
	h.choose("select[name=state]", "gone")
	h.press(".filters .choices button")
	h.arrives(subscriptionsPath + "?")
	row := "#" + rowID(jsonURL)
	h.row("j", "#"+rowID(jsonURL))
	h.shortcut("x", row+" [name=url]")
	h.sees(row+" .why .error", "410")
	h.press(".bulk [value=unsubscribe]")
	h.arrives(subscriptionsPath + "?")
	h.sees(".empty", "")
	got := b.node.subscriptions()
	if _, ok := got[moved]; !ok || len(got) != 2 {
		t.Error("the node has the subscriptions", got)
	}
	if b.node.mu.Lock(); !slices.Equal(b.node.polledSoon, []string{rssURL}) {
		t.Error("polled soon:", b.node.polledSoon)
	}
	b.node.mu.Unlock()
}

// walkUnsubscribe ends a subscription in the middle of a long list, and makes it again.
func walkUnsubscribe(t *testing.T, by func(*testServer) *hand) {
	b := newTestServer(t)
	subscribeMany(b)
	wanted := "https://site-007.example/feed"
	ended := func() bool {
		_, ok := b.node.subscriptions()[wanted]
		return !ok
	}
	h := by(b)
	h.open(subscriptionsPath + "?sort=newest")
	h.row("j", "#"+rowID("https://site-024.example/feed"))
	h.row("k", "#"+rowID(wanted)) // the bar above the rows does not cover the focus
	h.shortcut("u", "#"+rowID(wanted)+" [data-unsubscribe]")
	h.arrives(subscriptionsPath + "?sort=newest&said=")
	if !ended() {
		t.Error("the subscription goes on")
	}
	h.press(".said button")
	h.arrives(subscriptionsPath + "?sort=newest&said=")
	h.sees("#"+rowID(wanted)+" h3", "site 7")
	if ended() {
		t.Error("the subscription is not made again")
	}
}

// walkImport imports a list of 5,000 feeds, sees how far it is, and what has come of it.
func walkImport(t *testing.T, by func(*testServer) *hand) {
	const feeds = 5000
	b, allowed := newSlowServer(t)
	b.node.room = 2 * feeds
	file := filepath.Join(t.TempDir(), "feeds.opml")
	if err := os.WriteFile(file, []byte(listOf(feeds)), 0o600); err != nil {
		t.Fatal(err)
	}
	h := by(b)
	h.press(`nav a[href="/lists"]`)
	h.arrives(listsPath)
	h.upload("#list", file)
	h.press(".import button")
	h.arrives(importPath + "?id=")
	for range feeds / 2 {
		allowed <- struct{}{}
	}
	h.until(`one("progress").position === .5`, "half of the feeds")
	close(allowed)
	h.until(`!one("progress") && document.readyState === "complete"`, "the end")
	h.sees("main [role=status]", "5,000 new")
	if got := len(b.node.subscriptions()); got != feeds {
		t.Error("the node has", got, "subscriptions")
	}
	h.press(`main a[href="/subscriptions"]`)
	h.arrives(subscriptionsPath)
	h.row("k", ".rows > li:last-child")
	h.press("[rel=next]")
	h.arrives(subscriptionsPath + "?page=2")
}

// walkWatch composes a query from words, sees what matches, and makes a feed of it.
func walkWatch(t *testing.T, by func(*testServer) *hand) {
	keywords := &memoryKeywords{preview: &solarPreview}
	b := newTestServer(t, func(c *Config) { c.Keywords = keywords })
	b.node.Subscribe(t.Context(), rssURL, false)
	h := by(b)
	h.press(`nav a[href="/watch"]`)
	h.arrives(watchPath)
	h.press(".builder summary")
	h.write("[name=all]", "solar roof")
	h.write("[name=none]", "advert")
	h.sees("#q", "solar roof NOT advert")
	h.sees("#preview mark", "olar")
	h.press("#q ~ button:last-child")
	h.arrives(watchPath + "?")
	page, _ := keywords.Watches(t.Context(), WatchList{Limit: 2})
	if watches := page.Watches; len(watches) != 1 || watches[0].Query != "solar roof NOT advert" {
		t.Fatal("the node has the searches", page.Watches)
	}
	h.sees(".done .address", h.base)
	h.press(".done [data-copy]")
	h.copied(h.read(".done .address"))
}

// walkPage follows a page, and then only what a selector selects on it, which the page shows before.
func walkPage(t *testing.T, by func(*testServer) *hand) {
	b := newTestServer(t)
	const whole, part = "page+" + choiceURL, "page+" + choiceURL + "#select=.price"
	b.node.inspections[choiceURL] = Inspection{Page: true}
	b.node.inspections[whole] = Inspection{Page: true}
	b.node.inspections[part] = Inspection{Page: true, Counts: []string{"Single 4.20", "Return 7.90"}}
	h := by(b)
	h.write("#url", choiceURL)
	h.press("form.add button")
	h.arrives("/subscribe")
	h.press(".plain button")
	h.arrives("/show?new=1")
	h.press(`.jump a[href="#counts"]`)
	h.write("[name=select]", ".price")
	h.press("#counts ~ form button")
	h.arrives("/add?")
	h.sees("main", "Return 7.90")
	h.press(`form[action="/subscribe"] button`)
	h.arrives("/show?new=1")
	h.sees(".done .address", b.server.ReadURL(h.base, part))
	got := b.node.subscriptions()
	if _, ok := got[part]; !ok {
		t.Error("the node has the subscriptions", got)
	}
}

// walkInvite takes the address with which another node can join through this one.
func walkInvite(t *testing.T, by func(*testServer) *hand) {
	b := newTestServer(t)
	const address = "/ip4/203.0.113.7/udp/4801/quic-v1/p2p/12D3KooWme"
	b.node.status.Addresses = []string{address}
	b.node.network = Network{Name: "town", EstimateN: 2, Members: []Member{{ID: idAt(0), PeerID: "12D3KooWme", Role: RoleSelf}, {ID: idAt(30), PeerID: "12D3KooWnear", Role: RoleLeaf}}}
	h := by(b)
	h.press(`nav a[href="/network"]`)
	h.arrives("/network")
	h.sees("section[aria-labelledby=join] .address", address)
	h.press("section[aria-labelledby=join] [data-copy]")
	h.copied(address)
}
