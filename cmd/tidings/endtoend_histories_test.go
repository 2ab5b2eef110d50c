package main

import (
	"archive/tar"
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"tidings/internal/daemon/origin"
	"tidings/internal/feed"
	"tidings/internal/longtest"
	"tidings/internal/script"
)

// sizedFeed returns an RSS document with items of these sizes, the newest first. Their texts are hardly
// compressible, and the same in each document of the feed.
func sizedFeed(name string, sizes []int) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, `<?xml version="1.0" encoding="utf-8"?><rss version="2.0"><channel><title>%s</title><link>http://%[1]s.example/</link><description>d</description>`, name)
	for i := len(sizes); i > 0; i-- {
		rng := rand.New(rand.NewPCG(uint64(i), uint64(len(name))))
		text := make([]byte, sizes[i-1]*3/4)
		for j := range text {
			text[j] = byte(rng.Uint32())
		}
		fmt.Fprintf(&b, `<item><title>%s %d</title><guid isPermaLink="false">%[1]s-%[2]d</guid><description>%s</description></item>`,
			name, i, base64.StdEncoding.EncodeToString(text))
	}
	b.WriteString(`</channel></rss>`)
	return []byte(b.String())
}

// historySnapshots is the number of documents of each publisher that are replayed.
func historySnapshots() int { return longtest.Pick(6, 12) }

// A kind makes the documents of one publisher who does what real ones do.
type kind struct {
	name string
	play func(name string, snapshots int) []script.Snapshot
}

// withdrawals is the kind of publishers who take their second item out of the feed.
const withdrawals = "an item is withdrawn"

// kinds are what real publishers were seen to do.
var kinds = []kind{
	{"large items", func(name string, n int) (all []script.Snapshot) {
		var sizes []int
		rng := rand.New(rand.NewPCG(1, 2))
		for range n {
			for range 1 + rng.IntN(2) {
				sizes = append(sizes, []int{1 << 10, 23 << 10, 25 << 10, 31 << 10, 47 << 10, 49 << 10, 64 << 10, 120 << 10, 255 << 10}[rng.IntN(9)])
			}
			all = append(all, rssSnapshot(sizedFeed(name, sizes)))
		}
		return all
	}},
	{"edits", steps(func(p *author, i int) {
		p.add()
		p.items[0].text += fmt.Sprintf(" Correction %d.", i)
	})},
	{"edits taken back", steps(func(p *author, i int) {
		const mistake = " Everything is cancelled."
		switch p.add(); i {
		case 2:
			p.items[0].text += mistake
		case 3:
			p.items[0].text = strings.TrimSuffix(p.items[0].text, mistake)
		}
	})},
	{"error pages", func(name string, n int) (all []script.Snapshot) {
		for i, s := range steps(func(p *author, _ int) { p.add() })(name, n) {
			switch all = append(all, s); i % 3 {
			case 0:
				all = append(all, script.Snapshot{Body: []byte("<!DOCTYPE html><title>503</title><p>Back soon"), ContentType: "text/html", Hold: replayHold})
			case 1:
				cut := s
				cut.Body = s.Body[:len(s.Body)*2/3]
				all = append(all, cut)
			}
		}
		return append(all, all[len(all)-2:]...)
	}},
	{"replicas that lag", func(name string, n int) (all []script.Snapshot) {
		fresh := steps(func(p *author, _ int) { p.add() })(name, n)
		for i, s := range fresh {
			all = append(all, s, fresh[max(i-1, 0)], s)
		}
		for i := range all {
			all[i].Hold /= 3
		}
		return all
	}},
	{"ids that drift", steps(func(p *author, i int) {
		p.add()
		p.id = []string{"http://%[1]s.example/%[2]d", "https://%[1]s.example/%[2]d", "https://www.%[1]s.example/%[2]d/", "https://%[1]s.example/%[2]d/?utm_source=rss"}[i%4]
	})},
	{"counters", steps(func(p *author, i int) {
		p.add()
		p.counter = fmt.Sprintf("<p>%d comments</p>", 3*i)
	})},
	{"another order", steps(func(p *author, i int) {
		p.add()
		p.items[0], p.items[len(p.items)-1] = p.items[len(p.items)-1], p.items[0]
	})},
	{withdrawals, steps(func(p *author, i int) {
		if p.add(); i == 2 {
			p.items = slices.Delete(p.items, 1, 2)
		}
	})},
	{"items that roll off", steps(func(p *author, i int) {
		p.add()
		p.items = p.items[max(len(p.items)-3, 0):]
	})},
}

// An author writes the documents of a made-up publisher.
type author struct {
	name, id, counter string
	items             []publishedItem // the oldest first
	added             int
}

type publishedItem struct {
	number int
	text   string
}

func (p *author) add() {
	p.added++
	p.items = append(p.items, publishedItem{p.added, fmt.Sprintf("What %s has to say in item %d.", p.name, p.added)})
}

func (p *author) write() []byte {
	var b strings.Builder
	fmt.Fprintf(&b, `<?xml version="1.0"?><rss version="2.0"><channel><title>%s</title><link>http://%[1]s.example/</link><description>d</description>`, p.name)
	for _, it := range slices.Backward(p.items) {
		fmt.Fprintf(&b, `<item><title>%s %d</title><link>http://%[1]s.example/%[2]d</link><guid>`+p.id+`</guid><description><![CDATA[<p>%[3]s</p>%[4]s]]></description></item>`,
			p.name, it.number, it.text, p.counter)
	}
	b.WriteString(`</channel></rss>`)
	return []byte(b.String())
}

// steps returns the history of a publisher who begins with three items and changes something in each step.
func steps(change func(p *author, i int)) func(name string, snapshots int) []script.Snapshot {
	return func(name string, snapshots int) (all []script.Snapshot) {
		p := &author{name: name, id: "http://%[1]s.example/%[2]d"}
		for range 3 {
			p.add()
		}
		for i := range snapshots {
			if i > 0 {
				change(p, i)
			}
			all = append(all, rssSnapshot(p.write()))
		}
		return all
	}
}

func rssSnapshot(body []byte) script.Snapshot {
	return script.Snapshot{Body: body, ContentType: "application/rss+xml", Hold: replayHold}
}

// histories returns the histories that are replayed: those of all kinds, and some of real publishers with large
// items if they are available (../shared/data).
func histories(t *testing.T) (replays []*replay) {
	t.Helper()
	owner := map[string]string{}
	for i, k := range kinds {
		r := &replay{name: fmt.Sprintf("publisher%d", i), kind: k.name}
		r.snapshots = k.play(r.name, historySnapshots())
		_ = r.examine(owner)
		replays = append(replays, r)
	}
	data, err := filepath.Abs("../../../shared/data")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(data, "pairs.csv")); err != nil {
		return replays
	}
	recorded := realReplays(t, data)
	slices.SortStableFunc(recorded, func(a, b *replay) int { return largestStep(b) - largestStep(a) })
	wanted := len(replays) + longtest.Pick(2, 6)
	for _, r := range recorded {
		if err := r.examine(owner); err != nil || len(replays) == wanted || r.repeats() {
			continue
		}
		r.snapshots = r.snapshots[:min(historySnapshots(), len(r.snapshots))]
		r.read, r.guids, r.newItems = nil, nil, 0
		for g, name := range owner {
			if name == r.name {
				delete(owner, g)
			}
		}
		_ = r.examine(owner) // it has fewer snapshots than required, but its items are recorded anyway
		replays = append(replays, r)
	}
	return replays
}

// repeats reports whether a document has two items of one identity, which cannot be told from a duplicate.
func (r *replay) repeats() bool {
	for _, f := range r.read {
		seen := map[string]bool{}
		for _, it := range f.Items {
			m, _ := it.Meaning("")
			if seen[m.GUID] {
				return true
			}
			seen[m.GUID] = true
		}
	}
	return false
}

// largestStep returns the largest difference in size between two consecutive documents of a feed, in bytes.
func largestStep(r *replay) (most int) {
	for i, s := range r.snapshots[1:] {
		most = max(most, len(s.Body)-len(r.snapshots[i].Body))
	}
	return most
}

// TestHistoriesLoseNothing replays publishers' histories through three nodes, one of which is killed in the middle and
// restarted. In the end each node has each item once, in its last version, and no reader has seen anything else.
func TestHistoriesLoseNothing(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	replays := histories(t)
	nodes := startNetwork(t, 3, "--network", "histories", "--poll-interval", replayInterval.String(), "--maintenance-interval", "20s", "--beat-interval", "20s")
	o := newTestOrigin(t)
	addresses := make([]map[string]string, len(nodes))
	for i, r := range replays {
		path := fmt.Sprintf("/%d/feed", i)
		r.url = o.url + path
		o.Play(path, script.NewReplay(r.snapshots))
	}
	for i, n := range nodes {
		addresses[i] = map[string]string{}
		for _, r := range replays {
			addresses[i][r.url] = n.subscribe(r.url)
		}
	}
	shows := func(i int, r *replay, want map[string]string) error {
		f, _, err := readFeed(addresses[i][r.url])
		var got [][2]string
		if err == nil {
			got, err = r.items(f)
		}
		if err == nil && want != nil {
			err = r.compareMarks(f)
		}
		if err = cmp.Or(err, compareItems(want, got)); err != nil {
			return fmt.Errorf("node %d, %s: %w", i, cmp.Or(r.kind, r.name), err)
		}
		return nil
	}
	for i := range nodes {
		for _, r := range replays {
			eventually(t, 2*timeout, "the first reading", func() error { return shows(i, r, nil) })
		}
	}
	begun := o.cue()
	half := time.After(time.Duration(historySnapshots()) / 2 * replayHold)
	<-half
	nodes[1].kill()
	third := time.After(time.Duration(historySnapshots()) / 4 * replayHold)
	<-third
	nodes[1].restart()
	items := 0
	for _, r := range replays {
		want := r.lastVersions(t)
		for i := range nodes {
			eventually(t, 4*timeout, "all items", func() error { return shows(i, r, want) })
		}
		items += len(want)
	}
	t.Logf("%d items of %d publishers are at three nodes, once each, %v after the first came", items, len(replays), time.Since(begun).Round(time.Second))
	for i, n := range nodes {
		for _, c := range n.list() {
			if c.Unreadable > 0 {
				t.Errorf("node %d cannot read %d entries of %s", i, c.Unreadable, c.URL)
			}
		}
	}
}

// numbers are what counters in texts change by themselves.
var numbers = regexp.MustCompile(`\d+ comments`)

// items returns what identifies the items of a document, and their texts. The ids of made-up publishers drift, and
// their counters count. Of real publishers' texts nobody knows which differences are edits.
func (r *replay) items(f *feed.Feed) (all [][2]string, err error) {
	for _, it := range f.Items {
		m, err := it.Meaning("")
		switch {
		case err != nil:
			return nil, err
		case r.kind == "":
			all = append(all, [2]string{m.GUID, ""})
		default:
			all = append(all, [2]string{m.Title + " " + m.Link, numbers.ReplaceAllString(cmp.Or(m.Content, m.Summary), "n comments")})
		}
	}
	return all, nil
}

// compareMarks checks that the withdrawn item of a made-up publisher is marked, and no other.
func (r *replay) compareMarks(f *feed.Feed) error {
	for _, it := range f.Items {
		m, err := it.Meaning("")
		if err != nil {
			return err
		}
		marked := strings.Contains(string(it.Raw), ", withdrawn<")
		if r.kind != "" && marked != (r.kind == withdrawals && m.Title == r.name+" 2") {
			return fmt.Errorf("%q is marked as withdrawn: %v", m.Title, marked)
		}
	}
	return nil
}

// lastVersions returns the last version of each item of a history.
func (r *replay) lastVersions(t *testing.T) map[string]string {
	last := map[string]string{}
	for _, f := range r.read {
		items, err := r.items(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, it := range items {
			last[it[0]] = it[1]
		}
	}
	return last
}

// compareItems compares what a reader was shown with the items that were published; if none are given, it only looks
// for what came twice.
func compareItems(want map[string]string, got [][2]string) error {
	seen := map[string]bool{}
	for _, it := range got {
		switch text, published := want[it[0]]; {
		case seen[it[0]]:
			return fmt.Errorf("%q is there twice", it[0])
		case want != nil && !published:
			return fmt.Errorf("nobody published %q", it[0])
		case want != nil && text != it[1]:
			return fmt.Errorf("%q has the text %.300q, want %.300q", it[0], it[1], text)
		}
		seen[it[0]] = true
	}
	for name := range want {
		if !seen[name] {
			return fmt.Errorf("%d items of %d: %q is missing", len(got), len(want), name)
		}
	}
	return nil
}

// TestAnUpgradeBringsLostItemsBack starts three nodes with data of an older release
// (testdata/unreadable-log.tar.zst). The log of their only feed has an entry with an empty head and two items of 17
// kB, which that release could not read and did not show on any node. The origin is gone, so only the log can bring
// the items.
func TestAnUpgradeBringsLostItemsBack(t *testing.T) {
	skipIfShort(t)
	if runtime.GOOS != "linux" {
		t.Skip("the feed of the old log lies at 127.0.77.1, which is loopback on Linux alone")
	}
	t.Parallel()
	const address = "127.0.77.1:18077" // the address in the log
	dir := t.TempDir()
	unpack(t, "testdata/unreadable-log.tar.zst", dir)
	first := startNodeIn(t, filepath.Join(dir, "0"), "--allow-private-origins")
	nodes := []*nodeProcess{first}
	for _, name := range []string{"1", "2"} {
		nodes = append(nodes, startNodeIn(t, filepath.Join(dir, name), "--allow-private-origins", "--bootstrap", first.peer))
	}
	url := "http://" + address + "/feed.xml"
	shows := func(want ...string) {
		t.Helper()
		for i, n := range nodes {
			eventually(t, 3*timeout, "the items of the log", func() error {
				f, _, err := readFeed(n.list()[url].ReadURL)
				if err != nil {
					return err
				}
				got := titles(f)
				if slices.Sort(got); !slices.Equal(got, want) {
					return fmt.Errorf("node %d shows %q, want %q", i, got, want)
				}
				return nil
			})
		}
	}
	shows("Tide table 1", "Tide table 2", "Tide table 3")

	// The origin is back with another item. Nothing is shown twice.
	o := origin.New(func() time.Duration { return 0 })
	o.Play("/feed.xml", script.NewReplay([]script.Snapshot{{ContentType: "application/rss+xml", Body: []byte(
		`<rss version="2.0"><channel><title>Harbour</title><link>https://harbour.example/</link><description>Tides</description>` +
			`<item><guid isPermaLink="false">tide-4</guid><title>Tide table 4</title></item></channel></rss>`)}}))
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	server, served := &http.Server{Handler: o}, make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		_ = server.Close()
		<-served
	})
	shows("Tide table 1", "Tide table 2", "Tide table 3", "Tide table 4")
}

// unpack extracts a tar.zst of small files into a folder.
func unpack(t *testing.T, archive, dir string) {
	t.Helper()
	file, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	raw, err := zstd.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	for r := tar.NewReader(raw); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		at := filepath.Join(dir, h.Name)
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(at, 0o700)
		} else {
			var b []byte
			if b, err = io.ReadAll(r); err == nil {
				err = os.WriteFile(at, b, 0o600)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
