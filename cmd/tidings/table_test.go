package main

import (
	"strings"
	"testing"
	"time"
	"unicode"

	"pgregory.net/rapid"

	"tidings/internal/locale"
	"tidings/proxy"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func channels() []proxy.Channel {
	return []proxy.Channel{
		{URL: "https://go.dev/blog/feed.atom", Title: "The Go Blog", State: proxy.StateOK, Items: 20, Subscribers: 1204,
			Newest: proxy.OptionalTime(noon.Add(-5 * time.Hour)), Why: "the first of 3 pollers", Tags: []string{"Go"}, ReadURL: "http://127.0.0.1:8190/f/2c7e/https://go.dev/blog/feed.atom",
			LastPoll: proxy.OptionalTime(noon.Add(-3 * time.Minute)), NextPoll: proxy.OptionalTime(noon.Add(27 * time.Minute))},
		{URL: "https://xn--j6w193g.example/a/rather/long/address.xml", Title: "新聞\x1b[2J\u202eevil", State: proxy.StateNew, Subscribers: 1},
		{URL: "https://away.example/feed", State: "unreachable", Error: "away.example refuses the connection",
			Since: proxy.OptionalTime(noon.Add(-50 * time.Hour)), Moved: "https://new.example/feed", ReadURL: "http://127.0.0.1:8190/f/77aa/https://away.example/feed"},
	}
}

func TestListHasOneLineForEachFeed(t *testing.T) {
	got := new(listCommand).listTable(channels(), terminal{}, noon)
	want := `
STATE        FEED         ITEMS  LAST NEW  ADDRESS
ok           The Go Blog     20  5 h ago   https://go.dev/blog/feed.atom
new          新聞[2Jevil      0  -         https://xn--j6w193g.example/a/rather/long/address.xml
unreachable  (untitled)       0  -         https://away.example/feed
`
	if "\n"+got != want {
		t.Errorf("got:\n%s\nwant:%s", got, want)
	}
}

func TestListOfFailingFeedsInDetail(t *testing.T) {
	list := listCommand{Failing: true, Verbose: true}
	got := list.listTable(channels(), terminal{}, noon)
	want := `
STATE        FEED        ITEMS  LAST NEW  ADDRESS
unreachable  (untitled)      0  -         https://away.example/feed
             away.example refuses the connection, for 2 days
             the web server says that the feed is now at https://new.example/feed
             0 readers
             address for readers: http://127.0.0.1:8190/f/77aa/https://away.example/feed
`
	if "\n"+got != want {
		t.Errorf("got:\n%s\nwant:%s", got, want)
	}
	want = "1204 readers · polled 3 min ago · next poll in 27 min: the first of 3 pollers\n"
	if got := (&listCommand{Verbose: true}).listTable(channels(), terminal{}, noon); !strings.Contains(got, want) {
		t.Errorf("got:\n%s\nwant in it:\n%s", got, want)
	}
}

func TestListHasASummaryOnATerminal(t *testing.T) {
	wide := terminal{width: 120}
	for _, c := range []struct {
		list     listCommand
		channels []proxy.Channel
		want     string
	}{
		{listCommand{}, channels(), "3 feeds, 1 with problems: tidings list --failing -v\n"},
	} {
		if got := c.list.listTable(c.channels, wide, noon); !strings.HasSuffix(got, c.want) {
			t.Errorf("got:\n%s\nwant at its end:\n%s", got, c.want)
		}
	}
}

func TestAnEmptyListSaysWhy(t *testing.T) {
	for _, c := range []struct {
		list     listCommand
		channels []proxy.Channel
		want     string
	}{
		{listCommand{}, nil, "No subscriptions yet: tidings subscribe URL"},
		{listCommand{Tag: "Go"}, nil, "No subscriptions yet: tidings subscribe URL"},
		{listCommand{}, channels(), ""},
		{listCommand{Failing: true}, channels()[:2], "No problems in 2 feeds."},
		{listCommand{Failing: true, Tag: "Go"}, channels(), "No problems in 1 feed."},
		{listCommand{Tag: "solar"}, channels(), `No feeds with the tag "solar".`},
		{listCommand{Tag: "G"}, channels(), `No feeds with the tag "G".`},
		{listCommand{Tag: "News"}, []proxy.Channel{{Tags: []string{"News/Local"}}}, ""},
	} {
		if got := c.list.emptyMessage(c.channels); got != c.want {
			t.Errorf("%+v: %q, want %q", c.list, got, c.want)
		}
	}
}

func TestListSaysThatAKeyWasChanged(t *testing.T) {
	c := channels()[0]
	c.Publisher, c.PublisherSince, c.KeyChange = "SHA256:new", proxy.OptionalTime(noon.Add(-2*time.Hour)), "the publisher's key was changed from SHA256:old to SHA256:new: the origin shows it"
	c.FormerKeys = []proxy.FormerKey{{Key: "SHA256:old", Revoked: true}}
	want := "signed by SHA256:new · for 2 h\n       " + c.KeyChange + " (2 h ago)\n"
	if got := (&listCommand{Verbose: true}).listTable([]proxy.Channel{c}, terminal{}, noon); !strings.Contains(got, want) {
		t.Errorf("got:\n%s\nwant in it:\n%s", got, want)
	}
}

func TestListIsCutToTheTerminal(t *testing.T) {
	for _, width := range []int{minTerminalWidth, 60, 80, 120} {
		got := new(listCommand).listTable(channels()[:2], terminal{width: width}, noon)
		for line := range strings.Lines(got) {
			if n := displayWidth(strings.TrimSuffix(line, "\n")); n > width && width > 70 {
				t.Errorf("%d columns where there are %d: %q", n, width, line)
			}
		}
		if cutOff := strings.Contains(got, "…"); cutOff != (width < 120) {
			t.Errorf("%d columns:\n%s", width, got)
		}
	}
}

func TestColoursOnATerminalOnly(t *testing.T) {
	if got := new(listCommand).listTable(channels(), terminal{width: 80}, noon); strings.Contains(got, "\x1b") {
		t.Errorf("%q", got)
	}
	coloured := new(listCommand).listTable(channels(), terminal{width: 80, colours: true}, noon)
	if !strings.Contains(coloured, "\x1b[32mok\x1b[0m") || strings.Contains(coloured, "\x1b[2J") {
		t.Errorf("%q", coloured)
	}
	var b strings.Builder
	if terminalOf(&b) != (terminal{}) {
		t.Error("a buffer is a terminal")
	}
}

func TestStatusAndDoctorForPeople(t *testing.T) {
	st := proxy.Status{State: "ok", Network: "tidings", Scheme: "bound", EstimateN: 1234, Peers: 40, Subscriptions: 3,
		ChannelsOwned: 7, ChannelsPolled: 5, UptimeS: 7300, Addresses: []string{"/ip4/a", "/ip4/b"}, Warnings: []proxy.Warning{{What: locale.Text{"the disk is full"}}},
		RejectedItems: []proxy.RejectedItem{{URL: "https://a/", Seq: 13, Key: "SHA256:k", Why: "who is that", At: proxy.OptionalTime(noon.Add(-3 * time.Minute))}, {Why: "not a publication", At: proxy.OptionalTime(noon.Add(-2 * time.Hour))}}}
	for _, want := range []string{"members        about 1234\n", "up for         2 h\n", "addresses      /ip4/a\n               /ip4/b\n", "warning        The disk is full.\n",
		"refused        item 13 of https://a/, signed by SHA256:k, 3 min ago: who is that\n", "refused        an item, 2 h ago: not a publication\n"} {
		if got := statusTable(st, terminal{}, noon); !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	got := findingsTable([]proxy.Finding{
		{Level: "ok", What: locale.Text{"readers are served"}},
		{Level: "problem", What: locale.Text{"the disk is full: nothing new can be kept"}, Do: locale.Text{"make room"}},
	}, terminal{width: minTerminalWidth})
	want := `
ok       readers are served
problem  the disk is full: nothing new
         can be kept
         → make room
`
	if "\n"+got != want {
		t.Errorf("got:\n%s\nwant:%s", got, want)
	}
}

func TestForeignTextsHaveNoControlCharacters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := oneLine(rapid.String().Draw(t, "text"))
		for _, r := range text {
			if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == 0x2028 || r == 0x2029 {
				t.Fatalf("%q holds %U", text, r)
			}
		}
		width := rapid.IntRange(1, 50).Draw(t, "width")
		if n := displayWidth(truncate(text, width)); n > width {
			t.Fatalf("%q cut to %d columns takes %d", text, width, n)
		}
		if got := strings.Join(wrap(text, width), " "); got != text {
			t.Fatalf("%q wrapped is %q", text, got)
		}
	})
}

func TestTimeFormats(t *testing.T) {
	for _, c := range []struct {
		d          time.Duration
		ago, until string
	}{
		{0, "now", "now"},
		{-time.Hour, "now", "now"},
		{59 * time.Second, "59 s ago", "in 59 s"},
		{time.Minute, "1 min ago", "in 1 min"},
		{23 * time.Hour, "23 h ago", "in 23 h"},
		{24 * time.Hour, "1 day ago", "in 1 day"},
		{50 * time.Hour, "2 days ago", "in 2 days"},
		{90*24*time.Hour - time.Second, "89 days ago", "in 90 days"},
	} {
		past, future := noon.Add(-c.d), noon.Add(c.d)
		if got := ago(&past, noon); got != c.ago {
			t.Errorf("%v: %q, want %q", c.d, got, c.ago)
		}
		if got := until(&future, noon); got != c.until {
			t.Errorf("%v: %q, want %q", c.d, got, c.until)
		}
	}
	if ago(nil, noon) != "-" || until(nil, noon) != "-" || since(nil, noon) != "" {
		t.Error("an unknown time is said to be something")
	}
}

// A list says how many items wait for witnesses.
func TestAListSaysHowManyItemsWait(t *testing.T) {
	for waiting, want := range map[int]string{0: "", 1: " · 1 item waits for witnesses", 2: " · 2 items wait for witnesses"} {
		got := publishingFacts(proxy.Channel{MinProvenance: proxy.ProvenanceWitnessed, Waiting: waiting}, time.Time{})
		if _, after, _ := strings.Cut(got, "shows all)"); after != want {
			t.Errorf("%d wait: %q", waiting, got)
		}
	}
}
