package tiers

import (
	"testing"

	"tidings/cobra"
	"tidings/cobra/provision"
	"tidings/internal/env"
	"tidings/internal/feed"
)

// A crawler queues an article again, once, if it starts with a plan in which one of its two filters has no place any more. It does not
// do so at each start while the other filter does not answer. A filter drops an article whose reflector is gone.
func TestStrandedArticlesAreQueuedOnce(t *testing.T) {
	filter := func(name, id string) Node {
		return Node{Name: name, Role: provision.Filter, Peer: env.Peer{ID: env.PeerID(id)}, Links: []string{"r1", "r2"}}
	}
	reflector := func(name, id string) Node {
		return Node{Name: name, Role: provision.Reflector, Peer: env.Peer{ID: env.PeerID(id)}}
	}
	crawler := Node{Name: "crawler", Role: provision.Crawler, Peer: env.Peer{ID: "c"}, Links: []string{"f1", "f2"}}
	first := Plan{Digest: "1-a", OutFilters: 2, Nodes: []Node{crawler, filter("f1", "f"), filter("f2", "g"), reflector("r1", "r"), reflector("r2", "s")}}
	smaller := func(digest string) Plan {
		c, f := crawler, filter("f2", "g")
		c.Links, f.Links = []string{"f2"}, []string{"r2"}
		return Plan{Digest: digest, OutFilters: 1, Nodes: []Node{c, f, reflector("r2", "s")}}
	}
	article := (&cobra.Article{Feed: "http://a.example/", Title: "Comet", ID: feed.ID{1}}).Encode(maxArticle)
	for _, of := range []struct {
		self          env.PeerID
		waits, queued int // articles for the receiver that stays after each start, and those that are queued again at the first
	}{{"c", 2, 1}, {"g", 1, 0}} {
		m := newMemory()
		n := startIn(t, first, of.self, m, &keeper{})
		_, ops := n.out.appendTo(n.out.links, article)
		m.Commit(ops, func(error) {})
		startIn(t, smaller("2-b"), of.self, m, &keeper{}) // has links of both plans
		for i, want := range []int{of.queued, 0} {
			n = startIn(t, smaller("3-c"), of.self, m, &keeper{})
			n.Run(m.now)
			if s := n.Stats(); int(s.Rescued) != want || s.Waiting != of.waits || len(n.out.links) != 1 {
				t.Errorf("%s, start %d: %d articles are queued again, and %d wait for %d receivers", of.self, i, s.Rescued, s.Waiting, len(n.out.links))
			}
		}
	}
}
