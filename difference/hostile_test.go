package difference

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"tidings/internal/feed"
	"tidings/internal/longtest"
)

// hostileFeeds make the items of a feed in versions, which are made to cost as much as possible: the elements of item i of n
// in version v, and the beginning of its text.
var hostileFeeds = map[string]func(i, n, v int) (elements, text string){
	"counters":         func(i, n, v int) (string, string) { return guid(i), fmt.Sprintf("%d comments", i*v) },
	"edits":            func(i, n, v int) (string, string) { return guid(i), strings.Repeat("y", v) },
	"edits taken back": func(i, n, v int) (string, string) { return guid(i), strings.Repeat("y", v%3%2) },
	"all are new":      func(i, n, v int) (string, string) { return guid(v*n + i), "" },
	"one guid":         func(i, n, v int) (string, string) { return guid(1), fmt.Sprint(i + v) },
	"guids that drift": func(i, n, v int) (string, string) {
		return guid(i/2*(v%2)) + fmt.Sprintf("<title>t%d</title><link>http://a.example/%[1]d</link>", i), ""
	},
	"guids that drift, of one title": func(i, n, v int) (string, string) {
		return guid(i+v) + "<title>t</title><link>http://a.example/</link>", ""
	},
	"dates instead of guids": func(i, n, v int) (string, string) {
		return fmt.Sprintf("<title>t</title><pubDate>Fri, 27 Nov 2026 10:%02d:%02d GMT</pubDate>", i/60%60, (i+v)%60), ""
	},
	"another order":             func(i, n, v int) (string, string) { return guid((i*(1+v*2) + v) % n), "" },
	"every other one withdrawn": func(i, n, v int) (string, string) { return guid(i * (1 + min(v, 1))), "" },
	"others between the first and the last": func(i, n, v int) (string, string) {
		if i%(n-1) == 0 {
			return guid(i), ""
		}
		return guid(i + v/2%2*n), ""
	},
	"all withdrawn, and back": func(i, n, v int) (string, string) { return strings.Repeat(guid(i), 1-v/3%2), "" },
}

func guid(n int) string { return fmt.Sprintf("<guid>%d</guid>", n) }

// No document of a feed takes long, or much memory, whatever the documents before it were, and neither does the delta that
// it makes.
func TestHostileFeedsAreCheap(t *testing.T) {
	n := longtest.Pick(feed.MaxItems/10, feed.MaxItems)
	size := feed.MaxDocument/feed.MaxItems - 200 // of an item
	for what, item := range hostileFeeds {
		t.Run(what, func(t *testing.T) {
			var k Known
			var w Window
			now := time.Unix(1.7e9, 0)
			for v := range longtest.Pick(3, 10) {
				var b strings.Builder
				b.WriteString("<rss><channel><title>T</title>")
				for i := range n {
					if elements, text := item(i, n, v); elements != "" {
						b.WriteString("<item>" + elements + "<description>" + text + strings.Repeat(" x 1", (size-len(text))/4) + "</description></item>")
					}
				}
				b.WriteString("</channel></rss>")
				doc := []byte(b.String())
				now = now.Add(time.Hour)
				var d Delta
				longtest.Bounded(t, func() {
					f, err := feed.Parse(doc, "")
					if err != nil {
						t.Fatal(err)
					}
					k.Recognise(f)
					k.Suspicious(f)
					k.IsBehind(f)
					k.Sight(f, 3*time.Hour, now)
					d = w.Renew(k.DiffWithTakenBack(f, time.Hour, now), f, uint64(v))
					k.Touch(f)
				})
				t.Logf("%d changes, %d withdrawn, %d stand again", len(d.Changes), len(d.Withdrawn), len(d.Standing))
				longtest.Bounded(t, func() {
					body, err := d.Encode()
					if err != nil {
						t.Fatal(err)
					}
					if d, err = Decode(body); err != nil {
						t.Fatal(err)
					}
					k.Add(d)
					w.Apply(d, now, uint64(v+1))
					w.Forget(uint64(v))
				})
			}
		})
	}
}
