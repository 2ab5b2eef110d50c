package daemon

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tidings/cobra/tiers"
)

func TestCrawlListsAreOPMLOrText(t *testing.T) {
	want := []string{"https://a.example/feed", "https://b.example/"}
	for name, list := range map[string]string{
		"text": "# our feeds\nhttps://a.example/feed\n\n  https://b.example  \nftp://c.example/\n",
		"OPML": `<opml version="2.0"><body><outline text="A"><outline text="a" xmlUrl="https://a.example/feed"/></outline><outline text="b" xmlUrl="https://b.example"/><outline text="c" xmlUrl="ftp://c.example/"/></body></opml>`,
	} {
		urls, wrong, err := parseCrawlList([]byte(list))
		if err != nil || !slices.Equal(urls, want) || !slices.Equal(wrong, []string{"ftp://c.example/"}) {
			t.Errorf("%s: %q, wrong %q, %v", name, urls, wrong, err)
		}
	}
}

// TestHostingSettingsThatCannotRun are refused with the way out.
func TestHostingSettingsThatCannotRun(t *testing.T) {
	for _, h := range []Hosting{{Role: "crawler"}, {CrawlList: "feeds.txt"}} {
		if err := h.validate(); err == nil || !strings.Contains(err.Error(), "--topology, from tidings provision --json") {
			t.Errorf("%+v: %v", h, err)
		}
	}
	if err := (Hosting{Topology: "plan.json", Discover: tiers.MaxDiscover + 1}).validate(); err == nil || !strings.Contains(err.Error(), "--discover 3601: give 0 to 3600") {
		t.Errorf("too large a budget: %v", err)
	}
	file := filepath.Join(t.TempDir(), "plan.json")
	for topology, want := range map[string]string{
		`{`:             "write it with tidings provision --json",
		`{"nodes": []}`: "has no nodes",
		`{"nodes": [{"name": "r", "role": "reflector"}], "out_filters": 2, "in_filters": 1}`: "there are 0 filters",
		`{"nodes": [{"name": "crawler-1", "role": "crawler"}]}`:                              `the "peer" of crawler-1: "" is not the address of a node`,
		`{"nodes": [{"name": "f", "role": "filter", "peer": "/ip4/127.0.0.1/tcp/1"}]}`:       `the "peer" of f`,
	} {
		if err := os.WriteFile(file, []byte(topology), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := (Hosting{Topology: file}).tiers(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", topology, err, want)
		}
	}
	if _, err := (Hosting{Topology: file + "x"}).tiers(); err == nil || !strings.Contains(err.Error(), "--topology") {
		t.Errorf("a missing file: %v", err)
	}
}

// The doctor of a crawler names what of its list cannot be polled.
func TestFindingsOfACrawlList(t *testing.T) {
	h := &hosting{}
	h.wrong.Store(2)
	if l := h.crawlList(tiers.State{Role: "filter"}); l != nil || crawlListFindings(l) != nil {
		t.Errorf("a filter has a list: %+v", l)
	}
	var text string
	for _, f := range crawlListFindings(h.crawlList(tiers.State{Role: "crawler", Failing: 12, Failures: []tiers.Failure{{URL: "http://a.example/", Why: "the host has no address"}}})) {
		text += f.What.String() + "\n"
	}
	const want = "entries of the list of feeds that are no addresses: 2\nfeeds of the list whose last poll failed: 12, such as http://a.example/: the host has no address\n"
	if text != want {
		t.Errorf("%s, want\n%s", text, want)
	}
}

// TestTheDoctorNamesTheNodeThatIsTooSlow and what was dropped, at both ends of a link.
func TestTheDoctorNamesTheNodeThatIsTooSlow(t *testing.T) {
	now := time.Unix(1e9, 0)
	notTaken := ""
	all := func(s tiers.State) (text string) {
		for _, f := range hostingFindings(s, notTaken, now) {
			text += f.Level + ": " + f.What.String() + "\n"
		}
		return text
	}
	for want, s := range map[string]tiers.State{
		"": {},
		"ok: this node is filter-1, a filter of a hosting centre\nnote: this node waits for reflector-2, because it or a node before it has had a full queue since 2001-09-09 01:46:40 UTC\n":                                                                               {Name: "filter-1", Role: "filter", Settled: true, WaitsFor: "reflector-2", Since: now, Down: []tiers.LinkState{{Name: "reflector-2", Full: now, Heard: now}}},
		"ok: this node is filter-1, a filter of a hosting centre\nnote: articles dropped for reflector-2, because its queue was full: 7\n":                                                                                                                                  {Name: "filter-1", Role: "filter", Settled: true, Down: []tiers.LinkState{{Name: "reflector-2", Dropped: 7, Heard: now}}},
		"ok: this node is reflector-2, a reflector of a hosting centre\nnote: articles for this node that filter-1 has dropped, because this node was too slow: 7\nnote: filter-1 is silent\n":                                                                              {Name: "reflector-2", Role: "reflector", Settled: true, Up: []tiers.LinkState{{Name: "filter-1", Dropped: 7, Heard: now.Add(-time.Hour)}}},
		"ok: this node is filter-1, a filter of a hosting centre\nnote: the last change of the topology is not complete: articles of the plan before are still under way\nnote: this node takes no articles by the new topology until it has the searches of reflector-2\n": {Name: "filter-1", Role: "filter", WaitsFor: "reflector-2", Since: now},
		"ok: this node is filter-1, a filter of a hosting centre\nnote: this node is not in the topology any more, and nobody waits for it\n":                                                                                                                               {Name: "filter-1", Role: "filter", Retired: true, Settled: true},
	} {
		if got := all(s); got != want {
			t.Errorf("%+v:\n%s, want\n%s", s, got, want)
		}
	}
	for what, heard := range map[string]time.Time{"run tidings doctor on reflector-2": now, "check whether it runs, and its address in the topology": now.Add(-time.Hour)} {
		down := []tiers.LinkState{{Name: "reflector-2", Full: now, Heard: heard}}
		findings := hostingFindings(tiers.State{Name: "filter-1", Role: "filter", Settled: true, WaitsFor: "reflector-2", Since: now, Down: down}, "", now)
		if got := findings[1].Do.String(); got != what {
			t.Errorf("silent for %v: %q, want %q", now.Sub(heard), got, what)
		}
	}
	notTaken = "its revision is old"
	if got := all(tiers.State{Name: "filter-1", Role: "filter", Settled: true}); !strings.Contains(got, "it does not take that of its file: its revision is old\n") {
		t.Error(got)
	}
}
