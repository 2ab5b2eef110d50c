package main

import (
	"context"
	"encoding/csv"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"tidings/internal/check/checktest"
	"tidings/internal/daemon/origin"
	"tidings/internal/feed"
	"tidings/internal/longtest"
	"tidings/internal/script"
	"tidings/internal/wire"
	"tidings/overlay"
)

const (
	replayInterval = 2 * time.Second
	replayHold     = 2*replayInterval + 200*time.Millisecond
	// replayOthers is the number of additional feeds that gain items according to pairs.csv, although the items
	// have occurred before: their origins have replicas that disagree.
	replayOthers = 2
)

// replayFeeds is the number of replayed feeds that gain items. replaySnapshots is the number of documents of each.
func replayFeeds() int     { return longtest.Pick(6, 8) }
func replaySnapshots() int { return longtest.Pick(5, 30) }

// A replay is a sequence of snapshots of a feed, as the origin serves them.
type replay struct {
	name      string
	kind      string // of a made-up publisher
	snapshots []script.Snapshot
	read      []*feed.Feed // the snapshots that are feeds
	guids     []string     // of all items, without duplicates
	newItems  int          // number of items that are not in the first snapshot
	url       string
}

// TestRealFeedsRealReaders lets eight nodes follow feeds with the documents of real origins. Two of the nodes own
// none of the feeds, and their readers are newsboat. Each item reaches each reader once, both with ranks and with
// the paper's scheme.
func TestRealFeedsRealReaders(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	for _, scheme := range longtest.Pick([]string{"bound"}, []string{"bound", "paper"}) {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			realFeeds(t, scheme)
		})
	}
}

func realFeeds(t *testing.T, scheme string) {
	newsboat := checktest.Tool(t, "newsboat", "it is the reader of this test")
	sqlite := checktest.Tool(t, "sqlite3", "it reads newsboat's cache")
	replays := replaysOf(t)

	nodes := startNetwork(t, 8, "--network", "real", "--scheme", scheme,
		"--poll-interval", replayInterval.String(), "--maintenance-interval", "20s", "--beat-interval", "20s")
	o := newTestOrigin(t)
	var names []string
	for _, r := range replays {
		names = append(names, r.name)
	}
	readers, paths := bystanders(t, "real", o.url, names, nodes)
	for i, r := range replays {
		r.url = o.url + paths[i]
		o.Play(paths[i], script.NewReplay(r.snapshots))
	}
	for i, n := range nodes {
		if !slices.Contains(readers, n) {
			n.subscribe(replays[i%len(replays)].url) // the feeds also have readers elsewhere
		}
	}
	var boats []*newsboatHome
	for _, n := range readers {
		b := &newsboatHome{newsboat: newsboat, sqlite: sqlite, dir: t.TempDir(), address: map[string]string{}}
		for _, r := range replays {
			b.address[r.url] = n.subscribe(r.url)
		}
		b.configure(t)
		boats = append(boats, b)
	}

	// All nodes have the first documents before the clock starts.
	for i, b := range boats {
		for _, r := range replays {
			eventually(t, 2*timeout, "the first reading", func() error {
				f, _, err := readFeed(b.address[r.url])
				if err == nil && len(f.Items) < len(r.read[0].Items) {
					err = fmt.Errorf("%s at reader %d: %d items of %d", r.name, i, len(f.Items), len(r.read[0].Items))
				}
				return err
			})
		}
		if err := b.reload(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for i, n := range readers {
		if s := n.status(); s.ChannelsOwned > 0 {
			t.Errorf("reader %d owns %d feeds, and should none", i, s.ChannelsOwned)
		}
	}

	begun := o.cue()
	end := begun.Add(time.Duration(replaySnapshots()) * replayHold)
	ctx, stop := context.WithDeadline(t.Context(), end)
	defer stop()
	var reading sync.WaitGroup
	reloads := make([]int, len(boats))
	for i, b := range boats {
		reading.Go(func() {
			again := time.NewTicker(2 * replayInterval)
			defer again.Stop()
			for {
				select {
				case <-again.C:
				case <-ctx.Done():
					return
				}
				if err := b.reload(ctx); err != nil && ctx.Err() == nil {
					t.Errorf("reader %d: %v", i, err)
					return
				}
				reloads[i]++
			}
		})
	}
	<-ctx.Done()
	reading.Wait()
	took := time.Since(begun)
	// rate returns the number of requests for a feed in each interval.
	rate := func(path string) float64 {
		return float64(o.polls(path, begun, begun.Add(took))) / (float64(took) / float64(replayInterval))
	}
	total, subscribed := 0.0, len(readers)*len(replays)+len(nodes)-len(readers)
	for _, path := range paths {
		each := rate(path)
		if total += each; each < 0.7 {
			t.Errorf("%s: %.2f polls in each interval by the whole network", path, each)
		}
	}
	t.Logf("%.1f polls in each interval for %d readers", total, subscribed)
	// The allowed load counts bytes, so small documents are polled more often.
	if total > 2*float64(subscribed) {
		t.Errorf("%.1f polls in each interval for %d readers", total, subscribed)
	}
	leads, decided := 0, 0
	for _, n := range nodes {
		st := n.status()
		for level, channels := range st.Levels {
			t.Logf("%s: %d channels at level %d, lambda %v, %d clusters", n.http, channels, level, *st.Lambda, st.Clusters)
			leads += channels
		}
		if st.Lambda != nil {
			decided++
		}
	}
	if leads != len(replays) || decided == 0 {
		t.Errorf("%d of %d feeds are led at some level, by the status of %d nodes that decide", leads, len(replays), decided)
	}

	// The last documents, in their order, and all earlier items.
	for i, b := range boats {
		for _, r := range replays {
			eventually(t, timeout, "the last document", func() error { return r.checkLast(b.address[r.url]) })
		}
		if err := b.reload(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, r := range replays {
			rows, err := b.itemGUIDs(t.Context(), r.url)
			if err != nil {
				t.Fatal(err)
			}
			missing, twice, strange := compareGUIDs(r.guids, rows)
			if len(missing)+len(twice)+len(strange) > 0 {
				t.Errorf("reader %d, %s: of %d items %d are missing, %d came twice, %d are of nobody: %.200q %.200q %.200q",
					i, r.name, len(r.guids), len(missing), len(twice), len(strange), missing, twice, strange)
			}
		}
	}
	news := 0
	for _, r := range replays {
		news += r.newItems
		t.Logf("%-36s %3d items, of which %d came while it was played", r.name, len(r.guids), r.newItems)
	}
	t.Logf("%d new items of %d feeds reached %d readers once, who reloaded %v times in %v", news, len(replays), len(boats), reloads, took.Round(time.Second))
	if slices.Min(reloads) < replaySnapshots()/2 {
		t.Errorf("the readers reloaded %v times", reloads)
	}
}

// checkLast compares a feed as readers get it with its last document.
func (r *replay) checkLast(address string) error {
	f, _, err := readFeed(address)
	if err != nil {
		return fmt.Errorf("%s: %w", r.name, err)
	}
	all := map[feed.ID]int{}
	for _, it := range f.Items {
		if all[it.ID]++; all[it.ID] > 1 {
			return fmt.Errorf("%s: an item is there twice", r.name)
		}
	}
	last := r.read[len(r.read)-1]
	want := map[feed.ID]bool{}
	for _, it := range last.Items {
		want[it.ID] = true
	}
	var got []feed.Item
	for _, it := range f.Items {
		if want[it.ID] {
			got = append(got, it)
		}
	}
	if len(got) != len(last.Items) {
		return fmt.Errorf("%s: %d of the last document's %d items", r.name, len(got), len(last.Items))
	}
	for i, it := range last.Items {
		if got[i].ID != it.ID {
			return fmt.Errorf("%s: item %d of %d stands elsewhere than in the source", r.name, i, len(got))
		}
		if got[i].Hash == it.Hash {
			continue
		}
		want, err := it.Meaning(r.url) // its relative addresses are absolute at the reader
		shown, err2 := got[i].Meaning("")
		if err = errors.Join(err, err2); err != nil {
			return fmt.Errorf("%s: item %d of %d: %w", r.name, i, len(got), err)
		}
		if want.Title != shown.Title || want.Link != shown.Link || want.Content != shown.Content || want.Summary != shown.Summary {
			return fmt.Errorf("%s: item %d of %d is not as in the source", r.name, i, len(got))
		}
	}
	return nil
}

// compareGUIDs returns the identities that are missing, those that occur more than once, and those that were not
// expected.
func compareGUIDs(want, got []string) (missing, twice, strange []string) {
	count := map[string]int{}
	for _, g := range got {
		count[g]++
	}
	for _, w := range want {
		switch count[w] {
		case 0:
			missing = append(missing, w)
		case 1:
		default:
			twice = append(twice, w)
		}
		delete(count, w)
	}
	for g := range count {
		strange = append(strange, g)
	}
	return missing, twice, strange
}

// bystanders chooses two nodes that own the fewest keys together, and a path for each feed that neither of them
// owns. The owners can be computed from the nodes' ids and the keys.
func bystanders(t *testing.T, network, base string, names []string, nodes []*nodeProcess) (two []*nodeProcess, paths []string) {
	t.Helper()
	ids := map[overlay.ID]*nodeProcess{}
	var members []overlay.ID
	for _, n := range nodes {
		digits, err := hex.DecodeString(n.status().ID)
		if err != nil {
			t.Fatal(err)
		}
		id := overlay.ID(digits)
		ids[id] = n
		members = append(members, id)
	}
	owners := wire.DefaultNetwork(network).Owners
	// others returns the members that do not own an address.
	others := func(path string) []overlay.ID {
		key := overlay.Key(network, base+path)
		order := slices.Clone(members)
		slices.SortFunc(order, func(a, b overlay.ID) int {
			if overlay.Nearer(key, a, b) {
				return -1
			}
			return 1
		})
		return order[owners:]
	}
	path := func(try int, name string) string { return fmt.Sprintf("/%d/%s", try, name) }
	free := map[[2]overlay.ID]int{}
	var best [2]overlay.ID
	for try := range 200 {
		nonOwners := others(path(try, names[0]))
		for i, a := range nonOwners {
			for _, b := range nonOwners[:i] {
				pair := [2]overlay.ID{a, b}
				if overlay.Nearer(overlay.ID{}, b, a) {
					pair = [2]overlay.ID{b, a}
				}
				if free[pair]++; free[pair] > free[best] {
					best = pair
				}
			}
		}
	}
	for _, name := range names {
		for try := 0; ; try++ {
			nonOwners := others(path(try, name))
			if slices.Contains(nonOwners, best[0]) && slices.Contains(nonOwners, best[1]) {
				paths = append(paths, path(try, name))
				break
			}
		}
	}
	return []*nodeProcess{ids[best[0]], ids[best[1]]}, paths
}

// A newsboatHome is a newsboat with its own home directory.
type newsboatHome struct {
	newsboat, sqlite, dir string
	address               map[string]string // where it reads a feed, by the feed's own address
}

func (b *newsboatHome) configure(t *testing.T) {
	t.Helper()
	var urls strings.Builder
	for _, a := range b.address {
		urls.WriteString(a + "\n")
	}
	// All items are kept, so that duplicates are visible.
	config := "max-items 0\nkeep-articles-days 0\ndownload-retries 1\nreload-threads 2\ncleanup-on-quit no\n"
	for name, text := range map[string]string{"urls": urls.String(), "config": config} {
		if err := os.WriteFile(filepath.Join(b.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func (b *newsboatHome) reload(ctx context.Context) error {
	c := exec.CommandContext(ctx, b.newsboat, "-u", "urls", "-c", "cache.db", "-C", "config", "-x", "reload")
	c.Dir = b.dir
	c.Env = []string{"HOME=" + b.dir, "XDG_CONFIG_HOME=" + b.dir, "XDG_DATA_HOME=" + b.dir, "PATH=" + os.Getenv("PATH"), "LC_ALL=C.UTF-8"}
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	c.WaitDelay = timeout
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("newsboat: %w: %s", err, out)
	}
	return nil
}

// itemGUIDs returns the identities of a feed's items in newsboat's cache, one per row.
func (b *newsboatHome) itemGUIDs(ctx context.Context, url string) ([]string, error) {
	quoted := "'" + strings.ReplaceAll(b.address[url], "'", "''") + "'"
	c := exec.CommandContext(ctx, b.sqlite, "cache.db", "select guid from rss_item where feedurl = "+quoted)
	c.Dir = b.dir
	out, err := c.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("sqlite3: %w: %s", err, out)
	}
	return strings.FieldsFunc(string(out), func(r rune) bool { return r == '\n' }), nil
}

// replaysOf returns the feeds to replay: the real ones that gain the most items, or synthetic ones if the real ones
// are not available.
func replaysOf(t *testing.T) []*replay {
	t.Helper()
	var replays []*replay
	data := filepath.Join("..", "..", "..", "shared", "data")
	_, err := os.Stat(data)
	switch {
	case os.Getenv("TIDINGS_NO_DATA") != "" || errors.Is(err, fs.ErrNotExist):
		t.Log("no real feeds are at hand: made-up ones are played")
		for i := range replayFeeds() {
			replays = append(replays, syntheticReplay(i))
		}
	case err != nil:
		t.Fatal(err)
	default:
		replays = realReplays(t, data)
	}
	var gaining, others []*replay
	owner := map[string]string{}
	for _, r := range replays {
		switch err := r.examine(owner); {
		case err != nil:
			t.Logf("%s is left out: %v", r.name, err)
		case r.newItems > 0 && len(gaining) < replayFeeds():
			gaining = append(gaining, r)
		case r.newItems == 0 && len(others) < replayOthers:
			others = append(others, r)
		}
	}
	if len(gaining) < replayFeeds() {
		t.Fatalf("%d feeds gain items, where %d are wanted", len(gaining), replayFeeds())
	}
	return append(gaining, others...)
}

// examine reads the snapshots and determines the items that must arrive. It leaves out items that newsboat cannot
// count: newsboat merges items with the same identity, whichever feeds they are in, and makes an identity of link
// and date for items without one.
func (r *replay) examine(owner map[string]string) error {
	seen := map[string]bool{}
	for _, s := range r.snapshots {
		f, err := feed.Parse(s.Body, s.ContentType)
		if err != nil {
			continue // an error page among the snapshots
		}
		for _, it := range f.Items {
			m, err := it.Meaning("")
			if err != nil || m.GUID == "" {
				return errors.New("it has items without an identity")
			}
			if !seen[m.GUID] {
				seen[m.GUID] = true
				r.guids = append(r.guids, m.GUID)
				if len(r.read) > 0 {
					r.newItems++
				}
			}
		}
		r.read = append(r.read, f)
	}
	for _, g := range r.guids {
		if other := owner[g]; other != "" {
			return fmt.Errorf("it shares the item %s with %s", g, other)
		}
	}
	for _, g := range r.guids {
		owner[g] = r.name
	}
	if len(r.snapshots) < replaySnapshots() {
		return fmt.Errorf("it has %d snapshots", len(r.snapshots))
	}
	return nil
}

// syntheticReplay returns a lively feed with documents of sufficient length.
func syntheticReplay(i int) *replay {
	l := script.NewLively(script.Config{
		Seed: uint64(i), Format: []script.Format{script.RSS, script.Atom}[i%2],
		Link: fmt.Sprintf("http://lively%d.example/", i), Rebuild: 3 * time.Minute,
	})
	r := &replay{name: fmt.Sprintf("lively-%d", i)}
	for at := time.Duration(0); len(r.snapshots) < replaySnapshots(); {
		v := l.At(at)
		r.snapshots = append(r.snapshots, script.Snapshot{Body: v.Body, ContentType: v.ContentType, Hold: replayHold})
		next, ok := l.Next(at)
		if !ok {
			break
		}
		at = next
	}
	return r
}

// realReplays returns the feeds that gain items according to pairs.csv, with the snapshots around the gains.
func realReplays(t *testing.T, data string) []*replay {
	t.Helper()
	file, err := os.Open(filepath.Join(data, "pairs.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	rows, err := csv.NewReader(file).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	column := map[string]int{}
	for i, name := range rows[0] {
		column[name] = i
	}
	files, gains, total := map[string][]string{}, map[string][]int{}, map[string]int{}
	for _, row := range rows[1:] {
		name := row[column["trace"]]
		gain, _ := strconv.Atoi(row[column["new"]])
		if row[column["parse_ok"]] != "true" {
			gain = 0
		}
		files[name] = append(files[name], row[column["file"]])
		gains[name] = append(gains[name], gain)
		total[name] += gain
	}
	var names []string
	for name := range total {
		if total[name] > 0 && len(files[name]) > replaySnapshots() {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		if total[a] != total[b] {
			return total[b] - total[a]
		}
		return strings.Compare(a, b)
	})
	var replays []*replay
	for _, name := range names {
		keep := placesNear(gains[name], replaySnapshots())
		snapshots, err := origin.Trace(filepath.Join(data, "traces", name+".tar.zst"), func(f string) bool {
			i := slices.Index(files[name], f)
			return i >= 0 && keep[i]
		})
		if err != nil {
			t.Fatal(err)
		}
		r := &replay{name: name}
		for _, s := range snapshots {
			r.snapshots = append(r.snapshots, script.Snapshot{Body: s.Body, ContentType: s.ContentType, Hold: replayHold})
		}
		replays = append(replays, r)
	}
	return replays
}

// placesNear chooses n indices nearest to the gains, preferably before them.
func placesNear(gains []int, n int) []bool {
	distance := make([]int, len(gains))
	for i := range distance {
		distance[i] = math.MaxInt
		for j, g := range gains {
			if g > 0 {
				d := 2 * (j - i)
				if d < 0 {
					d = 1 - d
				}
				distance[i] = min(distance[i], d)
			}
		}
	}
	order := make([]int, len(gains))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return distance[a] - distance[b] })
	keep := make([]bool, len(gains))
	for _, i := range order[:n] {
		keep[i] = true
	}
	return keep
}
