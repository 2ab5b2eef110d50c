package feed

import (
	"os"
	"path/filepath"
	"testing"
)

// A recorded list that is not XML has all its feeds, where there is one.
func TestARecordedListHasAllItsFeeds(t *testing.T) {
	files, _ := filepath.Glob(filepath.Join("..", "..", "..", "shared", "cases", "34-*", "list.opml"))
	if len(files) == 0 {
		t.Skip("the shared case 34 is not beside the project")
	}
	doc, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	outlines, unread, err := ParseOPML(doc)
	const origin = " http://origin.example/"
	if got, want := listed(outlines), origin+"a?x=1&y=2, "+origin+"b?format=rss&copy=1, "+origin+"c, "+origin+"d, "+origin+"e"; got != want || unread != nil || err != nil {
		t.Errorf("%s\n%s\nunread %+v, %v", got, want, unread, err)
	}
	if outlines[3].Text != `fu "D" bar` || outlines[2].Text != "C > all" {
		t.Errorf("%+v", outlines)
	}
}
