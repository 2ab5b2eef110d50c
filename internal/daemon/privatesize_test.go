package daemon

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"tidings/internal/env"
)

// manyNames is a feed with many namespaces that each item uses, so that they are in the scope of each item.
func manyNames(items, names, length int) env.Answer {
	var doc, uses strings.Builder
	doc.WriteString(`<rss version="2.0"`)
	for i := range names {
		fmt.Fprintf(&doc, ` xmlns:n%d="urn:%d:%s"`, i, i, strings.Repeat("&amp;", length))
		fmt.Fprintf(&uses, `<n%d:a/>`, i)
	}
	doc.WriteString(`><channel><title>News</title><link>https://example.org/</link><description/>`)
	for i := range items {
		fmt.Fprintf(&doc, `<item><guid isPermaLink="false">%d</guid><title>t</title>%s</item>`, i, uses.String())
	}
	doc.WriteString(`</channel></rss>`)
	return env.Answer{Status: 200, Body: []byte(doc.String())}
}

// A node reads all files that it writes, also those of a feed whose items say little and whose namespaces say much.
func TestTheLargestPrivateFileIsRead(t *testing.T) {
	for _, c := range []struct {
		items, names, length int
		cut                  bool
	}{{100, 5, 10, false}, {2000, 60, 110, true}} {
		dir := t.TempDir()
		b := newPrivateBench(t, dir)
		b.answers[privateURL] = manyNames(c.items, c.names, c.length)
		f := b.mustSubscribe(privateURL)
		info, err := os.Stat(b.path(f.Name))
		if err != nil {
			t.Fatal(err)
		}
		if n := len(f.contents.entries); n == 0 || info.Size() > maxPrivateFile || (n < c.items) != c.cut || f.contents.size > maxPrivateBytes {
			t.Errorf("%d of %d items with %d bytes are kept, in a file of %d bytes", n, c.items, f.contents.size, info.Size())
		}
		if found := fmt.Sprint(b.findings()); strings.Contains(found, "its last items are left out") != c.cut {
			t.Errorf("the findings are %s", found)
		}
		again := newPrivateBench(t, dir)
		if g := again.byName[f.Name]; g == nil || len(g.contents.entries) != len(f.contents.entries) || g.contents.size != f.contents.size {
			t.Errorf("after a restart: %+v, damaged %v", again.list(), again.damaged)
		}
	}
}

// A feed keeps what the others leave of the bound for all, old items last.
func TestPrivateFeedsShareTheirMemory(t *testing.T) {
	b := newPrivateBench(t, t.TempDir())
	b.answers[privateURL], b.answers[triedURL] = rss("3", "three", "2", "two", "1", "one"), rss("1", "one")
	f, other := b.mustSubscribe(privateURL), b.mustSubscribe("https://ann:a@example.org/f")
	b.answers[privateURL] = rss("4", "four", "3", "three")
	b.poll(f)
	if got := b.titles(f); got != "four three two one" {
		t.Fatalf("the items are %s", got)
	}
	for _, c := range []struct {
		a    env.Answer
		room int
		want string
	}{{rss("5", "five", "4", "four"), 3, "five four three"}, {rss("6", "six", "5", "five"), 1, "six"}} {
		other.contents.size = maxAllPrivateBytes - c.room*len("<item><guid>5</guid><title>seven</title></item>")
		b.answers[privateURL] = c.a
		b.poll(f)
		if got := b.titles(f); got != c.want {
			t.Errorf("with room for %d items they are %s", c.room, got)
		}
	}
}

func TestHeadersAndFilesOfPrivateFeedsAreBounded(t *testing.T) {
	for size, fits := range map[int]bool{maxPrivateHeaderBytes: true, maxPrivateHeaderBytes + 1: false} {
		_, err := checkHeaders(map[string]string{"Cookie": strings.Repeat("x", size-len("Cookie"))})
		if (err == nil) != fits {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
	if _, err := decodePrivateFile([]byte(strings.Repeat(" ", maxPrivateFile+1))); err == nil || !strings.Contains(err.Error(), "too large") {
		t.Error(err)
	}
}
