package differences

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"tidings/internal/daemon/origin"
)

// feedTrace returns a feed whose documents have these items; a capital letter is an edit.
func feedTrace(documents ...string) (of []origin.Snapshot) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i, d := range documents {
		var items strings.Builder
		for _, c := range d {
			_, _ = fmt.Fprintf(&items, "<item><guid>%c</guid><title>Item %c</title></item>", c|0x20, c)
		}
		of = append(of, origin.Snapshot{File: fmt.Sprint(i), Time: at.Add(time.Duration(i) * time.Hour), ContentType: "application/xml", Body: []byte(
			fmt.Sprintf(`<rss version="2.0"><channel><title>T</title><link>http://h.example/</link><description/><lastBuildDate>%v</lastBuildDate>%s</channel></rss>`, at.Add(time.Duration(i)*time.Hour), items.String()))})
	}
	return of
}

func TestFeedPairsAreCountedByTheirReference(t *testing.T) {
	f := Feeds("feed", append(feedTrace("ab", "ab", "cab", "ab", "cab", "cAb", "cAb", "cAb"), origin.Snapshot{File: "8", Body: []byte("<html>")}), map[string]Reference{
		"1": {}, "2": {New: 1}, "3": {}, "4": {New: 1}, "5": {Edited: 1}, "6": {New: 1}, "8": {},
	})
	if f.Snapshots != 9 || f.New != (Pairs{1, 1}) || f.Returning != 2 || f.Edited != (Pairs{1, 1}) || f.Unchanged != (Pairs{2, 0}) || len(f.Failed) != 1 || len(f.Mistaken) != 0 {
		t.Errorf("%+v", f)
	}
	f = Feeds("feed", feedTrace("ab", "abc"), map[string]Reference{"1": {}})
	if f.Unchanged != (Pairs{1, 1}) || len(f.Mistaken) != 1 || !strings.Contains(f.Mistaken[0], "1: 1 items, the first of them <item><guid>c<") {
		t.Errorf("%+v", f)
	}
	if sum := Summarise(nil, []Feed{f, f}); sum.Unchanged != 2 || sum.UnchangedReported != 2 {
		t.Errorf("%+v", sum)
	}
}

func TestReferencesAreRead(t *testing.T) {
	r, err := ReadReferences(strings.NewReader("file,trace,parse_ok,mod,new\n1,a,true,2,3\n2,a,false,x,y\n"))
	if err != nil || r["a"]["1"] != (Reference{New: 3, Edited: 2}) || len(r["a"]) != 1 {
		t.Error(r, err)
	}
	for _, bad := range []string{"file,trace\na,b\n", "file,trace,parse_ok,mod,new\n1,a,true,x,0\n", "file,trace,parse_ok,mod,new\n1,a,true,0,x\n", "a\n\""} {
		if r, err := ReadReferences(strings.NewReader(bad)); err == nil {
			t.Errorf("%q: %v", bad, r)
		}
	}
}
