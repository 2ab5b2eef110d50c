package tiers

import (
	"slices"
	"strings"
	"testing"
	"time"

	"tidings/cobra"
	"tidings/cobra/provision"
	"tidings/internal/env"
	"tidings/internal/feed"
)

// planOfFilters is a plan of some filters with different searches, between a crawler and a reflector of the same numbers.
func planOfFilters(digest string, crawler string, numbers ...string) Plan {
	p := Plan{Digest: digest, OutFilters: len(numbers)}
	var names []string
	for _, n := range numbers {
		names = append(names, "filter-"+n)
		p.Nodes = append(p.Nodes,
			Node{Name: "filter-" + n, Role: provision.Filter, Peer: env.Peer{ID: env.PeerID("f" + n)}, Links: []string{"reflector-" + n}},
			Node{Name: "reflector-" + n, Role: provision.Reflector, Peer: env.Peer{ID: env.PeerID("r" + n)}})
	}
	p.Nodes = append(p.Nodes, Node{Name: crawler, Role: provision.Crawler, Peer: env.Peer{ID: env.PeerID(crawler)}, Links: names})
	return p
}

var comet = (&cobra.Article{Feed: "http://a.example/", Title: "Comet", ID: feed.ID{1}}).Encode(maxArticle)

// queue queues an article for all receivers of a node.
func (m *memory) queue(n *Tiers, article []byte) {
	q, ops := n.out.appendTo(n.out.links, article)
	m.Commit(ops, func(err error) { n.out.written([]*queued{q}, err) })
}

// keys returns the keys of the records of articles and links.
func (m *memory) keys() (all []string) {
	for key := range m.records {
		if strings.HasPrefix(key, queuedPrefix) || strings.HasPrefix(key, linkPrefix) {
			all = append(all, key)
		}
	}
	slices.Sort(all)
	return all
}

func (m *memory) wants(t *testing.T, what string, keys ...string) {
	t.Helper()
	slices.Sort(keys)
	if got := m.keys(); !slices.Equal(got, keys) {
		t.Errorf("%s: the records are %q, not %q", what, got, keys)
	}
}

// A crawler queues an article again, once, if it starts with a plan in which one of its filters has no place any more. It does not do so at
// each start while the other filter does not answer. Records that nobody needs are deleted.
func TestArticlesAreQueuedAgainAtAStart(t *testing.T) {
	m := newMemory()
	m.queue(startIn(t, planOfFilters("1-a", "c", "1", "2"), "c", m, &keeper{}), comet)
	startIn(t, planOfFilters("2-b", "c", "2"), "c", m, &keeper{})  // has links of both plans
	original, copied := string(queuedKey(2)), string(queuedKey(5)) // the others are changes of the plan
	for i, want := range []uint64{1, 0} {
		n := startIn(t, planOfFilters("3-c", "c", "2"), "c", m, &keeper{})
		n.Run(m.now)
		if s := n.Stats(); s.Rescued != want || s.Waiting != 2 || len(n.out.links) != 1 {
			t.Errorf("start %d: %d articles are queued again, and %d wait for %d receivers", i, s.Rescued, s.Waiting, len(n.out.links))
		}
		m.wants(t, "with one filter that does not answer", original, copied, linkPrefix+"f1")
		if i == 1 {
			n.out.done(n.out.links[0], n.out.last)
		}
	}
	startIn(t, planOfFilters("3-c", "c", "2"), "c", m, &keeper{})
	m.wants(t, "at the end", linkPrefix+"f2")
}

// A filter drops what waits for a reflector that has left the plan.
func TestArticlesOfALostReflectorAreDropped(t *testing.T) {
	first := planOfFilters("1-a", "c", "1", "2")
	first.Nodes[0].Links = []string{"reflector-1", "reflector-2"}
	m := newMemory()
	m.queue(startIn(t, first, "f1", m, &keeper{}), comet)
	startIn(t, planOfFilters("2-b", "c", "1"), "f1", m, &keeper{})
	n := startIn(t, planOfFilters("3-c", "c", "1"), "f1", m, &keeper{})
	n.Run(m.now)
	if s := n.Stats(); s.Rescued != 0 || s.Waiting != 1 {
		t.Errorf("%d articles are queued again, and %d wait", s.Rescued, s.Waiting)
	}
	n.out.done(n.out.links[0], n.out.last)
	m.wants(t, "at the end", linkPrefix+"r1", linkPrefix+"r2")
}

// A heldStore makes commits durable when a test lets it.
type heldStore struct {
	*memory
	held []func()
}

func (h *heldStore) Commit(ops []env.Op, done func(error)) {
	h.held = append(h.held, func() { h.memory.Commit(ops, done) })
}

// A crawler that runs gives up a filter ten minutes after it has left the plan and was silent, and not if it has left the plan itself.
// Until the copies are durable, the filter is not told that anything is done: it would acknowledge that.
func TestARunningCrawlerGivesUpAFilter(t *testing.T) {
	first := planOfFilters("1-a", "c", "1", "2", "3")
	for name, of := range map[string]struct {
		next    Plan
		rescued uint64 // once for each of the two filters that are gone
		waiting int
		keys    []string
	}{
		"it stays":  {planOfFilters("2-b", "c", "3"), 2, 3, []string{string(queuedKey(2)), string(queuedKey(4)), string(queuedKey(5)), linkPrefix + "f1", linkPrefix + "f2"}},
		"it leaves": {planOfFilters("2-b", "d", "3"), 0, 3, []string{string(queuedKey(2))}},
	} {
		m := newMemory()
		n := startIn(t, first, "c", m, &keeper{})
		m.queue(n, comet)
		n = startIn(t, of.next, "c", m, &keeper{})
		m.now = m.now.Add(goneAfter)
		n.Run(m.now)
		if s := n.Stats(); s.Rescued > 0 {
			t.Errorf("%s: %d articles are queued again too early", name, s.Rescued)
		}
		m.now = m.now.Add(time.Second)
		held := &heldStore{memory: m}
		n.store, n.out.store, m.to = held, held, nil
		n.Run(m.now)
		if stays := name == "it stays"; slices.Contains(m.to, "f1") == stays || !slices.Contains(m.to, "f3") {
			t.Errorf("%s: it sends to %q before the copies are durable", name, m.to)
		}
		for len(held.held) > 0 {
			commit := held.held[0]
			held.held = held.held[1:]
			commit()
			n.Run(m.now)
		}
		if s := n.Stats(); s.Rescued != of.rescued || s.Waiting != of.waiting || s.WaitingBytes != of.waiting*len(comet) {
			t.Errorf("%s: %d articles are queued again, %d wait with %d bytes", name, s.Rescued, s.Waiting, s.WaitingBytes)
		}
		m.wants(t, name, of.keys...)
	}
}
