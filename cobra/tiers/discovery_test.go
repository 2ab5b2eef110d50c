package tiers

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"tidings/cobra/tiers/tierspb"
	"tidings/internal/env"
)

// A blogWorld is a Web for crawlers: one feed whose articles link to blogs, the blogs' pages, and their feeds.
type blogWorld struct {
	t        *testing.T
	document []byte         // of the feed
	asked    map[string]int // requests besides polls, by address
	costs    func() int     // requests that an answer takes
}

const linking = "http://linking.example/feed"

func item(n int, content string) string {
	return fmt.Sprintf("<item><guid>%d</guid><title>%d</title><description><![CDATA[%s]]></description></item>", n, n, content)
}

func rss(title, link, items string) string {
	return `<rss version="2.0"><channel><title>` + title + `</title><link>` + link + `</link>` + items + `</channel></rss>`
}

// newBlogWorld returns a world whose feed has two articles about each blog.
func newBlogWorld(t *testing.T, blogs int, costs func() int) *blogWorld {
	var items strings.Builder
	for i := range 2 * blogs {
		items.WriteString(item(i, fmt.Sprintf(`<a href="http://blog%d.example/%d">a blog</a> <a href="/self">and itself</a>`, i%blogs, i)))
	}
	return &blogWorld{t: t, document: []byte(rss("Links", "http://linking.example/", items.String())), asked: map[string]int{}, costs: costs}
}

// answer returns what an origin answers.
func (w *blogWorld) answer(r env.Request) env.Answer {
	a := env.Answer{Status: 200, FinalURL: r.URL, ContentType: "text/html", Requests: w.costs()}
	host := hostPart(r.URL)
	if r.URL != linking {
		w.asked[r.URL]++
	}
	switch {
	case r.URL == linking:
		a.Body, a.ContentType = w.document, "application/rss+xml"
	case strings.HasSuffix(r.URL, "/feed.xml"):
		a.Body, a.ContentType = []byte(rss("Blog "+host, "http://"+host+"/", item(1, "text"))), "application/rss+xml"
	case strings.HasPrefix(host, "blog"):
		a.Body = []byte(`<link rel="alternate" type="application/rss+xml" href="http://` + host + `/feed.xml">`)
	default:
		a.Status = 404
	}
	if r.URL != linking && !r.Public {
		w.t.Errorf("%s was asked for, wherever it leads", r.URL)
	}
	return a
}

// serve answers what a node has asked for.
func (w *blogWorld) serve(n *Tiers, m *memory) {
	for _, f := range m.fetched {
		n.Answered(f.Handle, w.answer(f.Request))
	}
	m.fetched = nil
}

// TestTheBudgetIsKept: in no hour does a crawler spend more than its budget, and what its last request took beyond one, however
// many hosts wait and however often it restarts. It asks for each page and each feed once. What it has found is
// still known after restarts.
func TestTheBudgetIsKept(t *testing.T) {
	const most = 5
	for seed := range uint64(10) {
		dice := rand.New(rand.NewPCG(seed, 3))
		w := newBlogWorld(t, 50, func() int { return 1 + dice.IntN(most) })
		m := newMemory()
		n := start(t, "c", m, nil)
		n.SetFeeds([]string{linking})
		type spent struct {
			at   time.Time
			cost int
		}
		var all []spent
		for range 12 * 60 {
			m.now = m.now.Add(time.Minute)
			n.Run(m.now)
			looks := 0
			for _, f := range m.fetched {
				if f.URL != linking {
					looks++
				}
			}
			if looks > 1 {
				t.Fatalf("seed %d: %d looks at once", seed, looks)
			}
			before := n.stats.Looks
			w.serve(n, m)
			if cost := int(n.stats.Looks - before); cost > 0 {
				all = append(all, spent{m.now, cost})
			}
			if dice.IntN(60) == 0 {
				n.Run(m.now.Add(hostsInterval)) // what was named is on disk
				known := len(n.Candidates())
				n = start(t, "c", m, nil)
				if got := len(n.Candidates()); got != known {
					t.Fatalf("seed %d: %d candidates after a restart, want %d", seed, got, known)
				}
				n.SetFeeds([]string{linking})
				all = nil // a node that starts does not know what it has spent, and waits a little
			}
			sum := 0
			for _, s := range slices.Backward(all) {
				if m.now.Sub(s.at) >= time.Hour {
					break
				}
				sum += s.cost
			}
			if sum > 60+most-1 {
				t.Fatalf("seed %d: %d requests in an hour", seed, sum)
			}
		}
		for url, times := range w.asked {
			if times > 1 {
				t.Errorf("seed %d: %s was asked for %d times", seed, url, times)
			}
		}
		if got := n.Candidates(); len(got) != 50 || got[0].Format != "rss" || !strings.HasPrefix(got[0].Title, "Blog blog") || got[0].Sites != 1 || got[0].Times != 2 {
			t.Errorf("seed %d: %d candidates: %+v", seed, len(got), got[:min(len(got), 1)])
		}
	}
}

// TestWithoutABudgetNothingIsAsked, and nothing is noted.
func TestWithoutABudgetNothingIsAsked(t *testing.T) {
	w := newBlogWorld(t, 5, func() int { return 1 })
	m := newMemory()
	n := start(t, "c", m, nil)
	n.crawler.cfg.Discover = 0
	n.SetFeeds([]string{linking})
	for range 100 {
		m.now = m.now.Add(time.Minute)
		n.Run(m.now)
		w.serve(n, m)
	}
	if s := n.Stats(); len(w.asked) > 0 || s.Hosts > 0 || s.Looks > 0 || s.Found == 0 {
		t.Errorf("%v were asked: %+v", w.asked, s)
	}
}

// TestEachHostIsLookedAtByOneCrawler: two crawlers poll feeds that name the same hosts. Each host is asked by one of them, and
// both count for it.
func TestEachHostIsLookedAtByOneCrawler(t *testing.T) {
	ids := []env.PeerID{"d", "c"}
	disks := []*memory{newMemory(), newMemory()}
	var nodes []*Tiers
	for i, id := range ids {
		nodes = append(nodes, startIn(t, fourNodes, id, disks[i], nil))
	}
	const blogs = 20
	for i, n := range nodes {
		var pages []string
		for b := range blogs {
			pages = append(pages, fmt.Sprintf("http://blog%d.example/", b))
		}
		n.crawler.tellNames(uint64(i), "", pages)
	}
	for i, n := range nodes {
		for _, frame := range disks[1-i].sent {
			receive(t, n, ids[1-i], frame)
		}
	}
	hosts := 0
	for i, n := range nodes {
		hosts += len(n.crawler.hosts.leads)
		for host, l := range n.crawler.hosts.leads {
			if !n.crawler.owns(host) || l.others() != 2 {
				t.Errorf("crawler %d has %s, which %d sites name", i, host, l.others())
			}
		}
	}
	if hosts != blogs || len(nodes[0].crawler.hosts.leads) == 0 || len(nodes[1].crawler.hosts.leads) == 0 {
		t.Errorf("%d and %d hosts, want %d together", len(nodes[0].crawler.hosts.leads), len(nodes[1].crawler.hosts.leads), blogs)
	}
}

// TestAnswersOfHosts: what becomes of the feed that a page advertises, by what the origins answer.
func TestAnswersOfHosts(t *testing.T) {
	const page, feedURL = "http://blog.example/post", "http://blog.example/feed"
	html := func(hrefs ...string) env.Answer {
		body := ""
		for _, href := range hrefs {
			body += `<link rel="alternate" type="application/rss+xml" href="` + href + `">`
		}
		return env.Answer{Status: 200, Body: []byte(body), FinalURL: page}
	}
	feedAt := func(url string, moved bool) env.Answer {
		return env.Answer{Status: 200, Body: []byte(rss("Blog &amp; Co", "", item(1, "text"))), ContentType: "application/rss+xml", FinalURL: url, Moved: moved}
	}
	elsewhere := feedAt("http://elsewhere.example/post", false)
	for name, c := range map[string]struct {
		page, feed env.Answer
		want       string // candidates
		leads      string
	}{
		"a feed":            {html(feedURL), feedAt(feedURL, false), feedURL + " rss Blog & Co", "blog.example"},
		"a feed that moved": {html(feedURL), feedAt("http://blog.example/new", true), "http://blog.example/new rss Blog & Co", "blog.example"},
		"no feed":           {html(feedURL), html(), "", "blog.example"},
		"no document":       {html(feedURL), env.Answer{Status: 410, FinalURL: feedURL}, "", "blog.example"},
		"a private address": {html(feedURL), env.Answer{Err: env.ErrRefused, FinalURL: feedURL}, "", "blog.example"},
		"out of order":      {html(feedURL), env.Answer{Status: 503, FinalURL: feedURL}, feedURL + "  ", "blog.example"},
		"busy":              {html(feedURL), env.Answer{Err: env.ErrBusy, FinalURL: feedURL}, feedURL + "  ", "blog.example"},
		"a listed feed":     {html("http://linking.example/feed"), env.Answer{}, "", "blog.example"},
		"moved to a listed": {html(feedURL), feedAt(linking, true), "", "blog.example"},
		"the page is one":   {feedAt(page, false), env.Answer{}, page + " rss Blog & Co", "blog.example"},
		"nothing":           {html(), env.Answer{}, "", "blog.example"},
		"no page":           {env.Answer{Err: env.ErrRobots, FinalURL: page}, env.Answer{}, "", "blog.example"},
		"shortened":         {elsewhere, env.Answer{Err: env.ErrDNS}, "", "blog.example elsewhere.example"},
	} {
		m := newMemory()
		n := start(t, "c", m, nil)
		n.SetFeeds([]string{linking})
		n.crawler.cal = env.Calendar[*crawled]{} // no polls
		n.crawler.onNamed(&tierspb.Named{By: 1, Pages: []string{page}})
		answers := []env.Answer{c.page, c.feed}
		for range 10 {
			m.now = m.now.Add(time.Minute)
			n.Run(m.now)
			for _, f := range m.fetched {
				if len(answers) == 0 {
					t.Errorf("%s: %s was asked for as well", name, f.URL)
					continue
				}
				n.Answered(f.Handle, answers[0])
				answers = answers[1:]
			}
			m.fetched = nil
		}
		got := ""
		for _, candidate := range n.Candidates() {
			got += fmt.Sprintf("%s %s %s", candidate.URL, candidate.Format, candidate.Title)
		}
		var hosts []string
		_ = m.Range([]byte(hostPrefix), func(key, _ []byte) bool {
			hosts = append(hosts, string(key[len(hostPrefix):]))
			return true
		})
		slices.Sort(hosts)
		if leads := strings.Join(hosts, " "); got != c.want || leads != c.leads {
			t.Errorf("%s: candidates %q, want %q; hosts on disk %s, want %s", name, got, c.want, leads, c.leads)
		}
	}
}

// TestNamesAreTakenFromArticles: the links of the text and the article's own, one for each host, and none of the site itself.
func TestNamesAreTakenFromArticles(t *testing.T) {
	m := newMemory()
	n := start(t, "c", m, nil)
	n.SetFeeds([]string{linking})
	n.Run(m.now)
	items := `<item><link>http://story.example/1</link><description>&lt;a href="http://one.example/a"&gt;1&lt;/a&gt; &lt;a href="http://one.example/b"&gt;2&lt;/a&gt; ` +
		`&lt;a href="/self"&gt;3&lt;/a&gt; &lt;a href="mailto:a@b.example"&gt;4&lt;/a&gt; &lt;a rel="nofollow" href="http://spam.example/"&gt;5&lt;/a&gt;</description></item>`
	many := ""
	for i := range 1000 {
		many += fmt.Sprintf(`<a href="http://many%d.example/">x</a>`, i)
	}
	items += item(3, many)
	for _, f := range m.fetched {
		n.Answered(f.Handle, env.Answer{Status: 200, Body: []byte(rss("Links", "http://home.example/", items)), ContentType: "application/rss+xml", FinalURL: linking})
	}
	var got []string
	for host, l := range n.crawler.hosts.leads {
		if !strings.HasPrefix(host, "many") {
			got = append(got, fmt.Sprintf("%s %s %d", host, l.Page, l.Times))
		}
	}
	slices.Sort(got)
	want := []string{"home.example http://home.example/ 1", "one.example http://one.example/a 1", "story.example http://story.example/1 1"}
	if !slices.Equal(got, want) || len(n.crawler.hosts.leads) != len(want)+maxOutlinks {
		t.Errorf("%d hosts: %q, want %q and %d more", len(n.crawler.hosts.leads), got, want, maxOutlinks)
	}
}

// TestADismissedCandidateStaysDismissed, also after a restart, and when its page is looked at again.
func TestADismissedCandidateStaysDismissed(t *testing.T) {
	m := newMemory()
	n := start(t, "c", m, nil)
	n.crawler.onNamed(&tierspb.Named{By: 1, Pages: []string{"http://blog.example/"}})
	n.crawler.hosts.looked(n.crawler.hosts.leads["blog.example"], []string{"http://blog.example/feed"}, m.now)
	said := ""
	for range 2 {
		n.Dismiss("http://blog.example/feed", func(found bool, err error) { said += fmt.Sprint(found, err, " ") })
	}
	if said != "true <nil> false <nil> " {
		t.Errorf("said %q", said)
	}
	n = start(t, "c", m, nil)
	n.crawler.hosts.looked(n.crawler.hosts.leads["blog.example"], []string{"http://blog.example/feed"}, m.now)
	if got := n.Candidates(); len(got) > 0 {
		t.Errorf("it is proposed again: %+v", got)
	}
}

// TestPollsComeFirst: while feeds wait for their polls, no host is asked for others.
func TestPollsComeFirst(t *testing.T) {
	m := newMemory()
	n := start(t, "c", m, nil)
	var feeds []string
	for i := range maxPolls + 1 {
		feeds = append(feeds, fmt.Sprintf("http://feed%d.example/", i))
	}
	n.SetFeeds(feeds)
	n.crawler.onNamed(&tierspb.Named{By: 1, Pages: []string{"http://blog.example/"}})
	n.Run(m.now)
	waiting := m.fetched
	m.fetched = nil
	if n.Run(m.now.Add(time.Minute)); len(waiting) != maxPolls || len(m.fetched) > 0 {
		t.Errorf("%d polls, and then %+v", len(waiting), m.fetched)
	}
	for len(waiting) > 0 && !waiting[0].Public {
		n.Answered(waiting[0].Handle, env.Answer{Status: 304, FinalURL: waiting[0].URL})
		n.Run(m.now.Add(30 * time.Second))
		waiting, m.fetched = append(waiting[1:], m.fetched...), nil
	}
	n.SetFeeds(feeds[:1])
	if n.Run(m.now.Add(2 * time.Minute)); !slices.ContainsFunc(m.fetched, func(f fetched) bool { return f.Public }) {
		t.Errorf("asked %+v", m.fetched)
	}
}
