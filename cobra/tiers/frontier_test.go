package tiers

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tidings/cobra/tiers/tierspb"
)

// TestOneSiteCannotFillTheFrontier: a site that names any number of hosts keeps as many as it may. Those that several sites
// have named stay, and so do those that the operator has decided about.
func TestOneSiteCannotFillTheFrontier(t *testing.T) {
	f := newFrontier()
	now := time.Unix(1e9, 0)
	note := func(host string, by uint64) {
		now = now.Add(time.Second)
		f.note("http://"+host+"/", hashOf(host), by, false, now)
	}
	note("dismissed.example", 1)
	f.looked(f.leads["dismissed.example"], []string{"http://dismissed.example/feed"}, now)
	f.dismiss("http://dismissed.example/feed")
	for i := range 100 {
		note(fmt.Sprintf("good%d.example", i), 1)
		note(fmt.Sprintf("good%d.example", i), 2)
	}
	for i := range 10_000 {
		note(fmt.Sprintf("spam%d.example", i), 3)
	}
	if n := len(f.leads); n != 101+maxOnly {
		t.Errorf("%d hosts, want %d", n, 101+maxOnly)
	}
	for i := range maxHosts + 10_000 { // many sites, each with a few
		note(fmt.Sprintf("few%d.example", i), uint64(1000+i/100))
		if len(f.leads) > maxHosts {
			t.Fatalf("%d hosts", len(f.leads))
		}
	}
	for i := range 100 {
		if f.leads[fmt.Sprintf("good%d.example", i)] == nil {
			t.Errorf("host %d, which two sites named, is gone", i)
		}
	}
	if f.leads["dismissed.example"] == nil {
		t.Error("what was dismissed will be proposed again")
	}
	if f.leads[fmt.Sprintf("few%d.example", maxHosts+9_999)] == nil {
		t.Error("the last host found no room")
	}
}

// TestTheFrontierKeepsItsBooks: whatever happens, the index of hosts that one site alone has named is right, no host has more
// feeds than it may, and what is on disk gives the same frontier.
func TestTheFrontierKeepsItsBooks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := newFrontier()
		disk := map[string][]byte{}
		now := time.Unix(1e9, 0)
		host := func() string { return fmt.Sprintf("h%d.example", rapid.IntRange(0, 5).Draw(t, "host")) }
		url := func() string { return fmt.Sprintf("http://f%d.example/", rapid.IntRange(0, 9).Draw(t, "feed")) }
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(rapid.SampledFrom([]time.Duration{time.Second, 40 * 24 * time.Hour}).Draw(t, "pass"))
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 0, 1:
				h := host()
				f.note("http://"+h+"/"+strings.Repeat("x", rapid.IntRange(0, maxPage).Draw(t, "long")), hashOf(h), uint64(rapid.IntRange(0, 3).Draw(t, "by")), rapid.Bool().Draw(t, "home"), now)
			case 2:
				f.listed = listOf([]string{url()})
			case 3:
				f.dismiss(url())
			case 4:
				l := f.next(now, func(string) bool { return true })
				if l == nil {
					continue
				}
				if feed := l.unread(); feed != nil {
					f.read(l, feed, url(), "A", rapid.SampledFrom([]string{"", "rss"}).Draw(t, "format"))
				} else {
					f.looked(l, rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) string {
						return fmt.Sprintf("http://f%d.example/", rapid.IntRange(0, 9).Draw(t, "advertised"))
					}), 0, 8, rapid.ID).Draw(t, "feeds"), now)
				}
			}
			for _, op := range f.records() {
				if disk[string(op.Key[len(hostPrefix):])] = op.Value; op.Value == nil {
					delete(disk, string(op.Key[len(hostPrefix):]))
				}
			}
			again := newFrontier()
			again.listed = f.listed
			for h, value := range disk {
				if err := again.load(h, value, hostPart); err != nil {
					t.Fatal(err)
				}
			}
			if got, want := fmt.Sprint(BestFirst(again.candidates())), fmt.Sprint(BestFirst(f.candidates())); got != want {
				t.Fatalf("after a restart\n%s, want\n%s", got, want)
			}
			for _, l := range f.leads {
				if indexed := slices.Contains(f.only[l.By[0]], l); indexed != l.isOnly() {
					t.Fatalf("%s: indexed %v, want %v", l.host, indexed, l.isOnly())
				}
				open := slices.DeleteFunc(slices.Clone(l.Feeds), func(feed *tierspb.FoundFeed) bool { return feed.Dismissed })
				if len(open) > maxFound || len(l.Feeds) > 2*maxFound || len(l.Page) > maxPage {
					t.Fatalf("%s: %d feeds, %d of them proposed; the page has %d bytes", l.host, len(l.Feeds), len(open), len(l.Page))
				}
			}
			for by, list := range f.only {
				if len(list) == 0 || slices.ContainsFunc(list, func(l *lead) bool { return f.leads[l.host] != l }) {
					t.Fatalf("site %d: %d hosts, not all of which are there", by, len(list))
				}
			}
		}
	})
}

// TestCandidates are the feeds that nobody has listed or dismissed, those first whose hosts most other sites name.
func TestCandidates(t *testing.T) {
	f := newFrontier()
	now := time.Unix(1e9, 0)
	const alone, both, own = "http://alone.example/a", "http://both.example/b", "http://own.example/"
	f.note(alone, hashOf("alone.example"), 1, false, now)
	f.note(alone, hashOf("alone.example"), 1, false, now)
	f.note(both, hashOf("both.example"), 1, false, now)
	f.note(both, hashOf("both.example"), 2, false, now.Add(time.Hour))
	f.note(own, 7, 7, true, now) // the home page of a listed feed
	f.note(own, 7, 7, true, now)
	now = now.Add(2 * time.Hour)
	all := func(string) bool { return true }
	for _, want := range []string{"both.example", "alone.example", "own.example"} {
		l := f.next(now, all)
		if l == nil || l.host != want {
			t.Fatalf("asked %+v, want %s", l, want)
		}
		f.looked(l, []string{"https://" + want + "/feed", "https://" + want + "/notes", "https://" + want + "/none"}, now)
		for feed := l.unread(); feed != nil; feed = l.unread() {
			format := "atom"
			if strings.HasSuffix(feed.Url, "/none") {
				format = "" // it cannot be read
			}
			f.read(l, feed, feed.Url, "Feed", format)
		}
	}
	if l := f.next(now.Add(2*lookAge), all); l != nil {
		t.Errorf("%s is asked again, although nobody has named it since", l.host)
	}
	f.note(alone, hashOf("alone.example"), 3, false, now.Add(time.Minute))
	if l := f.next(now.Add(lookAge/2), all); l != nil {
		t.Errorf("%s is asked again too early", l.host)
	}
	if l := f.next(now.Add(lookAge), all); l == nil || l.host != "alone.example" {
		t.Errorf("asked %+v, want the host that was named since", l)
	}
	f.listed = listOf([]string{"http://both.example/feed"}) // the same by HTTP
	if !f.dismiss("https://alone.example/notes") || f.dismiss("https://alone.example/notes") || f.dismiss("https://nobody.example/") {
		t.Error("a candidate is dismissed once")
	}
	got := ""
	for _, c := range BestFirst(f.candidates()) {
		got += fmt.Sprintf("%s %s %d %d\n", c.URL, c.Format, c.Sites, c.Times)
	}
	if want := "https://alone.example/feed atom 2 3\nhttps://both.example/notes atom 2 2\nhttps://own.example/feed atom 0 1\nhttps://own.example/notes atom 0 1\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
