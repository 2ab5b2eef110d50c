package difference

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// A head alone is told if readers show something else of it. With an item, anything new in it travels.
func TestHeadsAreToldForWhatReadersShow(t *testing.T) {
	const head = `<title>A</title><link>http://a.example/</link><description>Read by 12 people</description><language>en</language>
		<image><url>http://a.example/a.png?v=1</url><title>A</title><link>http://a.example/</link></image>
		<managingEditor>ann@a.example</managingEditor><copyright>2025 Ann</copyright>
		<lastBuildDate>Mon, 02 Nov 2026 10:00:00 GMT</lastBuildDate><generator>G 1</generator><ttl>60</ttl>
		<link xmlns="http://www.w3.org/2005/Atom" rel="self" href="http://a.example/feed"/><x:readers xmlns:x="urn:x">12</x:readers>
		<p:image xmlns:p="http://www.itunes.com/dtds/podcast-1.0.dtd" href="http://a.example/b.png"/>`
	for _, c := range []struct {
		name, old, new  string
		alone, withItem bool
	}{
		{"title", "<title>A</title><link>", "<title>B</title><link>", true, false},
		{"number in the title", "<title>A</title><link>", "<title>A 2</title><link>", true, false},
		{"site", "<link>http://a.example/</link><d", "<link>http://b.example/</link><d", true, false},
		{"description", "Read by", "Written for", true, false},
		{"language", ">en<", ">de<", true, false},
		{"picture", "a.png", "c.png", true, false},
		{"picture of a podcast", "b.png", "c.png", true, false},
		{"author", "ann@", "bob@", true, false},
		{"rights", "2025 Ann", "2025 Bob", true, false},
		{"date", "10:00:00", "11:00:00", false, false},
		{"generator", "G 1", "G 2", false, false},
		{"hint", ">60<", ">90<", false, false},
		{"own address", "/feed", "/feed?replica=2", false, false},
		{"counter in the description", "12 people", "13 people", false, true},
		{"year of the rights", "2025 Ann", "2026 Ann", false, true},
		{"version of the picture", "v=1", "v=2", false, true},
		{"extension", ">12<", ">13<", false, true},
		{"protocol of the site", "http://a.example/</link><d", "https://www.a.example</link><d", false, true},
		{"markup of the title", "<title>A</title><link>", "<title>\n<![CDATA[A]]></title><link>", false, false},
	} {
		changed := strings.Replace(head, c.old, c.new, 1)
		if changed == head {
			t.Fatalf("%s does not change", c.name)
		}
		j := newJudge(t)
		if d := j.see(0, head, "a=1"); d.Head == nil {
			t.Fatal("the first head is not told")
		}
		before := j.known.HeadVersion()
		if d := j.see(time.Minute, changed, "a=1"); (d.Head != nil) != c.alone || (j.known.HeadVersion() != before) != c.alone {
			t.Errorf("%s: told %v", c.name, d.Head != nil)
		}
		if d := j.see(time.Minute, changed, "b=1", "a=1"); (d.Head != nil) != c.withItem {
			t.Errorf("%s: told with an item: %v", c.name, d.Head != nil)
		}
		j.takeOver()
		if d := j.see(time.Minute, changed, "b=1", "a=1"); !d.Empty() {
			t.Errorf("%s: the next sequencer tells it again", c.name)
		}
	}
}

func numberedTitle(n int) string { return fmt.Sprintf("<title>%d new</title>", n) }

// A title that is another one at each fetch is told a few times, and then with items alone, also by the next sequencer. A
// title that is changed now and then is told each time.
func TestATitleThatIsAlwaysNewWaitsForAnItem(t *testing.T) {
	j, told := newJudge(t), 0
	j.see(0, numberedTitle(0), "item 0=x")
	for n := 1; n < 50; n++ {
		if n == 25 {
			j.takeOver()
		}
		switch d := j.see(30*time.Minute, numberedTitle(n), fmt.Sprintf("item %d=x", n/10)); {
		case n%10 == 0 && (len(d.Changes) != 1 || d.Head == nil):
			t.Errorf("%d: no head comes with the item", n)
		case n%10 != 0 && d.Head != nil:
			told++
		}
	}
	if told != maxAlone || j.known.HeadVersion() != 0 {
		t.Errorf("%d heads are told alone, and the last one is %x", told, j.known.HeadVersion())
	}
	j.see(time.Hour, numberedTitle(49), "b=1") // the title comes with it
	j.see(time.Hour, numberedTitle(49), "c=1") // the title stays
	for n := 100; n < 110; n++ {
		if d := j.see(time.Hour, numberedTitle(n), "b=1"); d.Head == nil {
			t.Errorf("%d: a title that is changed now and then is not told", n)
		}
		j.see(time.Hour, numberedTitle(n), fmt.Sprintf("%d=1", n))
	}
}

// The head of a replica that lags is not told. An earlier head is told when it stays.
func TestAHeadIsTakenBackWhenItStays(t *testing.T) {
	j := newJudge(t)
	for i, c := range []struct {
		after  time.Duration
		title  string
		told   bool
		behind bool
	}{
		{0, "A", true, false},
		{time.Hour, "B", true, false},
		{time.Minute, "A", false, true},
		{time.Minute, "B", false, false},
		{time.Minute, "A", false, true},
		{59 * time.Minute, "A", false, true},
		{time.Minute, "A", true, false},
		{2 * time.Hour, "A", false, false},
		{time.Minute, "C", true, false},
	} {
		d := j.see(c.after, "<title>"+c.title+"</title>", "a=1")
		f := document(t, c.title, article{1, 1})
		if (d.Head != nil) != c.told || j.known.IsBehind(f) != c.behind {
			t.Errorf("step %d, %s: told %v, behind %v", i, c.title, d.Head != nil, j.known.IsBehind(f))
		}
	}
}

// A document without items may be an error page of the server. The title of a feed that never had items is told.
func TestTheHeadOfADocumentWithoutItems(t *testing.T) {
	j := newJudge(t)
	for i, c := range []struct {
		title, item string
		told        bool
	}{
		{"A", "", true}, {"A", "", false}, {"B", "", true}, {"B", "a=1", false}, {"Out of order", "", false}, {"B", "a=1", false},
	} {
		var items []string
		if c.item != "" {
			items = []string{c.item}
		}
		if d := j.see(time.Minute, "<title>"+c.title+"</title>", items...); (d.Head != nil) != c.told {
			t.Errorf("step %d: told %v", i, d.Head != nil)
		}
	}
}
