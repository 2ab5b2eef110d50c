package tiers

import (
	"bytes"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"tidings/cobra"
	"tidings/cobra/provision"
	"tidings/cobra/tiers/tierspb"
	"tidings/difference/page"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/internal/wire"
)

// memory is the world of a node: a store that is durable at once, and a network that keeps what was sent.
type memory struct {
	records map[string][]byte
	sent    [][]byte
	to      []env.PeerID // of what was sent
	fetched []fetched
	now     time.Time
}

// fetched is a request of a node.
type fetched struct {
	env.Handle
	env.Request
}

func (m *memory) Now() time.Time                    { return m.now }
func (m *memory) Do(pure, done func())              { pure(); done() }
func (m *memory) Fetch(h env.Handle, r env.Request) { m.fetched = append(m.fetched, fetched{h, r}) }
func (m *memory) Get(key []byte) ([]byte, error)    { return m.records[string(key)], nil }

func (m *memory) Send(to env.Peer, _ env.Class, frame []byte) {
	m.sent, m.to = append(m.sent, frame), append(m.to, to.ID)
}

func (m *memory) Commit(ops []env.Op, done func(error)) {
	for _, op := range ops {
		if m.records[string(op.Key)] = op.Value; op.Value == nil {
			delete(m.records, string(op.Key))
		}
	}
	done(nil)
}

func (m *memory) Range(prefix []byte, each func(key, value []byte) bool) error {
	for _, key := range slices.Sorted(maps.Keys(m.records)) {
		if strings.HasPrefix(key, string(prefix)) && !each([]byte(key), m.records[key]) {
			break
		}
	}
	return nil
}

type rules struct{}

func (rules) Read(_ string, a env.Answer) (*feed.Feed, error) {
	return feed.Parse(a.Body, a.ContentType)
}

func (rules) Next(_ string, a env.Answer, _ *feed.Feed, err error, _ int) (time.Duration, bool) {
	return time.Minute, err == nil && a.Err == ""
}

func (rules) Site(url string) string { return hostPart(url) }

func (rules) Advertised(a env.Answer) (feeds []string) {
	_, links := page.Advertised(a.Body)
	for _, l := range links {
		feeds = append(feeds, l.Target)
	}
	return feeds
}

type keeper struct{ got []*cobra.Article }

func (k *keeper) Reflect(a *cobra.Article, done func(bool)) {
	k.got = append(k.got, a)
	done(true)
}

// threeTiers is a plan of one node for each role.
var threeTiers = Plan{Digest: "three", OutFilters: 1, Nodes: []Node{
	{Name: "crawler-1", Role: provision.Crawler, Peer: env.Peer{ID: "c"}, Links: []string{"filter-1-1"}},
	{Name: "filter-1-1", Role: provision.Filter, Peer: env.Peer{ID: "f"}, Links: []string{"reflector-1"}},
	{Name: "reflector-1", Role: provision.Reflector, Peer: env.Peer{ID: "r"}},
}}

// fourNodes has a second crawler.
var fourNodes = Plan{OutFilters: 1, Nodes: append([]Node{{Name: "crawler-2", Role: provision.Crawler, Peer: env.Peer{ID: "d"}, Links: []string{"filter-1-1"}}}, threeTiers.Nodes...)}

func start(t testing.TB, self env.PeerID, m *memory, app Application) *Tiers {
	return startIn(t, threeTiers, self, m, app)
}

func startIn(t testing.TB, plan Plan, self env.PeerID, m *memory, app Application) *Tiers {
	e := env.Env{Clock: m, Network: m, Fetcher: m, Worker: m, Store: m, Rand: rand.New(rand.NewPCG(1, 2)), Log: slog.New(slog.DiscardHandler)}
	n, err := New(e, self, Config{Plan: plan, Rules: rules{}, Discover: 60}, app)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func newMemory() *memory { return &memory{records: map[string][]byte{}, now: time.Unix(1e9, 0)} }

// FuzzReceive gives each role any message of any neighbour, and of a stranger. Nothing panics, and what a node then sends
// fits into frames.
func FuzzReceive(f *testing.F) {
	article := (&cobra.Article{Feed: "http://a.example/", Title: "Comet", ID: feed.ID{1}}).Encode(maxArticle)
	for _, m := range []*tierspb.Message{
		{Body: &tierspb.Message_Send{Send: &tierspb.Send{Log: 7, Items: []*tierspb.Item{{Position: 3, Article: article}, {Position: 5, Article: []byte{1}}}}}},
		{Body: &tierspb.Message_Ack{Ack: &tierspb.Ack{Log: 1, Session: 2, Number: 3, Received: 9, Done: 9, Room: 1 << 30}}},
		{Body: &tierspb.Message_Compare{Compare: &tierspb.Compare{Digests: make([]uint64, buckets)}}},
		{Body: &tierspb.Message_Differs{Differs: &tierspb.Differs{Buckets: []*tierspb.Bucket{{Index: 5000, Hashes: []uint64{1, 2}}}}}},
		{Body: &tierspb.Message_Latencies{Latencies: &tierspb.Latencies{Hosts: []uint64{hostOf("http://a.example/"), 2}, Millis: []uint32{30}}}},
		{Body: &tierspb.Message_Hand{Hand: &tierspb.Hand{Url: "http://a.example/", Record: &tierspb.Crawled{Term: 3, Items: []uint64{1}, NextMs: 1 << 62, To: []byte("f")}}}},
		{Body: &tierspb.Message_Hand{Hand: &tierspb.Hand{Url: "http://b.example/"}}},
		{Body: &tierspb.Message_Taken{Taken: &tierspb.Taken{Url: "http://a.example/", Term: 1}}},
		{Body: &tierspb.Message_Recall{Recall: &tierspb.Recall{Url: "http://a.example/", Term: 9}}},
		{Body: &tierspb.Message_Named{Named: &tierspb.Named{By: 3, Home: "http://a.example/", Pages: []string{"http://c.example/x", "ftp:", "http://C.example/"}}}},
		{Body: &tierspb.Message_Place{Place: &tierspb.Place{Add: []string{"comet", "(", "the"}, Remove: []uint64{4}}}},
	} {
		f.Add(wire.Encode(m))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, self := range []env.PeerID{"c", "f", "r"} {
			m := newMemory()
			n := startIn(t, fourNodes, self, m, &keeper{})
			n.AddQuery("comet")
			n.SetFeeds([]string{"http://a.example/", "http://b.example/"})
			for _, from := range []env.PeerID{"c", "d", "f", "r", "stranger"} {
				_ = n.Receive(from, body) // an error says that it is no message
				for range 3 {
					n.Run(m.now)
					m.now = m.now.Add(time.Second)
				}
			}
			for _, frame := range m.sent {
				if _, _, err := wire.ParseFrame(frame); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

// TestAReceiverTakesEachArticleOnce: an article that comes again, too early, or after a restart is taken once and in order;
// one of another log is new.
func TestAReceiverTakesEachArticleOnce(t *testing.T) {
	m, k := newMemory(), &keeper{}
	n := start(t, "r", m, k)
	send := func(log, acked, previous uint64, positions ...uint64) {
		s := &tierspb.Send{Log: log, Acked: acked, Previous: previous}
		for _, p := range positions {
			s.Items = append(s.Items, &tierspb.Item{Position: p, Article: (&cobra.Article{Title: string(rune('a' + p)), ID: feed.ID{byte(p)}}).Encode(maxArticle)})
		}
		if err := n.Receive("f", wire.Encode(&tierspb.Message{Body: &tierspb.Message_Send{Send: s}})); err != nil {
			t.Fatal(err)
		}
		n.Run(m.now)
	}
	send(7, 0, 4, 6)       // what was sent before it was lost
	send(7, 0, 0, 2, 4)    // from the beginning
	send(7, 0, 0, 2, 4)    // again
	send(7, 0, 2, 4, 6, 9) // continues
	n = start(t, "r", m, k)
	send(7, 0, 4, 6, 9, 10) // after a restart
	send(7, 0, 11, 12)      // too early
	send(8, 20, 20, 21)     // the sender has a new store
	var got strings.Builder
	for _, a := range k.got {
		got.WriteString(a.Title)
	}
	if want := "cegjkv"; got.String() != want {
		t.Errorf("got %s, want %s", got.String(), want)
	}
}

// TestPlansThatCannotRun are refused with the way out.
func TestPlansThatCannotRun(t *testing.T) {
	wrong := Plan{OutFilters: 1, Nodes: slices.Clone(threeTiers.Nodes)}
	wrong.Nodes[0].Links = []string{"reflector-1"}
	oneID, oneName := Plan{OutFilters: 1, Nodes: slices.Clone(fourNodes.Nodes)}, Plan{OutFilters: 1, Nodes: slices.Clone(fourNodes.Nodes)}
	oneID.Nodes[0].Peer.ID, oneName.Nodes[0].Name = "c", "crawler-1"
	for _, test := range []struct {
		plan Plan
		self env.PeerID
		want string
	}{
		{threeTiers, "stranger", "no node of the topology has this node's id"},
		{wrong, "c", `the link from crawler-1 to "reflector-1" does not lead to a filter`},
		{oneID, "c", `crawler-2 and crawler-1 have the same id`},
		{oneName, "c", `two nodes have the name "crawler-1"`},
	} {
		if _, err := test.plan.find(test.self); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v, want %s", err, test.want)
		}
	}
}

// TestFeedsAndQueriesAreDividedEvenly: each of n nodes gets its part, within a tenth.
func TestFeedsAndQueriesAreDividedEvenly(t *testing.T) {
	for _, n := range []int{2, 3, 28} {
		counts := make([]int, n)
		for i := range 28_000 {
			counts[share("http://feed.example/"+strings.Repeat("x", i%7)+string(rune('a'+i%26))+time.Duration(i).String(), n)]++
		}
		for part, count := range counts {
			if want := 28_000 / n; count < want*8/10 || count > want*12/10 {
				t.Errorf("part %d of %d has %d, want about %d", part, n, count, want)
			}
		}
	}
}

// TestADocumentThatStaysIsReadOnce: a crawler that gets the same bytes again hands on nothing, and neither does it after a
// restart.
func TestADocumentThatStaysIsReadOnce(t *testing.T) {
	m := newMemory()
	poll := func(n *Tiers, items ...string) {
		n.SetFeeds([]string{"http://a.example/"})
		m.now = m.now.Add(time.Hour)
		n.Run(m.now)
		var doc bytes.Buffer
		doc.WriteString(`<rss version="2.0"><channel><title>A</title>`)
		for _, it := range items {
			doc.WriteString("<item><guid>" + it + "</guid><title>" + it + "</title></item>")
		}
		doc.WriteString("</channel></rss>")
		for h := range n.crawler.polls {
			n.Answered(h, env.Answer{Status: 200, Body: doc.Bytes(), ContentType: "application/rss+xml", FinalURL: "http://a.example/"})
		}
	}
	n := start(t, "c", m, nil)
	poll(n, "b", "a")
	poll(n, "b", "a")
	n = start(t, "c", m, nil)
	poll(n, "b", "a")
	poll(n, "c", "b", "a")
	if n.stats.Turned != 0 {
		t.Errorf("%d documents without known items, want none", n.stats.Turned)
	}
	if s := n.State(); n.out.last != 4 || s.Down[0].Items != 3 { // the plan has the first position
		t.Errorf("%d positions, %d articles wait, want 3", n.out.last, s.Down[0].Items)
	}
}

// TestARemovedFeedIsForgotten: its record is deleted when it leaves the list, also while the node was down, and a poll under
// way does not write it again. A document without any item of the one before is counted.
func TestARemovedFeedIsForgotten(t *testing.T) {
	m := newMemory()
	n := start(t, "c", m, nil)
	answer := func(item string) {
		m.now = m.now.Add(time.Hour)
		n.Run(m.now)
		doc := `<rss version="2.0"><channel><title>A</title><item><guid>` + item + `</guid><title>A</title></item></channel></rss>`
		for h, f := range n.crawler.polls {
			n.Answered(h, env.Answer{Status: 200, Body: []byte(doc), ContentType: "application/rss+xml", FinalURL: f.url})
		}
	}
	records := func() (urls []string) {
		_ = m.Range([]byte(crawledPrefix), func(key, _ []byte) bool {
			urls = append(urls, string(key[len(crawledPrefix):]))
			return true
		})
		return urls
	}
	is := func(want ...string) {
		t.Helper()
		if got := records(); !slices.Equal(got, want) {
			t.Errorf("records of %q, want %q", got, want)
		}
	}
	const a, b, c = "http://a.example/", "http://b.example/", "http://c.example/"
	n.SetFeeds([]string{a, b, c})
	answer("one")
	is(a, b, c)
	answer("two")
	if n.stats.Turned != 3 {
		t.Errorf("%d documents without known items, want 3", n.stats.Turned)
	}
	m.now = m.now.Add(time.Hour)
	n.Run(m.now) // polls are under way
	n.SetFeeds([]string{a, b})
	answer("three")
	is(a, b)
	n = start(t, "c", m, nil)
	n.SetFeeds([]string{b})
	is(b)
}

// TestPollsAreSpread: feeds of a new list are polled at once, and again when a crawler was down for long. After that as many
// are polled in each quarter of the interval.
func TestPollsAreSpread(t *testing.T) {
	const feeds, interval = 400, time.Minute // the interval of rules
	m := newMemory()
	var urls []string
	for i := range feeds {
		urls = append(urls, fmt.Sprintf("http://%d.example/", i))
	}
	polled := func(n *Tiers, d time.Duration) (count uint64) {
		before := n.stats.Polls
		for end := m.now.Add(d); m.now.Before(end); m.now = m.now.Add(time.Second) {
			n.Run(m.now)
			for len(n.crawler.polls) > 0 {
				for h, f := range n.crawler.polls {
					n.Answered(h, env.Answer{Status: 200, Body: []byte(`<rss version="2.0"><channel><title>A</title></channel></rss>`), ContentType: "application/rss+xml", FinalURL: f.url})
				}
				n.Run(m.now)
			}
		}
		return n.stats.Polls - before
	}
	for range 2 {
		n := start(t, "c", m, nil)
		n.SetFeeds(urls)
		if got := polled(n, time.Second); got != feeds {
			t.Errorf("%d feeds polled at once, want %d", got, feeds)
		}
		polled(n, 2*interval)
		for range 8 {
			if got := polled(n, interval/4); got < feeds/4-feeds/10 || got > feeds/4+feeds/10 {
				t.Errorf("%d feeds polled in a quarter of an interval, want about %d", got, feeds/4)
			}
		}
		m.now = m.now.Add(time.Hour)
	}
}
