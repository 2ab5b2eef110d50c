package feed

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

const sampleBookmarks = `<!DOCTYPE NETSCAPE-Bookmark-file-1>
<!-- This is an automatically generated file. -->
<META HTTP-EQUIV="Content-Type" CONTENT="text/html; charset=UTF-8">
<TITLE>Bookmarks</TITLE>
<H1>Bookmarks Menu</H1>
<DL><p>
    <DT><A HREF="https://one.example/" ADD_DATE="1">One &amp; only</A>
    <DT><H3 ADD_DATE="1">News</H3>
    <DD>What happens
    <DL><p>
        <DT><A HREF="https://two.example/a" ICON="data:image/png;base64,AAAA">Two</A>
        <DD>A note of somebody
        <DT><H3>Local</H3>
        <DL><p>
            <DT><A FEEDURL="https://three.example/feed.xml" HREF="https://three.example/">Three</A>
        </DL><p>
        <DT><A HREF="javascript:alert(1)">Script</A>
        <DT><A HREF="place:sort=8">Most visited</A>
    </DL><p>
    <HR>
    <DT><A HREF="http://four.example/"></A>
</DL>
`

func TestBookmarksAreRead(t *testing.T) {
	l, err := ParseList([]byte(sampleBookmarks))
	want := List{Kind: ListBookmarks, Outlines: []Outline{
		{Text: "One & only", Type: TypeLink, XMLURL: "https://one.example/"},
		{Text: "News", Outlines: []Outline{
			{Text: "Two", Type: TypeLink, XMLURL: "https://two.example/a"},
			{Text: "Local", Outlines: []Outline{{Text: "Three", XMLURL: "https://three.example/feed.xml", HTMLURL: "https://three.example/"}}},
		}},
		{Text: "http://four.example/", Type: TypeLink, XMLURL: "http://four.example/"},
	}}
	if err != nil || !reflect.DeepEqual(l, want) {
		t.Errorf("%v\ngot  %+v\nwant %+v", err, l, want)
	}
}

func TestAListOfAddressesIsRead(t *testing.T) {
	l, err := ParseList([]byte("# my feeds\nhttps://one.example/feed news \"~The \\\"One\\\"\" \"far away\" !\n\nhttps://two.example/a?b=c#d\r\n" +
		"\"query:Unread:unread = \\\"yes\\\"\"\nthe rest\nhttp://three.example/ news\n"))
	if err != nil || l.Kind != ListAddresses {
		t.Fatalf("%+v %v", l, err)
	}
	one := Outline{Text: `The "One"`, XMLURL: "https://one.example/feed"}
	want := []Outline{
		{Text: "news", Outlines: []Outline{one, {Text: "http://three.example/", XMLURL: "http://three.example/"}}},
		{Text: "far away", Outlines: []Outline{one}},
		{Text: "https://two.example/a?b=c#d", XMLURL: "https://two.example/a?b=c#d"},
	}
	if !reflect.DeepEqual(l.Outlines, want) {
		t.Errorf("got  %+v\nwant %+v", l.Outlines, want)
	}
	if len(l.Unread) != 2 || l.Unread[0].Line != 5 || l.Unread[1].Line != 6 || !strings.Contains(l.Unread[0].Why, "newsboat") {
		t.Errorf("unread: %+v", l.Unread)
	}
}

// The content of a file tells its kind, and what is no list is refused with a way out.
func TestKindsOfLists(t *testing.T) {
	if l, err := ParseList([]byte("\ufeff  " + sampleOPML)); err != nil || l.Kind != ListOPML || len(l.Outlines) != 4 {
		t.Errorf("OPML: %+v %v", l, err)
	}
	many := "<!doctype netscape-bookmark-file-1><dl>" + strings.Repeat("<a href=https://one.example/>", maxOutlines+1)
	folders := "<!doctype netscape-bookmark-file-1>" + strings.Repeat("<h3>a</h3><dl></dl>", maxOutlines+1)
	lines := "https://one.example/\n" + strings.Repeat("x\n", maxUnread+1)
	for doc, want := range map[string]string{
		"SQLite format 3\x00\x10\x00":                      "the file urls",
		"a text about https://example.org":                 "no list of subscriptions",
		"<html><a href='https://example.org'>x</a></html>": "no list of subscriptions",
		"\x89PNG\r\n\x1a\n\x00":                            "no list of subscriptions",
		many:                                               fmt.Sprint(maxOutlines),
		folders:                                            fmt.Sprint(maxOutlines),
		lines:                                              fmt.Sprint(maxUnread),
		strings.Repeat("https://one.example/\n", maxOutlines+1): fmt.Sprint(maxOutlines),
		"https://one.example/\n" + strings.Repeat("#", maxOPML): "MiB",
	} {
		if _, err := ParseList([]byte(doc)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %s", doc, err, want)
		}
	}
}

// A name of a bookmark or folder that consists of many pieces is cut. Otherwise reading it would take minutes.
func TestNamesOfBookmarksAreBounded(t *testing.T) {
	pieces := strings.Repeat("a<b>", maxOPML/5)
	for _, doc := range []string{"<h3>" + pieces + "</h3><dl><a href=http://one.example/>One</a></dl>", "<a href=http://one.example/>" + pieces} {
		l, err := ParseList([]byte("<!doctype netscape-bookmark-file-1>" + doc))
		if err != nil || len(l.Outlines) != 1 || len(l.Outlines[0].Text) != maxBookmarkName {
			t.Errorf("%.30s: %d outlines, %v", doc, len(l.Outlines), err)
		}
	}
}

func FuzzList(f *testing.F) {
	f.Add([]byte(sampleBookmarks))
	f.Add([]byte("https://one.example/feed news \"~One"))
	f.Add([]byte("<!doctype netscape-bookmark-file-1><h3>a<dl><h3>b</h3><dl></dl></dl></dl></dl><a href=http://x"))
	f.Fuzz(func(t *testing.T, doc []byte) {
		l, err := ParseList(doc)
		if err != nil {
			return
		}
		for _, o := range Subscriptions(l.Outlines) {
			if l.Kind != ListOPML && !strings.Contains(o.XMLURL, "://") {
				t.Errorf("an address is %q", o.XMLURL)
			}
		}
	})
}
