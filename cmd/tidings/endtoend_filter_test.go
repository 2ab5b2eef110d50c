package main

import (
	"fmt"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"tidings/cobra/firehose"
	"tidings/internal/longtest"
	"tidings/proxy"
)

// TestAFilterReceivesAllChannels watches words on a node with --filter and without subscriptions, while the other
// nodes subscribe to the feeds. An owner of shards is killed, then another, and then the filter itself.
func TestAFilterReceivesAllChannels(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	o := &articleOrigin{feeds: map[string][]string{}}
	server := httptest.NewServer(o)
	t.Cleanup(server.Close)
	members := longtest.Pick(5, 7)
	nodes := startNetwork(t, members, "--network", "filtered", "--poll-interval", "1s", "--maintenance-interval", "20s", "--beat-interval", "20s")
	filter := startNode(t, "--allow-private-origins", "--bootstrap", nodes[0].peer, "--filter")
	nodes = append(nodes, filter)
	waitForMembers(t, nodes)

	const feeds = 5 // a keyword feed has ten articles
	subscribe := func() {
		for i := range feeds {
			path := fmt.Sprintf("/feed%d", i)
			o.publish(path, "Beginning: nothing to look for")
			nodes[i%members].subscribe(server.URL + path)
		}
	}
	// In the long tier the feeds exist first. Their sequencers then learn that there is no filter, and ask again
	// with their next new items, half a minute later.
	if longtest.Long() {
		subscribe()
	}
	out, err := filter.runCommand("watch", "comet")
	if err != nil || !strings.Contains(out, "all feeds and pages of the network") && !strings.Contains(out, "/k/") {
		t.Fatalf("watch: %s, %v", out, err)
	}
	address := strings.Fields(out)[0]
	if longtest.Long() {
		eventually(t, 2*timeout, "the filter to hear of all shards", func() error {
			s, err := askJSON[proxy.Status](filter, "status")
			if err == nil && len(s.Warnings) > 0 {
				err = fmt.Errorf("%q", s.Warnings)
			}
			return err
		})
	} else {
		eventually(t, 2*timeout, "the owners of all shards to know the filter", func() error {
			known := 0
			for _, n := range nodes {
				of, err := strconv.Atoi(n.metric("tidings_firehose_listeners"))
				if err != nil {
					return err
				}
				known += of
			}
			if known < firehose.DefaultShards {
				return fmt.Errorf("of %d shards %d", firehose.DefaultShards, known)
			}
			return nil
		})
		subscribe()
	}
	seen := map[string]bool{}
	look := func() error {
		f, _, err := readFeed(address)
		if err != nil {
			return err
		}
		for _, it := range f.Items {
			m, err := it.Meaning(address)
			if err != nil {
				return err
			}
			seen[m.Title] = true
		}
		return nil
	}
	eventuallyEvery(t, 2*time.Second, 2*timeout, "all sequencers to report", func() error {
		if err := look(); err != nil {
			return err
		}
		reported := map[string]bool{}
		for title := range seen {
			reported[title[strings.LastIndex(title, " ")+1:]] = true
		}
		for i := range feeds {
			if path := fmt.Sprintf("/feed%d", i); !reported[path] {
				o.publish(path, fmt.Sprintf("Comet at %d before %s: seen tonight", time.Now().Unix(), path))
			}
		}
		if len(reported) < feeds {
			return fmt.Errorf("%d of %d", len(reported), feeds)
		}
		return nil
	})
	wanted := map[string]bool{}
	publish := func(round int) {
		for i := range feeds {
			title := fmt.Sprintf("Comet %d of feed %d", round, i)
			o.publish(fmt.Sprintf("/feed%d", i), title+": seen tonight")
			wanted[title] = true
		}
	}
	arrive := func(what string, patience time.Duration) {
		t.Helper()
		begun := time.Now()
		eventually(t, patience, what, func() error {
			if err := look(); err != nil {
				return err
			}
			for title := range wanted {
				if !seen[title] {
					return fmt.Errorf("%q is missing", title)
				}
			}
			return nil
		})
		t.Logf("%s: all after %v", what, time.Since(begun).Round(10*time.Millisecond))
	}
	publish(0)
	arrive("articles of feeds that the filter does not subscribe to", timeout)
	// A new search begins with the articles that the filter has received so far.
	eventually(t, 2*time.Minute, "a trial on what was brought", func() error {
		out, err := filter.runCommand("watch", `"tonight" title:comet`)
		if err != nil {
			return err
		}
		f, _, err := readFeed(strings.Fields(out)[0])
		if err == nil && len(f.Items) < feeds {
			err = fmt.Errorf("it begins with %d articles", len(f.Items))
			_, _ = filter.runCommand("unwatch", `"tonight" title:comet`)
		}
		return err
	})

	nodes[2].kill()
	publish(1)
	arrive("articles while one that may own shards is dead", 2*time.Minute)
	nodes[2].restart()
	filter.kill()
	filter.restart()
	waitForMembers(t, nodes)
	publish(2)
	arrive("articles after the filter was killed", 2*time.Minute)
}
