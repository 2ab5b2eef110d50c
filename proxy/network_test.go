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
	if got := wedgePath(0.3, 1); !strings.Contains(got, "0 0 1") {
		t.Errorf("half of the ring is %s", got)
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

// The way of the last items has what the node knows: who numbered them, who brought them here, and who gets them from here.
// The page names what the node does not know.
func TestTheWayOfTheLastItems(t *testing.T) {
	b := newTestServer(t)
	me, near, far := Member{ID: idAt(0), PeerID: "me", Role: RoleSelf}, Member{ID: idAt(30), PeerID: "near", Role: RoleLeaf}, Member{ID: idAt(60), PeerID: "far"}
	b.node.network = Network{Name: "town", EstimateN: 3, Members: []Member{me, near}}
	b.node.Subscribe(t.Context(), rssURL, false)
	b.node.channels[rssURL] = Channel{State: StateOK, Key: idAt(26), Pollers: 2}
	written, arrived := b.clock.Add(-time.Hour), b.clock.Add(-59*time.Minute)
	delivery := func(from *Member, known bool) *TreeDelivery {
		return &TreeDelivery{Items: 2, Written: written, Arrived: arrived, From: from, Known: known}
	}
	for name, c := range map[string]struct {
		tree    Tree
		rows    []string
		solid   int // arrows between neighbours
		unknown int // arrows that stand for members that are not known
		text    string
	}{
		"from a parent that the leader is": {
			Tree{Known: true, Leader: &near, Last: delivery(&near, true)},
			[]string{"1 member 4ccccccc Took 2 items into the log of the feed, which it keeps in order. 60 min ago", "2 member 4ccccccc →to this node Passed on 2 items; this node had this already, because it keeps a copy of the log. 59 min ago"}, 1, 0, "",
		},
		"from a parent below others": {
			Tree{Known: true, Leader: &far, Children: []Member{near}, Last: delivery(&near, false)},
			[]string{"1 member 99999999 →to member 4ccccccc Took 2 items into the log of the feed, which it keeps in order. 60 min ago", "2 member 4ccccccc →to this node Passed on 2 items. 59 min ago", "3 this node →to 1 member below it in the tree Passes new items on."}, 2, 1,
			"This node does not know the members between member 99999999 and member 4ccccccc.",
		},
		"at the root that leads": {
			Tree{Known: true, Root: true, Leader: &me, Children: []Member{near, far}, Last: delivery(nil, true)},
			[]string{"1 this node Took 2 items into the log of the feed, which it keeps in order. 60 min ago", "2 this node →to 2 members below it in the tree Passes new items on."}, 2, 0, "",
		},
		"no item yet":    {Tree{Known: true}, nil, 0, 0, "No item of this feed has come down its tree"},
		"no place":       {Tree{}, nil, 0, 0, "has no place in the tree"},
		"a quiet reader": {Tree{Quiet: true}, nil, 0, 0, "through two other members"},
	} {
		b.node.trees = map[string]Tree{rssURL: c.tree}
		page := body(t, b.ask("GET", "/network?channel="+url.QueryEscape(rssURL)))
		var rows []string
		for _, row := range tableRows(t, page) {
			if len(row[0]) == 1 { // a step
				rows = append(rows, strings.Join(row, " "))
			}
		}
		unknown := strings.Count(page, `unknown" d="M`)
		if got := strings.Join(rows, "\n"); got != strings.Join(c.rows, "\n") || strings.Count(page, `<path class="hop`)-unknown != c.solid || unknown != c.unknown || !strings.Contains(page, c.text) {
			t.Errorf("%s: %s\n%s", name, got, page)
		}
		if strings.Contains(page, `class="wedge"`) || !strings.Contains(page, "2 of about 3 members poll this feed: those with the ids nearest to its key. ") {
			t.Errorf("%s: two of three members shade the ring", name)
		}
	}
}

// The plots show what the node has noted, with means of many values, and nothing before it has noted two.
func TestPlotsOfTheNetwork(t *testing.T) {
	b := newTestServer(t)
	b.node.network = Network{Name: "town", EstimateN: 3, Members: []Member{{ID: idAt(0), PeerID: "me", Role: RoleSelf}}}
	samples := func(n int, target float64) (all []NetworkSample) {
		for i := range n {
			all = append(all, NetworkSample{At: b.clock.Add(time.Duration(i) * time.Minute), Members: 5 + i%2, Polls: 7, Target: target, OwnPolls: 3})
		}
		return all
	}
	for _, c := range []struct {
		samples []NetworkSample
		plots   int
		text    string
	}{
		{nil, 0, "Plots of the members and of the polls appear here"}, {samples(1, 9), 0, "Plots of the members and of the polls appear here"},
		{samples(2, 0), 2, "Estimated members: between 5 and 6, and 6 at last."}, {samples(1008, 9), 3, "Polls in a polling interval: between 7 and 7, and 7 at last. Target: between 9 and 9, and 9 at last."},
	} {
		b.node.network.History = c.samples
		page := body(t, b.ask("GET", "/network"))
		if got := strings.Count(page, "<figure "); got != c.plots || !strings.Contains(page, c.text) || len(page) > maxPage/2 {
			t.Errorf("%d samples: %d plots, %d bytes: %s", len(c.samples), got, len(page), page)
		}
	}
	var s series
	for i := range 1000 {
		s.add(b.clock.Add(time.Duration(i)*time.Second), float64(i))
	}
	if thin := s.thin(); len(thin.at) > maxPlotPoints || thin.value[0] != 2.5 || !thin.at[len(thin.at)-1].Equal(s.at[999]) {
		t.Errorf("%d points from %v", len(thin.at), thin.value[0])
	}
}
