//go:build unix

package main

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"tidings/cobra/provision"
	"tidings/internal/longtest"
	"tidings/proxy"
)

// A hostingCentre is 1 + 3 + 3 processes, and the web server that they crawl.
type hostingCentre struct {
	nodes    map[string]*nodeProcess
	origin   *articleOrigin
	feeds    int
	articles atomic.Int64
	watches  map[string][]string // addresses of keyword feeds by the name of their reflector
	plan     provision.Topology
	apply    func(code int, want string) error // gives the nodes the plan, and compares the result with what is wanted
}

// centreWords are the queries of the three reflectors; each article has one of them.
var centreWords = []string{"harbour", "glacier", "orchard"}

// startCentre plans a hosting centre, starts its nodes once, so that they have ids and addresses, and then again with the
// topology.
func startCentre(t *testing.T, whenFull string) *hostingCentre {
	t.Helper()
	c := &hostingCentre{nodes: map[string]*nodeProcess{}, origin: &articleOrigin{feeds: map[string][]string{}}, feeds: 6, watches: map[string][]string{}}
	server := httptest.NewServer(c.origin)
	t.Cleanup(server.Close)
	plan := provision.Topology{Crawlers: 1, Filters: 3, Reflectors: 3, InFilters: 1, OutFilters: 3}
	crawler := provision.Node{Name: "crawler-1", Role: provision.Crawler}
	for i := range 3 {
		filter, reflector := fmt.Sprintf("filter-1-%d", i+1), fmt.Sprintf("reflector-%d", i+1)
		crawler.Links = append(crawler.Links, filter)
		plan.Nodes = append(plan.Nodes, provision.Node{Name: filter, Role: provision.Filter, Links: []string{reflector}}, provision.Node{Name: reflector, Role: provision.Reflector})
	}
	plan.Nodes = append(plan.Nodes, crawler)
	dir := t.TempDir()
	list := filepath.Join(dir, "feeds.txt")
	for i := range plan.Nodes {
		n := &plan.Nodes[i]
		flags := []string{"--allow-private-origins"}
		if i == 0 {
			flags = append(flags, "--network", "centre", "--poll-interval", "1s", "--maintenance-interval", "20s", "--beat-interval", "20s")
		} else {
			flags = append(flags, "--bootstrap", c.nodes[plan.Nodes[0].Name].peer)
		}
		c.nodes[n.Name] = startNodeIn(t, filepath.Join(t.TempDir(), n.Name), flags...)
		n.Peer = c.nodes[n.Name].peer
	}
	waitForMembers(t, slices.Collect(maps.Values(c.nodes)))
	var addresses strings.Builder
	for i := range c.feeds {
		fmt.Fprintf(&addresses, "%s/feed%d\n", server.URL, i)
	}
	addresses.WriteString("no address\n")
	if err := os.WriteFile(list, []byte(addresses.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	c.plan = plan
	c.apply = func(code int, want string) error {
		running := maps.Clone(c.nodes)
		maps.DeleteFunc(running, func(name string, _ *nodeProcess) bool {
			return !slices.ContainsFunc(c.plan.Nodes, func(n provision.Node) bool { return n.Name == name })
		})
		if got, out := applied(t, c.plan, dir, running, "--crawl-list", list, "--when-full", whenFull); got != code || !strings.Contains(out, want) {
			return fmt.Errorf("exit code %d, want %d with %q:\n%s", got, code, want, out)
		}
		return nil
	}
	if err := c.apply(exitFailed, "do not run as planned: 7 of 7"); err != nil {
		t.Error(err)
	}
	for _, n := range plan.Nodes {
		p := c.nodes[n.Name]
		p.stop()
		p.flags = []string{"--allow-private-origins", "--config", filepath.Join(dir, n.Name+".toml"), "--keyword-items", "200"}
		c.again(p)
	}
	eventually(t, 3*timeout, "all nodes to run as planned", func() error { return c.apply(exitDone, "runs as planned") })
	for i, word := range centreWords {
		name := fmt.Sprintf("reflector-%d", i+1)
		for _, query := range []string{word, word + " article"} {
			out, err := c.nodes[name].runCommand("watch", query)
			if err != nil {
				t.Fatalf("watch %s: %v", query, err)
			}
			c.watches[name] = append(c.watches[name], strings.Fields(out)[0])
		}
	}
	for _, name := range []string{"crawler-1", "filter-1-1"} {
		if _, err := c.nodes[name].runCommand("watch", "anything"); err == nil || !strings.Contains(err.Error(), "make searches at a reflector: reflector-1, reflector-2, reflector-3") {
			t.Errorf("a search at %s: %v", name, err)
		}
	}
	eventually(t, timeout, "the crawler to have read its list", func() error {
		s, err := c.status("crawler-1")
		if err != nil {
			return err
		}
		if l := s.CrawlList; l == nil || l.Wrong != 1 || l.Failing != 0 || s.Feeds != c.feeds {
			return fmt.Errorf("%d feeds, %+v", s.Feeds, l)
		}
		return nil
	})
	eventually(t, timeout, "the filters to have all queries", func() error {
		for name := range c.watches {
			h, err := c.status(name)
			if err != nil {
				return err
			}
			if !h.Placed || h.Queries != 2 {
				return fmt.Errorf("%s: %+v", name, h)
			}
		}
		return nil
	})
	return c
}

// again starts a node that has ended, with the flags that it has.
func (c *hostingCentre) again(p *nodeProcess) {
	listen, _, _ := strings.Cut(p.peer, "/p2p/")
	p.start(p.cmd.Path, p.http, listen)
}

// publish publishes articles with content of so many bytes, one for each reflector in turn.
func (c *hostingCentre) publish(n, size int) {
	for range n {
		i := int(c.articles.Add(1)) - 1
		c.origin.publish(fmt.Sprintf("/feed%d", i%c.feeds), fmt.Sprintf("Article %04d: %s %s", i, centreWords[i%3], strings.Repeat("nothing else happens ", size/21)))
	}
}

// missing returns the articles that the feeds of a reflector lack. Each article that is there is there once, and those of a
// feed are in their order.
func (c *hostingCentre) missing(t *testing.T, name string) (missing []string) {
	t.Helper()
	r := slices.Index([]string{"reflector-1", "reflector-2", "reflector-3"}, name)
	for _, address := range c.watches[name] {
		f, _, err := readFeed(address)
		if err != nil {
			t.Fatal(err)
		}
		shown := titles(f)
		for i := r; i < int(c.articles.Load()); i += 3 {
			title := fmt.Sprintf("Article %04d", i)
			switch n := strings.Count(strings.Join(shown, "\n"), title); {
			case n == 0:
				missing = append(missing, title)
			case n > 1:
				t.Errorf("%s shows %s %d times", name, title, n)
			}
		}
		last := map[int]string{}
		for _, title := range shown { // the newest first
			var i int
			if _, err := fmt.Sscanf(title, "Article %d", &i); err != nil {
				t.Errorf("%s shows %q", name, title)
			}
			if before := last[i%c.feeds]; before != "" && title > before {
				t.Errorf("%s shows %s before %s", name, title, before)
			}
			last[i%c.feeds] = title
		}
	}
	return missing
}

// status returns what a node says about its part in the centre. A node that was started a moment ago says nothing about it
// until it has joined its network.
func (c *hostingCentre) status(name string) (*proxy.Hosting, error) {
	s, err := askJSON[proxy.Status](c.nodes[name], "status")
	if err == nil && s.Hosting == nil {
		err = fmt.Errorf("it is %s", s.State)
	}
	if err != nil {
		return nil, fmt.Errorf("status of %s: %w", name, err)
	}
	return s.Hosting, nil
}

// hosting is status of a node that has joined.
func (c *hostingCentre) hosting(t *testing.T, name string) *proxy.Hosting {
	t.Helper()
	h, err := c.status(name)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// TestAHostingCentreLosesNothing: a burst of ten times the usual rate, a reflector that is stopped meanwhile (SIGSTOP), and
// a filter that is killed. With blocking, filter and crawler wait and say for whom, and afterwards each keyword feed has
// every article, once. With dropping, nobody waits, and what the stopped reflector lacks is what it was told.
func TestAHostingCentreLosesNothing(t *testing.T) {
	longtest.Only(t, "seven processes, and a minute of standstill")
	for _, whenFull := range []string{"wait", "drop"} {
		t.Run(whenFull, func(t *testing.T) {
			c := startCentre(t, whenFull)
			second := time.NewTicker(time.Second)
			defer second.Stop()
			for range 10 { // the usual rate
				c.publish(1, 20_000)
				<-second.C
			}
			stopped := c.nodes["reflector-2"]
			if err := stopped.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			until := time.Now().Add(time.Minute)
			for n := 0; time.Now().Before(until); n++ {
				if n < 55 { // ten times as many, as long as the feeds of 200 articles show all
					c.publish(10, 20_000)
				}
				<-second.C
			}
			waits := map[string]string{}
			for _, name := range []string{"crawler-1", "filter-1-1", "filter-1-2", "filter-1-3"} {
				waits[name] = c.hosting(t, name).WaitsFor
			}
			want := map[string]string{"crawler-1": "", "filter-1-1": "", "filter-1-2": "", "filter-1-3": ""}
			if whenFull == "wait" {
				want["crawler-1"], want["filter-1-2"] = "reflector-2", "reflector-2"
			}
			t.Logf("%s: %v after %d articles", whenFull, waits, c.articles.Load())
			if fmt.Sprint(waits) != fmt.Sprint(want) {
				t.Errorf("nodes wait for %v, want %v", waits, want)
			}
			if err := stopped.cmd.Process.Signal(syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
			filter := c.nodes["filter-1-3"]
			filter.kill()
			c.publish(10, 20_000)
			c.again(filter)
			c.publish(10, 20_000)
			eventually(t, 3*timeout, "all queues to be empty", func() error {
				for _, name := range slices.Sorted(maps.Keys(c.nodes)) { // as articles go, so that none is overlooked
					h, err := c.status(name)
					if err != nil {
						return err
					}
					if name == "crawler-1" && int64(h.Articles) < c.articles.Load() {
						return fmt.Errorf("%d articles found of %d", h.Articles, c.articles.Load())
					}
					for _, l := range h.Links {
						if l.Waiting > 0 {
							return fmt.Errorf("%s %s %s: %d articles wait", name, l.Way, l.Name, l.Waiting)
						}
					}
				}
				return nil
			})
			for name := range c.watches {
				missing := c.missing(t, name)
				told := 0
				for _, l := range c.hosting(t, name).Links {
					told += int(l.Dropped)
				}
				t.Logf("%s: %s lacks %d articles and was told of %d", whenFull, name, len(missing), told)
				if whenFull == "wait" && (len(missing) > 0 || told > 0) {
					t.Errorf("%s lacks %v", name, missing)
				}
				if whenFull == "drop" && (len(missing) != 2*told || (told > 0) != (name == "reflector-2")) {
					t.Errorf("%s lacks %d articles in its two feeds and was told of %d", name, len(missing), told)
				}
			}
			var answers []string
			for name, n := range c.nodes {
				status, err := n.runCommand("status", "--json")
				file := filepath.Join(t.TempDir(), name+".json")
				if err := errors.Join(err, os.WriteFile(file, []byte(status), 0o600)); err != nil {
					t.Fatal(err)
				}
				answers = append(answers, "--measured", file)
			}
			var planned, said bytes.Buffer
			if code := run(t.Context(), append([]string{"provision"}, answers...), strings.NewReader(""), &planned, &said); code != exitDone || !strings.Contains(said.String(), "6 feeds, each polled every") {
				t.Errorf("planned anew: exit code %d\n%s%s", code, planned.String(), said.String())
			}
			t.Logf("planned anew from:\n%s", said.String())
			if code, text := c.nodes["crawler-1"].ask("/metrics"); code != http.StatusOK || !strings.Contains(text, "tidings_tiers_found_total ") {
				t.Errorf("metrics: %d", code)
			}
		})
	}
}

// TestAHostingCentreChangesItsPlan: while articles come, a filter leaves the plan, and its reflector's searches move to
// another, which serves two reflectors then. Every article arrives once, and the filter says when it may be stopped.
func TestAHostingCentreChangesItsPlan(t *testing.T) {
	longtest.Only(t, "seven processes")
	c := startCentre(t, "wait")
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	rate := func(n int) {
		for range n {
			c.publish(1, 20_000)
			<-tick.C
		}
	}
	rate(50)
	next := c.plan
	next.Filters, next.OutFilters, next.Nodes = 2, 2, nil
	for _, n := range c.plan.Nodes {
		switch n.Name {
		case "filter-1-2":
			continue
		case "filter-1-1", "filter-1-3":
			n.Links = []string{"reflector-1", "reflector-2", "reflector-3"}
		case "crawler-1":
			n.Links = []string{"filter-1-1", "filter-1-3"}
		}
		next.Nodes = append(next.Nodes, n)
	}
	c.plan = next
	if err := c.apply(exitFailed, "runs another plan"); err != nil {
		t.Error(err)
	}
	rate(50)
	eventually(t, 3*timeout, "the change to be complete", func() error {
		if err := c.apply(exitDone, "runs as planned"); err != nil {
			return err
		}
		h, err := c.status("filter-1-2")
		if err == nil && (!h.Retired || !h.Settled) {
			err = fmt.Errorf("%+v", h)
		}
		return err
	})
	c.nodes["filter-1-2"].stop()
	rate(50)
	for name := range c.watches {
		eventually(t, timeout, "all articles", func() error {
			if missing := c.missing(t, name); len(missing) > 0 {
				return fmt.Errorf("%s lacks %v", name, missing)
			}
			return nil
		})
	}
}
