package feed

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// only returns the item of a document that has one.
func only(t testing.TB, item string) Item {
	t.Helper()
	doc := item
	switch {
	case strings.HasPrefix(item, "<item"):
		doc = "<rss xmlns:content='" + nsContent + "' xmlns:c='" + nsContent + "' xmlns:dc='" + nsDC + "' xmlns:slash='http://purl.org/rss/1.0/modules/slash/'><channel>" + item + "</channel></rss>"
	case strings.HasPrefix(item, "<entry"):
		doc = "<feed xmlns='" + nsAtom + "'>" + item + "</feed>"
	case strings.HasPrefix(item, "{"):
		doc = `{"title":"T","items":[` + item + `]}`
	}
	f := parse(t, doc)
	if len(f.Items) != 1 {
		t.Fatalf("%d items in %s", len(f.Items), doc)
	}
	return f.Items[0]
}

func TestInvisibleChangesAreNoEdits(t *testing.T) {
	for _, c := range []struct{ name, a, b string }{
		{"spelling", "<item><guid>1</guid><description>a &amp;amp; b</description></item>", "<item><guid>1</guid><description><![CDATA[a &amp; b]]></description></item>"},
		{"prefix", "<item><content:encoded>x</content:encoded></item>", "<item><c:encoded>x</c:encoded></item>"},
		{"white space", "<item><title>a b</title></item>", "<item>\n<title> a\n b\u200b </title></item>"},
		{"order of attributes", "<item><enclosure url='u' type='a/b'/></item>", "<item><enclosure type='a/b' url='u'/></item>"},
		{"date", "<item><guid>1</guid><pubDate>Mon</pubDate></item>", "<item><guid>1</guid><pubDate>Tue</pubDate></item>"},
		{"count of comments", "<item><guid>1</guid><slash:comments>1</slash:comments></item>", "<item><guid>1</guid><slash:comments>2</slash:comments></item>"},
		{"campaign", "<item><guid>1</guid><link>http://x/?a=1&amp;utm_source=rss&amp;b=2</link></item>", "<item><guid>1</guid><link>https://x/?a=1&amp;b=2</link></item>"},
		{"signed file", "<item><guid>1</guid><enclosure url='u?sig=1'/></item>", "<item><guid>1</guid><enclosure url='u?sig=2'/></item>"},
		{"markup", "<item><guid>1</guid><description>&lt;p class='a'>x&lt;/p></description></item>", "<item><guid>1</guid><description>&lt;div>x&lt;/div>\n&lt;script>y&lt;/script></description></item>"},
		{"replica of a picture", "<item><guid>1</guid><description>&lt;img src='http://i0.x/a.jpg?t=1'></description></item>", "<item><guid>1</guid><description>&lt;img src='http://i1.x/a.jpg?t=2'></description></item>"},
		{"counting pixel", "<item><guid>1</guid><description>x&lt;img width='1' src='http://p/1'></description></item>", "<item><guid>1</guid><description>x&lt;img width='1' src='http://p/2'></description></item>"},
		{"updated", "<entry><id>1</id><updated>1</updated></entry>", "<entry><id>1</id><updated>2</updated></entry>"},
		{"embedding", "<entry><id>1</id><content type='html'>&lt;b>x&lt;/b></content></entry>", "<entry><id>1</id><content type='xhtml'><div xmlns='" + nsXHTML + "'>x</div></content></entry>"},
		{"JSON", `{"id":"1","content_html":"x","date_modified":"1"}`, `{ "content_html" : "\u0078", "id": 1 }`},
	} {
		a, b := only(t, c.a), only(t, c.b)
		if a.ID != b.ID {
			t.Errorf("%s: another identity", c.name)
		}
		if a.Hash != b.Hash {
			t.Errorf("%s: another hash", c.name)
		}
	}
}

func TestAnEditKeepsTheIdentity(t *testing.T) {
	for _, c := range []struct{ name, a, b string }{
		{"title", "<item><guid>1</guid><title>a</title></item>", "<item><guid>1</guid><title>b</title></item>"},
		{"link", "<item><guid>1</guid><link>http://x/</link></item>", "<item><guid>1</guid><link>http://y/</link></item>"},
		{"content", "<item><link>http://x/</link><content:encoded>a</content:encoded></item>", "<item><link>http://x/</link><content:encoded>b</content:encoded></item>"},
		{"file", "<item><guid>1</guid><enclosure url='u'/></item>", "<item><guid>1</guid><enclosure url='v'/></item>"},
		{"address in the text", "<item><guid>1</guid><description>&lt;a href='http://x/'></description></item>", "<item><guid>1</guid><description>&lt;a href='http://y/'></description></item>"},
		{"author", "<item><guid>1</guid><dc:creator>a</dc:creator></item>", "<item><guid>1</guid><dc:creator>b</dc:creator></item>"},
		{"author of an entry", "<entry><id>1</id><author><name>a</name></author></entry>", "<entry><id>1</id><author><name>b</name></author></entry>"},
		{"inline text", "<entry><id>1</id><content type='xhtml'><div xmlns='" + nsXHTML + "'>a</div></content></entry>", "<entry><id>1</id><content type='xhtml'><div xmlns='" + nsXHTML + "'>b</div></content></entry>"},
		{"JSON", `{"id":"1","title":"a"}`, `{"id":"1","title":"b"}`},
		{"text without title", "<item><pubDate>Mon</pubDate><description>a</description></item>", "<item><pubDate>Mon</pubDate><description>b</description></item>"},
	} {
		a, b := only(t, c.a), only(t, c.b)
		if a.ID != b.ID {
			t.Errorf("%s: another identity", c.name)
		}
		if a.Hash == b.Hash {
			t.Errorf("%s: the same hash", c.name)
		}
	}
}

func TestQualifiersOfItemsWithOneID(t *testing.T) {
	item := func(link, title, date, text string) string {
		return "<item><guid>g</guid><link>" + link + "</link><title>" + title + "</title><pubDate>" + date + "</pubDate><description>" + text + "</description></item>"
	}
	for _, c := range []struct {
		name  string
		items []string
		apart string
	}{
		{"none", []string{item("1", "a", "", "")}, "0"},
		{"link", []string{item("1", "a", "", ""), item("2", "a", "", "")}, "1 1"},
		{"title", []string{item("1", "a", "", ""), item("1", "b", "", ""), item("2", "b", "", "")}, "2 2 1"},
		{"date", []string{item("1", "a", "Mon", "x"), item("1", "a", "Tue", "y")}, "3 3"},
		{"content", []string{item("1", "a", "Mon", "x"), item("1", "a", "Mon", "y")}, "4 4"},
		{"nothing", []string{item("1", "a", "Mon", "x"), item("1", "a", "Mon", "x")}, "0"},
	} {
		f := parse(t, rss(c.items...))
		var apart []string
		for _, it := range f.Items {
			apart = append(apart, fmt.Sprint(it.Qualifiers))
		}
		if got := strings.Join(apart, " "); got != c.apart {
			t.Errorf("%s: %s, want %s", c.name, got, c.apart)
		}
	}
}

// The identities in a document differ, do not depend on the order of its items, and are the same when an item
// is read by itself.
func TestIdentitiesAreUniqueAndStable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		few := rapid.SampledFrom([]string{"", "a", "b", "http://x/"})
		items := []string{"<item>" + tag("title", "of all") + "</item>"} // a document with only empty items is broken
		for range rapid.IntRange(0, 8).Draw(t, "n") {
			var b strings.Builder
			b.WriteString("<item>")
			for _, name := range []string{"guid", "link", "title", "pubDate", "description"} {
				if s := few.Draw(t, name); s != "" {
					b.WriteString(tag(name, s))
				}
			}
			b.WriteString("</item>")
			items = append(items, b.String())
		}
		f, err := Parse([]byte(rss(items...)), "")
		if err != nil {
			t.Fatal(err)
		}
		seen := map[ID]Hash{}
		for _, it := range f.Items {
			if _, ok := seen[it.ID]; ok {
				t.Fatalf("two of one identity in %v", items)
			}
			seen[it.ID] = it.Hash
			again, err := ReadItem(it.Format, it.Raw, it.Scope, it.Qualifiers)
			if err != nil || again.ID != it.ID || again.Hash != it.Hash {
				t.Fatalf("read by itself: %v %v", again, err)
			}
		}
		rand.New(rand.NewPCG(1, 2)).Shuffle(len(items), func(i, j int) { items[i], items[j] = items[j], items[i] })
		f, err = Parse([]byte(rss(items...)), "")
		if err != nil || len(f.Items) != len(seen) {
			t.Fatalf("in another order: %d items of %d, %v", len(f.Items), len(seen), err)
		}
		for _, it := range f.Items {
			if h, ok := seen[it.ID]; !ok || h != it.Hash {
				t.Fatalf("in another order another identity: %v", items)
			}
		}
	})
}

// Nodes of different versions must agree. These values change only together with idVersion and hashVersion.
func TestIdentitiesDoNotChangeBetweenReleases(t *testing.T) {
	it := only(t, "<item><guid>tag:1</guid><link>http://x/?a=1</link><title>T</title><description>&lt;p>Hello &lt;a href='http://y/'>you&lt;/a></description></item>")
	const id, hash = "6d4d37523cd52e15c999756c84f8f49c798ea06fcb26c44b5ffbe02a351dee2e", "ea740975bdebad23607ec605147489a5ae3771cd3560d761b39b2b60cf46636a"
	if it.ID.String() != id || it.Hash.String() != hash {
		t.Errorf("identity %s, hash %s", it.ID, it.Hash)
	}
}
