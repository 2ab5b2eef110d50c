package sim

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"tidings/feedtree"
	"tidings/internal/env"
)

// A node that reports a false edit does not hide what owners have vouched for, nor does a true edit until owners have seen it.
func TestAnEditHidesNothingThatIsVouchedFor(t *testing.T) {
	t.Parallel()
	s := feedSwarm(1, Config{})
	s.Grow(10, 100*time.Millisecond)
	s.World.Run(20 * time.Second)
	url := s.serveFeeds(1, 10*time.Minute, 12)[0]
	near := nearestPeers(s, url)
	for _, p := range near {
		p.SubscribeFeed(url)
	}
	s.World.Run(30 * time.Minute)
	edit := func(p *Peer, to string, titles int) {
		p.FilterAnswer = func(_ env.Request, a env.Answer) env.Answer {
			a.Body = bytes.Replace(a.Body, []byte("<title>"), []byte("<title>"+to), titles)
			return a
		}
	}
	// edited returns the provenance of the edited items, and the one of the versions before them.
	edited := func(to string) (now, vouched []string) {
		near[9].node.Feeds.Read(s.Key(url), func(d feedtree.Document) {
			for _, e := range d.Entries {
				if strings.Contains(string(e.Item.Raw), to) {
					now, vouched = append(now, e.Provenance), append(vouched, d.Vouched[e.Item.ID].Provenance)
					if strings.Contains(string(d.Vouched[e.Item.ID].Item.Raw), to) {
						t.Errorf("%s: the version before is the present one", to)
					}
				}
			}
		})
		s.World.Run(time.Second)
		return now, vouched
	}
	edit(near[6], "False ", 3) // of the feed, and of one or two items
	waiting := func() int {
		return near[9].node.Feeds.Waiting(s.Key(url))
	}
	contested := false
	for range 60 {
		s.World.Run(5 * time.Second)
		now, vouched := edited("False ")
		for i := range now {
			if now[i] == feedtree.Single && waiting() == 0 {
				t.Error("no item waits for witnesses")
			}
			if contested = now[i] == feedtree.Contested; !strings.HasPrefix(vouched[i], "witnessed ") {
				t.Fatalf("the false edit is %q, and the version before it %q", now[i], vouched[i])
			}
		}
	}
	if !contested {
		t.Error("the false edit is not contested")
	}
	for _, p := range near {
		edit(p, "True ", -1)
	}
	s.World.Run(15 * time.Minute)
	now, vouched := edited("True ")
	for i := range now {
		if !strings.HasPrefix(now[i], "witnessed ") || vouched[i] != "" {
			t.Errorf("the true edit is %q, and the version before it is kept as %q", now[i], vouched[i])
		}
	}
	if n := waiting(); n > 0 {
		t.Errorf("%d items wait for witnesses", n)
	}
	if len(now) < 5 {
		t.Errorf("%d items are edited", len(now))
	}
}
