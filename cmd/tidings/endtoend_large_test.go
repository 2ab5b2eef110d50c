package main

import (
	"archive/tar"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"tidings/internal/daemon/origin"
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

// largeSnapshots is the number of documents of each publisher that are replayed.
func largeSnapshots() int { return longtest.Pick(5, 12) }

// largeReplays returns histories of publishers with large items, ten in the long tier. Half of them are real if
// real ones are available (../shared/data); the others are synthetic.
func largeReplays(t *testing.T) (replays []*replay) {
	t.Helper()
	snapshots, feeds := largeSnapshots(), longtest.Pick(4, 10)
	owner := map[string]string{}
	if data, err := filepath.Abs("../../../shared/data"); err == nil {
		if _, err := os.Stat(filepath.Join(data, "pairs.csv")); err == nil {
			recorded := realReplays(t, data)
			slices.SortStableFunc(recorded, func(a, b *replay) int { return largestStep(b) - largestStep(a) })
			for _, r := range recorded {
				if err := r.examine(owner); err != nil || len(replays) == feeds/2 || r.repeats() {
					continue
				}
				r.snapshots = r.snapshots[:snapshots]
				r.read, r.guids, r.newItems = nil, nil, 0
				for g, name := range owner {
					if name == r.name {
						delete(owner, g)
					}
				}
				_ = r.examine(owner) // it has fewer snapshots than required, but its items are recorded anyway
				replays = append(replays, r)
			}
		}
	}
	sizes := []int{1 << 10, 23 << 10, 25 << 10, 31 << 10, 47 << 10, 49 << 10, 64 << 10, 120 << 10, 255 << 10}
	rng := rand.New(rand.NewPCG(1, 2))
	for len(replays) < feeds {
		r := &replay{name: "large" + strconv.Itoa(len(replays))}
		var all []int
		for range snapshots {
			for range 1 + rng.IntN(2) {
				all = append(all, sizes[rng.IntN(len(sizes))])
			}
			r.snapshots = append(r.snapshots, script.Snapshot{Body: sizedFeed(r.name, all), ContentType: "application/rss+xml", Hold: replayHold})
		}
		_ = r.examine(owner)
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

// TestLargeHistoriesLoseNothing replays publishers' histories with large items through three nodes, one of which is
// killed in the middle and restarted. In the end each node has each item once.
func TestLargeHistoriesLoseNothing(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	replays := largeReplays(t)
	nodes := startNetwork(t, 3, "--network", "large", "--poll-interval", replayInterval.String(), "--maintenance-interval", "20s", "--beat-interval", "20s")
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
	// lacks returns the items of a feed that a node lacks or has twice.
	lacks := func(i int, r *replay, want []string) error {
		f, _, err := readFeed(addresses[i][r.url])
		if err != nil {
			return err
		}
		var got []string
		for _, it := range f.Items {
			m, err := it.Meaning("")
			if err != nil {
				return err
			}
			got = append(got, m.GUID)
		}
		if missing, twice, _ := compareGUIDs(want, got); len(missing)+len(twice) > 0 {
			return fmt.Errorf("node %d, %s: of %d items %d are missing, %d are there twice: %.200q %.200q", i, r.name, len(want), len(missing), len(twice), missing, twice)
		}
		return nil
	}
	for i := range nodes {
		for _, r := range replays {
			eventually(t, 2*timeout, "the first reading", func() error { return lacks(i, r, nil) })
		}
	}
	begun := o.cue()
	half := time.After(time.Duration(largeSnapshots()) / 2 * replayHold)
	<-half
	nodes[1].kill()
	third := time.After(time.Duration(largeSnapshots()) / 4 * replayHold)
	<-third
	nodes[1].restart()
	for i := range nodes {
		for _, r := range replays {
			eventually(t, 4*timeout, "all items", func() error { return lacks(i, r, r.guids) })
		}
	}
	items := 0
	for _, r := range replays {
		items += len(r.guids)
	}
	t.Logf("%d items of %d feeds are at three nodes, once each, %v after the first came", items, len(replays), time.Since(begun).Round(time.Second))
	for i, n := range nodes {
		for _, c := range n.list() {
			if c.Unreadable > 0 {
				t.Errorf("node %d cannot read %d entries of %s", i, c.Unreadable, c.URL)
			}
		}
	}
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
