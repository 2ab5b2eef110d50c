package proxy

import (
	"fmt"
	"math"
	"net/url"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"
)

// idAt returns an id at a hundredth of the ring.
func idAt(hundredths int) string {
	return fmt.Sprintf("%012x", uint64(float64(hundredths)/100*(1<<48))) + strings.Repeat("0", 52)
}

// tableRows returns the texts of a page's table without its head.
func tableRows(t *testing.T, page string) (rows [][]string) {
	t.Helper()
	root, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	for n := range root.Descendants() {
		if n.Type != html.ElementNode || n.Data != "tr" || n.Parent.Data != "tbody" {
			continue
		}
		var row []string
		for c := range n.ChildNodes() {
			var text strings.Builder
			for d := range c.Descendants() {
				if d.Type == html.TextNode {
					text.WriteString(d.Data)
				}
			}
			if c.Type == html.ElementNode {
				row = append(row, text.String())
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// The table shows this node first, then the other members of its leaf set by round-trip time. Below are the
// addresses at which others can join.
func TestTheNetworkPageIsSorted(t *testing.T) {
	b := newTestServer(t)
	slow, fast := 120.0, 0.4
	b.node.status.Addresses = []string{"/ip4/203.0.113.7/tcp/4801/p2p/me", "/ip4/127.0.0.1/tcp/4801/p2p/me"}
	b.node.network = Network{Name: "town", EstimateN: 1, Members: []Member{
		{ID: idAt(80), PeerID: "far", Role: RoleContact, RTTMs: &fast}, {ID: idAt(20), PeerID: "unknown", Role: RoleLeaf},
		{ID: idAt(30), PeerID: "slow", Role: RoleLeaf, RTTMs: &slow}, {ID: idAt(40), PeerID: "fast", Role: RoleLeaf, RTTMs: &fast}, {ID: idAt(0), PeerID: "me", Role: RoleSelf},
	}}
	page := body(t, b.ask("GET", "/network"))
	var order []string
	for _, row := range tableRows(t, page) {
		order = append(order, row[3]+" "+row[1]+" "+row[2])
	}
	if got, want := strings.Join(order, ", "), "me this node –, fast leaf set under 1 ms, slow leaf set 120 ms, unknown leaf set –, far contact under 1 ms"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if !strings.Contains(page, "About 1 node is a member") || !strings.Contains(page, "/ip4/203.0.113.7/") || strings.Index(page, "/ip4/203.0.113.7/") > strings.Index(page, "/ip4/127.0.0.1/") {
		t.Error(page)
	}
	b.node.network, b.node.status.Addresses = Network{}, nil
	if page := body(t, b.ask("GET", "/network")); !strings.Contains(page, "has not joined its network yet") || !strings.Contains(page, "cannot join through this node") || strings.Contains(page, "<table>") {
		t.Errorf("before it has a network: %s", page)
	}
}

func TestSentences(t *testing.T) {
	for words, want := range map[string]string{
		"": "", "no such host": "No such host.", "Done.": "Done.", "why?": "Why?", "cut off…": "Cut off…",
		"https://h.example/ is gone": "https://h.example/ is gone.", "subscribe to http://h.example/": "Subscribe to http://h.example/", "me@h.example is no URL": "me@h.example is no URL.", "über": "Über.",
	} {
		if got := sentence(words); got != want {
			t.Errorf("%q is %q, want %q", words, got, want)
		}
	}
}

// The ring shows the members that the node knows, and marks those in a channel's wedge.
func TestTheRingShowsPollers(t *testing.T) {
	b := newTestServer(t)
	rtt := 12.4
	b.node.network = Network{Name: "town", EstimateN: 8, Members: []Member{
		{ID: idAt(0), PeerID: "me", Role: RoleSelf}, {ID: idAt(30), PeerID: "near", Role: RoleLeaf, RTTMs: &rtt}, {ID: idAt(80), PeerID: "far", Role: RoleContact},
		{ID: "?", PeerID: "nowhere", Role: RoleLeaf},
	}}
	b.node.Subscribe(t.Context(), rssURL, false)
	b.node.channels[rssURL] = Channel{URL: rssURL, Title: "A feed", State: StateOK, Key: idAt(26), Pollers: 2}
	page := body(t, b.ask("GET", "/network"))
	if got := tableRows(t, page); len(got) != 3 || got[0][1] != "this node" || got[1][2] != "12 ms" || got[2][2] != "–" || strings.Contains(page, `class="wedge"`) {
		t.Errorf("%q in %s", got, page)
	}
	page = body(t, b.ask("GET", "/network?channel="+url.QueryEscape(rssURL)))
	got := tableRows(t, page)
	if len(got) != 3 || got[0][3] != "no" || got[1][3] != "yes" || got[2][3] != "no" || !strings.Contains(page, `class="wedge"`) ||
		!strings.Contains(page, "2 of about 8 members") {
		t.Errorf("%q in %s", got, page)
	}
	if page = body(t, b.ask("GET", "/network?channel=http://unknown.example/")); strings.Contains(page, `class="wedge"`) {
		t.Error("a channel that nobody reads here has a wedge")
	}
}

func TestWedgesAreWhereTheirMembersAre(t *testing.T) {
	for _, c := range []struct{ pollers, members, bits int }{
		{0, 8, 0}, {8, 8, 0}, {9, 8, 0}, {5, 8, 0}, {4, 8, 1}, {3, 8, 1}, {2, 8, 2}, {1, 8, 3}, {1, 1024, 10}, {1, 0, 0},
	} {
		if got := wedgeBits(c.pollers, c.members); got != c.bits {
			t.Errorf("%d of %d share %d bits, want %d", c.pollers, c.members, got, c.bits)
		}
	}
	// A quarter of the ring, from east to south.
	if got, want := wedgePath(0.3, 2), "M 374 200 A 174 174 0 0 1 200 374 L 200 346 A 146 146 0 0 0 346 200 Z"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := wedgePath(0.3, 0); !strings.Contains(got, "0 1 1") {
		t.Errorf("all of the ring is %s", got)
	}
	if turn, ok := ringTurn(idAt(25)); !ok || math.Abs(turn-0.25) > 1e-9 {
		t.Errorf("%v, %v", turn, ok)
	}
}

// The table can be sorted by any column in both directions, and filtered.
func TestChannelsAreSortedAndFiltered(t *testing.T) {
	b := newTestServer(t)
	second, third := "http://b.example/", "http://c.example/"
	for _, address := range []string{rssURL, second, third} {
		b.node.Subscribe(t.Context(), address, false)
	}
	short, long := 2.0, 300.0
	level := 0.5
	b.node.channels[rssURL] = Channel{State: StateOK, Subscribers: 3, Pollers: 9, DetectionExpectedS: &short, NextPoll: OptionalTime(b.clock.Add(time.Minute)), Level: &level}
	b.node.channels[second] = Channel{State: "gone", Subscribers: 20, Pollers: 1, DetectionExpectedS: &long, Why: "the origin says it is gone"}
	b.node.channels[third] = Channel{State: StateOK, Subscribers: 1}
	for query, want := range map[string]string{
		"": "An RSS h.example/feed.xml http://b.example/ http://c.example/", "?sort=-name": "http://c.example/ http://b.example/ An RSS h.example/feed.xml", "?sort=readers": "http://c.example/ An RSS h.example/feed.xml http://b.example/", "?sort=-readers": "http://b.example/ An RSS h.example/feed.xml http://c.example/",
		"?sort=pollers": "http://c.example/ http://b.example/ An RSS h.example/feed.xml", "?sort=expected": "An RSS h.example/feed.xml http://b.example/ http://c.example/", "?sort=state": "http://b.example/ An RSS h.example/feed.xml http://c.example/", "?sort=next": "An RSS h.example/feed.xml http://b.example/ http://c.example/",
		"?sort=nonsense": "An RSS h.example/feed.xml http://b.example/ http://c.example/", "?filter=B.exa": "http://b.example/", "?filter=ORIGIN+gone": "http://b.example/", "?filter=example&sort=-name": "http://c.example/ http://b.example/ An RSS h.example/feed.xml", "?filter=nothing": "",
	} {
		page := body(t, b.ask("GET", "/channels"+query))
		var names []string
		for _, row := range tableRows(t, page) {
			names = append(names, row[0])
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("/channels%s: %q, want %q", query, got, want)
		}
	}
	if page := body(t, b.ask("GET", "/channels?sort=-readers")); !strings.Contains(page, `aria-sort="descending"`) || !strings.Contains(page, "sort=readers") {
		t.Error("nothing says by what the table is sorted")
	}
}
