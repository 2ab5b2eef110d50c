package script

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestReplayHoldsEachSnapshot(t *testing.T) {
	s := func(body string, hold time.Duration) Snapshot {
		return Snapshot{Body: []byte(body), ContentType: "text/" + body, Hold: hold}
	}
	r := NewReplay([]Snapshot{s("a", 10), s("never", 0), s("b", 5), s("c", 1)})
	for _, c := range []struct {
		t     time.Duration
		body  string
		index int
		since time.Duration
		next  time.Duration // 0: none
	}{
		{-5, "a", 0, 0, 10}, {0, "a", 0, 0, 10}, {9, "a", 0, 0, 10}, {10, "b", 2, 10, 15}, {14, "b", 2, 10, 15},
		{15, "c", 3, 15, 0}, {1000, "c", 3, 15, 0},
	} {
		v := r.At(c.t)
		if string(v.Body) != c.body || v.ContentType != "text/"+c.body || v.Index != c.index || v.Since != c.since {
			t.Errorf("at %d: %+v", c.t, v)
		}
		if next, ok := r.Next(c.t); next != c.next || ok != (c.next != 0) {
			t.Errorf("after %d comes %d, %v", c.t, next, ok)
		}
	}
}

func TestReplayOfNothingPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	NewReplay(nil)
}

func draw(t *rapid.T) Config {
	return Config{
		Seed:    rapid.Uint64().Draw(t, "seed"),
		Format:  Format(rapid.IntRange(0, 2).Draw(t, "format")),
		Items:   rapid.IntRange(-1, 30).Draw(t, "items"),
		Window:  rapid.IntRange(1, 30).Draw(t, "window"),
		Every:   time.Duration(rapid.IntRange(1, 1000).Draw(t, "every")) * time.Second,
		Limit:   rapid.IntRange(0, 10).Draw(t, "limit"),
		Rebuild: time.Duration(rapid.IntRange(0, 1000).Draw(t, "rebuild")) * time.Second,
	}
}

// Each version lasts from its Since to Next, and is told by its Index.
func TestVersionsFollowEachOther(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := NewLively(draw(t))
		now := time.Duration(0)
		v := l.At(now)
		if before := l.At(-time.Hour); !bytes.Equal(before.Body, v.Body) && l.Published(0) == l.Published(-1) {
			t.Fatal("another version before the beginning")
		}
		for range 20 {
			next, ok := l.Next(now)
			if !ok {
				if later := l.At(now + 1000*time.Hour); later.Index != v.Index || !bytes.Equal(later.Body, v.Body) {
					t.Fatalf("version %d comes after the last one", later.Index)
				}
				return
			}
			if last := l.At(next - 1); last.Index != v.Index || last.Since != v.Since || !bytes.Equal(last.Body, v.Body) {
				t.Fatalf("version %d turns into %d before %v", v.Index, last.Index, next)
			}
			newer := l.At(next)
			if newer.Index <= v.Index || newer.Since != next || bytes.Equal(newer.Body, v.Body) && next-now > time.Second {
				t.Fatalf("at %v, after version %d since %v: version %d since %v", next, v.Index, v.Since, newer.Index, newer.Since)
			}
			now, v = next, newer
		}
	})
}

func TestNewItemsComeOnTopAndOldOnesRollOff(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := draw(t)
		l := NewLively(c)
		now := time.Duration(rapid.IntRange(0, 20_000).Draw(t, "now")) * time.Second
		n := l.Published(now)
		var want []string
		for i := n - 1; i >= 0 && len(want) < c.Window; i-- {
			item := l.Item(i)
			if item.At > now || i+1 < n && item.At >= l.Item(i+1).At {
				t.Fatalf("item %d of %d came at %v", i, n, item.At)
			}
			want = append(want, item.Title)
		}
		if c.Limit == 0 && l.Item(n).At <= now {
			t.Fatalf("item %d should have come", n)
		}
		v := NewLively(c).At(now)
		if got := titles(t, c.Format, v.Body); !slices.Equal(got, want) {
			t.Fatalf("got  %q\nwant %q", got, want)
		}
		if len(v.Body) > 3000*(1+len(want)) || !utf8.Valid(v.Body) {
			t.Fatalf("%d items in %d bytes", len(want), len(v.Body))
		}
	})
}

// titles are those of the items of a document, read without the help of the
// packages that are tested with it.
func titles(t *rapid.T, f Format, body []byte) (all []string) {
	if f == JSON {
		var doc struct{ Items []struct{ Title string } }
		if err := json.Unmarshal(body, &doc); err != nil {
			t.Fatal(err)
		}
		for _, i := range doc.Items {
			all = append(all, i.Title)
		}
		return all
	}
	d := xml.NewDecoder(bytes.NewReader(body))
	var path []string
	for {
		token, err := d.Token()
		switch {
		case errors.Is(err, io.EOF):
			return all
		case err != nil:
			t.Fatal(err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			path = append(path, token.Name.Local)
		case xml.EndElement:
			path = path[:len(path)-1]
		case xml.CharData:
			if at := strings.Join(path, "/"); at == "rss/channel/item/title" || at == "feed/entry/title" {
				all = append(all, string(token))
			}
		}
	}
}

func BenchmarkLively(b *testing.B) {
	l := NewLively(Config{})
	for b.Loop() {
		l.At(time.Hour)
	}
}
