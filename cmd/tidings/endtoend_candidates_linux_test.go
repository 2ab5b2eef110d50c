package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"tidings/cobra/provision"
	"tidings/proxy"
)

// A crawledWeb is a Web of pages by host and path. It counts the requests.
type crawledWeb struct {
	pages map[string]string // "> ADDRESS" redirects

	mu    sync.Mutex
	asked map[string]int
}

func (w *crawledWeb) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	w.asked[r.Host+r.URL.Path]++
	w.mu.Unlock()
	page, ok := w.pages[r.Host+r.URL.Path]
	to, redirects := strings.CutPrefix(page, "> ")
	switch {
	case !ok:
		http.NotFound(out, r)
	case redirects:
		http.Redirect(out, r, to, http.StatusFound)
	default:
		if strings.HasPrefix(page, "<rss") {
			out.Header().Set("Content-Type", "application/rss+xml")
		}
		_, _ = fmt.Fprint(out, page)
	}
}

// count returns how often an address was asked for, and how often any was.
func (w *crawledWeb) count(address string) (n, all int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, times := range w.asked {
		all += times
	}
	return w.asked[address], all
}

// startCrawler starts a crawler that is alone in its hosting centre.
func startCrawler(t *testing.T, network, list, discover string) *nodeProcess {
	t.Helper()
	dir := t.TempDir()
	n := startNodeIn(t, filepath.Join(dir, "node"), "--allow-private-origins", "--network", network, "--poll-interval", "1s")
	raw, err := json.Marshal(provision.Topology{OutFilters: 1, Nodes: []provision.Node{{Name: "crawler-1", Role: provision.Crawler, Peer: n.peer}}})
	if err != nil {
		t.Fatal(err)
	}
	topology := filepath.Join(dir, "topology.json")
	if err := os.WriteFile(topology, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	n.stop()
	n.flags = []string{"--allow-private-origins", "--topology", topology, "--crawl-list", list, "--discover", discover}
	(&hostingCentre{}).again(n)
	return n
}

// candidates returns what the command prints.
func (r *nodeProcess) candidates(t *testing.T, args ...string) string {
	t.Helper()
	var out strings.Builder
	if err := command(t.Context(), append(append([]string{"candidates"}, args...), "--http", r.http, "--data", r.dir), strings.NewReader(""), &out, &out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestACrawlerFindsFeeds: a crawler that may looks at the sites to which the articles of its feed link, and prints the feeds that
// they advertise, in the form that its list takes. It obeys robots.txt, remembers everything after a restart, and proposes
// neither what is in its list nor what was dismissed. No link, advertised feed or redirect of a stranger leads it to a program
// on its own machine, although it may poll private addresses.
func TestACrawlerFindsFeeds(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	if !inOwnNetwork(t) {
		return
	}
	var inside atomic.Int64
	secret := serveAt(t, "127.0.0.1:0", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		inside.Add(1)
		_, _ = fmt.Fprint(w, `<rss version="2.0"><channel><title>Secret</title><item><title>Secret</title></item></channel></rss>`)
	}))
	_, port, err := net.SplitHostPort(secret)
	if err != nil {
		t.Fatal(err)
	}
	advertises := func(address string) string {
		return `<html><head><link rel="alternate" type="application/rss+xml" href="` + address + `"></head></html>`
	}
	document := func(title, content string) string {
		return `<rss version="2.0"><channel><title>` + title + `</title><item><title>One</title><description><![CDATA[` + content + `]]></description></item></channel></rss>`
	}
	listed, blog, other, forbidden, traps := publicAddress(0), publicAddress(1), publicAddress(2), publicAddress(3), publicAddress(4)
	article := ""
	for _, to := range []string{
		blog + "/post", other + "/post", forbidden + "/post", secret + "/", "localhost:" + port + "/", "2130706433:" + port + "/", "[::1]:" + port + "/",
		"169.254.169.254/latest/meta-data/", traps + "/", publicAddress(5) + "/", publicAddress(6) + "/",
	} {
		article += `<a href="http://` + to + `">see</a> `
	}
	web := &crawledWeb{asked: map[string]int{}, pages: map[string]string{
		listed + "/feed":                 document("Links", article),
		blog + "/post":                   advertises("/feed.xml"),
		blog + "/feed.xml":               document("The harbour blog", "text"),
		other + "/post":                  advertises("/feed.xml"),
		other + "/feed.xml":              document("The other blog", "text"),
		forbidden + "/robots.txt":        "User-agent: *\nDisallow: /post\n",
		forbidden + "/post":              advertises("/feed.xml"),
		traps + "/":                      advertises("http://" + secret + "/feed"),
		publicAddress(5) + "/":           "> http://" + secret + "/page",
		publicAddress(6) + "/":           advertises("/feed.xml"),
		publicAddress(6) + "/robots.txt": "> http://" + secret + "/robots.txt",
	}}
	serveAt(t, ":80", web)
	list := filepath.Join(t.TempDir(), "feeds.txt")
	if err := os.WriteFile(list, []byte("http://"+listed+"/feed\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	hosting := func(n *nodeProcess) (h proxy.Hosting, err error) {
		s, err := askJSON[proxy.Status](n, "status")
		if err == nil && (s.Hosting == nil || s.Hosting.Discovery == nil) {
			err = fmt.Errorf("hosting %+v", s.Hosting)
		}
		if err != nil {
			return h, err
		}
		return *s.Hosting, nil
	}

	without := startCrawler(t, "without", list, "0")
	eventually(t, timeout, "the article", func() error {
		h, err := hosting(without)
		if err == nil && h.Articles == 0 {
			err = fmt.Errorf("%+v", h)
		}
		return err
	})
	if said := without.candidates(t, "list"); said != "This crawler does not look for feeds: start it with --discover N.\n" {
		t.Errorf("without a budget: %q", said)
	}
	without.stop()
	if polls, all := web.count(listed + "/feed"); polls != all || polls == 0 {
		t.Errorf("without a budget, %d requests besides %d polls", all-polls, polls)
	}

	n := startCrawler(t, "with", list, "3600")
	eventually(t, 2*timeout, "all hosts to be looked at", func() error {
		for _, address := range []string{blog + "/feed.xml", other + "/feed.xml", forbidden + "/robots.txt", traps + "/", publicAddress(5) + "/", publicAddress(6) + "/robots.txt"} {
			if times, _ := web.count(address); times == 0 {
				return fmt.Errorf("%s was not asked for", address)
			}
		}
		h, err := hosting(n)
		if err == nil && (h.Discovery.Candidates != 2 || h.Discovery.Hosts != 10 || h.Discovery.Requests < 10) {
			err = fmt.Errorf("%+v", h.Discovery)
		}
		return err
	})
	if said, err := n.runCommand("status"); err != nil || !strings.Contains(said, "2 feeds, from 10 hosts that articles name; ") {
		t.Errorf("%s%v", said, err)
	}
	shown := n.candidates(t, "list")
	for _, want := range []string{
		"# The harbour blog (rss): 1 article of 1 other site link to its host, since ", "\nhttp://" + blog + "/feed.xml\n", "\nhttp://" + other + "/feed.xml\n",
	} {
		if !strings.Contains(shown, want) || strings.Count(shown, "\n") != 4 {
			t.Errorf("the list lacks %q:\n%s", want, shown)
		}
	}
	if said := n.candidates(t, "list", "--least", "2"); said != "So many sites link to none of the 2 candidates.\n" {
		t.Errorf("said %q", said)
	}
	if said := n.candidates(t, "list", "--opml"); !strings.Contains(said, `xmlUrl="http://`+blog+`/feed.xml"`) {
		t.Errorf("OPML: %s", said)
	}
	if times, _ := web.count(forbidden + "/post"); times > 0 {
		t.Errorf("a page was asked for that robots.txt forbids")
	}
	n.candidates(t, "dismiss", "http://"+other+"/feed.xml")
	n.kill()
	(&hostingCentre{}).again(n)
	if shown = n.candidates(t, "list"); strings.Count(shown, "\n") != 2 || !strings.Contains(shown, blog) {
		t.Errorf("after a restart:\n%s", shown)
	}
	f, err := os.OpenFile(list, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(shown); err != nil || f.Close() != nil {
		t.Fatal(err)
	}
	eventually(t, timeout, "the list to be read", func() error {
		h, err := hosting(n)
		if err == nil && (h.Feeds != 2 || h.Discovery.Candidates != 0) {
			err = fmt.Errorf("%d feeds, %+v", h.Feeds, h.Discovery)
		}
		return err
	})
	if text := n.metric("tidings_tiers_looks_total"); text == "" {
		t.Error("no metric of the requests")
	}
	if times := inside.Load(); times > 0 {
		t.Errorf("a program on this machine was asked %d times", times)
	}
	if a, err := http.Get("http://" + secret); err != nil || inside.Load() != 1 { // otherwise the test would show nothing
		t.Errorf("%v %v", a, err)
	} else {
		a.Body.Close()
	}
}
