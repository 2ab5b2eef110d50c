package publisher

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"tidings/difference"
	"tidings/internal/feed"
)

// newKey makes a key and returns its path.
func newKey(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "blog.key")
	if _, err := Generate(path, ""); err != nil {
		t.Fatal(err)
	}
	return path
}

// size returns the size of a file.
func size(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// A signature adds a line to the log and leaves the record's file alone, until the log is larger than both its bound and the
// record. Then the record has everything and the log is empty.
func TestLogIsFolded(t *testing.T) {
	path := newKey(t)
	a := opened(t, path)
	signed(t, a, Head{}, "first")
	log, before := path+recordSuffix+logSuffix, a.record.file
	var last *difference.Publication
	large := strings.Repeat("x", 20_000)
	folded := false
	for i := range 2 * minFoldedLog / len(large) {
		was := size(t, log)
		last = signed(t, a, Head{}, fmt.Sprint(i, large))
		now := size(t, log)
		if info, err := os.Stat(path + recordSuffix); err != nil || os.SameFile(before, info) != (now > 0) {
			t.Fatalf("log of %d bytes, then %d: %v", was, now, err)
		}
		if now == 0 {
			if folded = true; was <= minFoldedLog {
				t.Errorf("the log was folded at %d bytes", was)
			}
			break
		}
	}
	if !folded {
		t.Errorf("the log has %d bytes", size(t, log))
	}
	if e := opened(t, path).record.feeds[url]; e.Seq != last.Seq || !bytes.Equal(e.Envelope, last.Raw) {
		t.Errorf("the record ends with %d, not %d", e.Seq, last.Seq)
	}
}

// The log grows in steps, so that most lines need only a sync of their bytes. Processes that take turns write into the same room.
func TestTheLogGrowsInSteps(t *testing.T) {
	path := newKey(t)
	a := opened(t, path)
	b := opened(t, path)
	log := path + recordSuffix + logSuffix
	signed(t, a, Head{}, "first")
	sizes := map[int64]bool{}
	const lines = 60
	for i := range lines {
		p := signed(t, []*Signer{a, b}[i%2], Head{}, fmt.Sprint(i, strings.Repeat("x", 2_000)))
		if p.Seq != uint64(i+2) {
			t.Fatalf("number %d after %d lines", p.Seq, i)
		}
		sizes[size(t, log)] = true
	}
	if len(sizes) < 2 || len(sizes) > lines/10 {
		t.Errorf("the log had %d sizes", len(sizes))
	}
}

// A log that somebody has replaced by an older one, in the same file, is read again. What follows is written behind its lines, not
// where the lines of the newer one ended.
func TestALogThatWasReplacedIsReadAgain(t *testing.T) {
	path := newKey(t)
	a := opened(t, path)
	signed(t, a, Head{}, "one")
	two := signed(t, a, Head{}, "two")
	log := path + recordSuffix + logSuffix
	older, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"three", "four"} {
		signed(t, a, Head{}, name)
	}
	if err := os.WriteFile(log, older, 0o600); err != nil { // with as many bytes as before
		t.Fatal(err)
	}
	if p := signed(t, a, Head{}, "another"); p.Seq != 3 || p.Prev != two.Hash {
		t.Errorf("number %d", p.Seq)
	}
	if e := opened(t, path).record.feeds[url]; e.Seq != 3 {
		t.Errorf("the next process reads %d", e.Seq)
	}
}

// A crash at any byte of a line leaves the record as it was before the line, and the next line takes its place.
func TestTornLineIsIgnored(t *testing.T) {
	path := newKey(t)
	log := path + recordSuffix + logSuffix
	a := opened(t, path)
	signed(t, a, Head{}, "one")
	lines := func() []byte { // of the log, without its zeros
		t.Helper()
		b, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		return b[:bytes.LastIndexByte(b, '\n')+1]
	}
	two := signed(t, a, Head{}, "two")
	whole := len(lines())
	signed(t, a, Head{}, "three")
	b := lines()
	torn := map[string][]byte{"zeros": append(bytes.Clone(b[:whole]), make([]byte, 100)...), "zeros and the end of a line": append(bytes.Clone(b[:whole]), "\x00\x00\n"...)}
	for cut := whole; cut < len(b); cut += 97 {
		torn[fmt.Sprintf("%d bytes", cut-whole)] = b[:cut]
		torn[fmt.Sprintf("%d bytes, then zeros", cut-whole)] = append(bytes.Clone(b[:cut]), make([]byte, logStep)...)
	}
	for name, b := range torn {
		if err := os.WriteFile(log, b, 0o600); err != nil {
			t.Fatal(err)
		}
		a := opened(t, path)
		if e := a.record.feeds[url]; e.Seq != two.Seq {
			t.Errorf("%s: the record ends with %d", name, e.Seq)
		}
		if p := signed(t, a, Head{}, "another"); p.Seq != 3 || p.Prev != two.Hash {
			t.Errorf("%s: number %d", name, p.Seq)
		}
		if e := opened(t, path).record.feeds[url]; e.Seq != 3 {
			t.Errorf("%s: the next process reads %d", name, e.Seq)
		}
		for range 3 { // into the room for further lines
			signed(t, a, Head{}, "more")
		}
		if e := opened(t, path).record.feeds[url]; e.Seq != 6 {
			t.Errorf("%s: the next process reads %d after more lines", name, e.Seq)
		}
	}
}

// A damaged line that others follow was synced, and perhaps sent, so nothing is signed. Nor is it if the log is missing.
func TestDamagedLogIsRefused(t *testing.T) {
	path := newKey(t)
	log := path + recordSuffix + logSuffix
	a := opened(t, path)
	for _, name := range []string{"one", "two", "three"} {
		signed(t, a, Head{}, name)
	}
	b, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	b[2] = 0
	if err := os.WriteFile(log, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, noPassphrase); err == nil || !strings.Contains(err.Error(), log+" is damaged") {
		t.Errorf("a damaged line: %v", err)
	}
	if err := os.Remove(log); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, noPassphrase); err == nil || !strings.Contains(err.Error(), "its log is missing") {
		t.Errorf("no log: %v", err)
	}
	if _, err := a.Sign(url, Head{}, item(t, "four"), time.Now()); err == nil || !strings.Contains(err.Error(), "its log is missing") {
		t.Errorf("no log, in a running process: %v", err)
	}
}

// A crash after the record was folded and before the log was emptied repeats nothing.
func TestLinesOfFormerRecordAreIgnored(t *testing.T) {
	path := newKey(t)
	log := path + recordSuffix + logSuffix
	a := opened(t, path)
	signed(t, a, Head{}, "one")
	signed(t, a, Head{}, "two")
	stale, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 * maxEarlier { // so many that the record no longer has what the stale lines add
		signed(t, a, Head{}, "later")
	}
	if err := a.record.fold(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(log, stale, 0o600); err != nil {
		t.Fatal(err)
	}
	want := a.record.feeds[url]
	for _, a := range []*Signer{opened(t, path), a} {
		if p := signed(t, a, Head{}, "next"); p.Seq != want.Seq+1 || p.Prev != feed.Hash(want.Hash) {
			t.Errorf("number %d after %d", p.Seq, want.Seq)
		}
		want = a.record.feeds[url]
	}
}

// The record of an older version is read. Once a line was written, the older version cannot read the record, and a newer
// version's record is refused here.
func TestVersionsOfTheRecord(t *testing.T) {
	path := newKey(t)
	a := opened(t, path)
	one := signed(t, a, Head{}, "one")
	old, err := json.Marshal(a.record.feeds) // version 1
	if err == nil {
		err = os.WriteFile(path+recordSuffix, old, 0o600)
	}
	if err == nil {
		err = os.Remove(path + recordSuffix + logSuffix)
	}
	if err != nil {
		t.Fatal(err)
	}
	a = opened(t, path)
	if two := signed(t, a, Head{}, "two"); two.Seq != 2 || two.Prev != one.Hash {
		t.Errorf("number %d after the record of an older version", two.Seq)
	}
	b, err := os.ReadFile(path + recordSuffix)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &map[string]recordEntry{}); err == nil {
		t.Error("an older version reads the record, and does not know of its log")
	}
	if err := os.WriteFile(path+recordSuffix, bytes.Replace(b, []byte(`"version":2`), []byte(`"version":3`), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, noPassphrase); err == nil || !strings.Contains(err.Error(), "newer version") {
		t.Errorf("a newer record: %v", err)
	}
}

// Items that the network has accepted are kept in a small number.
func TestAcceptedItemsAreDropped(t *testing.T) {
	a := opened(t, newKey(t))
	var had Head
	for i := range 2 * maxEarlier {
		if _, err := signAndPush(a, url, had.Seq, had.Hash, item(t, fmt.Sprint(i)), time.Unix(2, 0), func(envelope []byte) error {
			p, err := difference.OpenPublication(envelope)
			if err == nil {
				had = Head{p.Seq, p.Hash}
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(a.record.feeds[url].Earlier); n < maxEarlierAccepted || n > maxEarlierAccepted+2 {
		t.Errorf("%d earlier items are kept", n)
	}
}

// Large items that the network has accepted are kept in a smaller number.
func TestLargeAcceptedItemsAreDropped(t *testing.T) {
	a := opened(t, newKey(t))
	const size = 900_000
	var had Head
	for n := range 2 * maxEarlierBytes / size {
		small := item(t, fmt.Sprint(n))
		raw := strings.Replace(string(small.Raw), "</item>", "<description>"+strings.Repeat("x", size)+"</description></item>", 1)
		large, err := feed.ReadItem(feed.RSS, []byte(raw), small.Scope, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := signAndPush(a, url, had.Seq, had.Hash, &large, time.Unix(2, 0), func(envelope []byte) error {
			p, err := difference.OpenPublication(envelope)
			if err == nil {
				had = Head{p.Seq, p.Hash}
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(a.record.feeds[url].Earlier); n < 3 || n > maxEarlierBytes/size+1 {
		t.Errorf("%d earlier items are kept", n)
	}
}

// If the record cannot be written, nothing of the change is left, also not in memory.
func TestAFailedChangeIsUndone(t *testing.T) {
	a := opened(t, newKey(t))
	signed(t, a, Head{}, "first")
	was := a.record.feeds[url]
	const other = "https://b.example/feed"
	err := a.locked(func() error {
		for seq := range uint64(3) {
			a.record.change(url, recordEntry{Seq: was.Seq + 1 + seq, Envelope: []byte{1}, Hash: []byte{2}})
			a.record.change(other, recordEntry{Seq: 1 + seq, Envelope: []byte{1}, Hash: []byte{2}})
		}
		if err := os.Remove(a.record.path + logSuffix); err != nil {
			return err
		}
		return os.Mkdir(a.record.path+logSuffix, 0o700)
	})
	if err == nil {
		t.Fatal("the change was made")
	}
	if is := a.record.feeds[url]; !reflect.DeepEqual(is, was) {
		t.Errorf("%+v, want %+v", is, was)
	}
	if yes, _ := a.Signed(other); yes || len(a.Feeds()) != 1 {
		t.Errorf("feeds %v", a.Feeds())
	}
}

// signsForever is the environment variable with the key of a process that TestKilledProcesses starts.
const signsForever = "TIDINGS_TEST_SIGNS_FOREVER"

// Processes that share a key are killed at any time. No number is ever seen with two items, and the record has all that were
// seen.
func TestKilledProcesses(t *testing.T) {
	if path := os.Getenv(signsForever); path != "" {
		a := opened(t, path)
		for i := 0; ; i++ {
			p := signed(t, a, Head{}, fmt.Sprint(os.Getpid(), i, strings.Repeat("x", 15_000)))
			fmt.Printf("signed %d %s\n", p.Seq, p.Hash)
		}
	}
	path := newKey(t)
	seen := map[uint64]string{}
	for round := range 4 {
		var outputs []*bufio.Scanner
		var children []*exec.Cmd
		for range 2 {
			c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilledProcesses$")
			c.Env = append(os.Environ(), signsForever+"="+path)
			out, err := c.StdoutPipe()
			if err == nil {
				err = c.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			outputs, children = append(outputs, bufio.NewScanner(out)), append(children, c)
		}
		for i, out := range outputs {
			for n := 0; out.Scan(); n++ {
				var seq uint64
				var hash string
				if _, err := fmt.Sscanf(out.Text(), "signed %d %s", &seq, &hash); err != nil {
					continue // a line that was cut off
				}
				if other, had := seen[seq]; had && other != hash {
					t.Errorf("number %d was used twice", seq)
				}
				if seen[seq] = hash; n == 3+5*round {
					if err := children[i].Process.Kill(); err != nil {
						t.Fatal(err)
					}
				}
			}
			_ = children[i].Wait() // it was killed
		}
		last := opened(t, path).record.feeds[url]
		for seq, hash := range seen {
			e, kept := last.find(seq)
			if seq > last.Seq || kept && feed.Hash(e.Hash).String() != hash {
				t.Errorf("number %d is not in the record, which ends with %d", seq, last.Seq)
			}
		}
	}
	if len(seen) < 40 {
		t.Errorf("only %d items were signed", len(seen))
	}
}

// An item costs the same memory with many feeds of the key, and with much room in the log.
func TestSigningCostsTheSameWithManyFeeds(t *testing.T) {
	bytesEach := func(feeds int) uint64 {
		a := opened(t, newKey(t))
		if err := a.locked(func() error {
			for i := range feeds {
				a.record.change(fmt.Sprintf("http://a.example/%d", i), recordEntry{Seq: 1, Hash: make([]byte, 32), Accepted: true})
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		had := Head{}
		sign := func() {
			p := signed(t, a, had, fmt.Sprint(had.Seq))
			had = Head{p.Seq, p.Hash}
		}
		sign() // gets room
		const items = 20
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range items {
			sign()
		}
		runtime.ReadMemStats(&after)
		return (after.TotalAlloc - before.TotalAlloc) / items
	}
	few, many := bytesEach(1), bytesEach(10_000)
	t.Logf("%d and %d bytes an item", few, many)
	if many > few+few/2 || few > logStep/2 {
		t.Errorf("an item takes %d bytes of memory with one feed, and %d with 10,000", few, many)
	}
}

// A batch of items costs one sync, whatever the number of feeds and of items before.
func BenchmarkSignAndPush(b *testing.B) {
	for _, n := range []int{1, 16} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			path := newKey(b)
			a, err := Open(path, noPassphrase)
			if err != nil {
				b.Fatal(err)
			}
			it, err := feed.NewItem(feed.RSS, feed.Meaning{GUID: "one", Title: "one", Content: strings.Repeat("It says something. ", 30)}, time.Unix(1, 0))
			if err != nil {
				b.Fatal(err)
			}
			var items []*feed.Item
			for range n {
				items = append(items, &it)
			}
			var had Head
			for b.Loop() {
				_, errs := a.SignAndPush(url, had.Seq, had.Hash, items, time.Unix(2, 0), func(all []*difference.Publication) []error {
					last := all[len(all)-1]
					had = Head{last.Seq, last.Hash}
					return make([]error, len(all))
				})
				if errs[0] != nil {
					b.Fatal(errs[0])
				}
			}
		})
	}
}
