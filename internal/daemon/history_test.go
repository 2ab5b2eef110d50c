package daemon

import (
	"fmt"
	"testing"
	"time"

	"tidings/proxy"
)

// The history keeps the samples of a week, and says how often the node polled between two of them.
func TestHistoryIsBounded(t *testing.T) {
	var h history
	start := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for i := range historySize + 3 {
		h.add(proxy.NetworkSample{At: start.Add(time.Duration(i) * historyInterval), Members: i}, uint64(2*i+5))
	}
	got := h.all()
	if len(got) != historySize || got[0].Members != 3 || got[historySize-1].Members != historySize+2 || got[1].OwnPolls != 2 || !got[0].At.Equal(start.Add(3*historyInterval)) {
		t.Errorf("%d samples from %+v to %+v", len(got), got[0], got[len(got)-1])
	}
	got[0].Members = -1
	if h.all()[0].Members != 3 {
		t.Error("a reader of the history changes it")
	}
}

// A node knows its place in the tree of a feed, and how the last items came to it. A sample of the network has what the node
// knows.
func TestTreesAndSamplesOfARunningNode(t *testing.T) {
	t.Parallel()
	feed := newFerryFeed(t)
	feed.add("Pier 1")
	c := founding(t, "trees")
	c.Found.PollInterval = time.Second
	c.AllowPrivateOrigins = true
	a := running(t, c)
	first := a.awaitMembers(t, 1)
	b := running(t, Config{Dir: t.TempDir(), Bootstrap: first.Addrs, AllowPrivateOrigins: true})
	b.awaitMembers(t, 2)
	a.awaitMembers(t, 2)
	address := feed.URL + "/news.xml"
	for _, m := range []*member{a, b} {
		if err := m.Subscribe(t.Context(), address, false); err != nil {
			t.Fatal(err)
		}
	}
	within(t, awaitTimeout, "items came down the tree to both", func() error {
		feed.add("Pier again " + time.Now().String())
		roots, children := 0, 0
		for _, m := range []*member{a, b} {
			tree, err := m.Tree(t.Context(), address)
			if err != nil || !tree.Known || tree.Leader == nil || tree.Last == nil || tree.Last.Items == 0 {
				return fmt.Errorf("%+v %v", tree, err)
			}
			if tree.Root {
				roots++
			} else if len(tree.Parents) != 1 || tree.Last.From == nil || tree.Last.From.ID != tree.Parents[0].ID {
				return fmt.Errorf("below the root: %+v", tree)
			}
			children += len(tree.Children)
		}
		if roots != 1 || children != 1 {
			return fmt.Errorf("%d roots, %d children", roots, children)
		}
		return nil
	})
	if tree, err := a.Tree(t.Context(), feed.URL+"/other.xml"); err != nil || tree.Known || tree.Last != nil {
		t.Errorf("of a feed that nobody reads: %+v %v", tree, err)
	}
	now := time.Now()
	a.sample(t.Context(), now)
	n, err := a.Network(t.Context())
	if err != nil || len(n.History) != 1 || !n.History[0].At.Equal(now) || n.History[0].Members != 2 {
		t.Errorf("%+v %v", n.History, err)
	}
}
