package page

import (
	"slices"
	"strings"
	"testing"
)

func TestFeedsThatAPageAdvertises(t *testing.T) {
	base, got := Advertised([]byte(`<!doctype html><html><head><title>A <link rel=alternate type=application/rss+xml href=/in-title></title>
		<link rel="stylesheet" href="/style.css"><link rel="alternate" hreflang="de" href="/de">
		<LINK REL="Alternate Home" TYPE="Application/RSS+XML; charset=utf-8" TITLE=" All  posts " HREF=" /feed?a=1&amp;b=2 ">
		<link rel="alternate" type="application/rss+xml" href=""><base target=_top><base href="/sub/"><base href="/other/">
		<link rel=alternate type=application/atom+xml href=https://example.org/atom.xml />
		<link rel="alternate" type="application/json" href="/wp-json"><link type="application/rss+xml" href="/no-relation">
		<script>"<link rel=alternate type=application/rss+xml href=/in-script>"</script>
		<body><link rel=alternate type=application/feed+json href=feed.json title="JSON">`))
	want := []Link{{Target: "/feed?a=1&b=2", Title: "All posts"}, {Target: "https://example.org/atom.xml"}, {Target: "feed.json", Title: "JSON"}}
	if !slices.Equal(got, want) || base != "/sub/" {
		t.Errorf("got  %+v at %q\nwant %+v", got, base, want)
	}
	many := strings.Repeat(`<link rel=alternate type=application/rss+xml href=/a>`, 1000)
	if _, got := Advertised([]byte(many)); len(got) != maxAdvertised {
		t.Errorf("%d feeds of one page", len(got))
	}
}

// A link says in many ways that it leads to a feed, and some that look like it do not.
func TestLinksToFeeds(t *testing.T) {
	for link, want := range map[string]bool{
		`rel=feed href=a`: true,
		`rel="nofollow FEED" type=application/json href=a`:     true,
		`rel=feed type=text/html href=a`:                       false,
		`rel=alternate type=text/xml href=a title="RSS"`:       true,
		`rel=alternate type=text/xml href=sitemap.xml`:         false,
		`rel="alternate stylesheet" type=text/css href=a`:      false,
		`rel=alternate type=application/json+oembed href=feed`: false,
		`rel=alternate type=application/json href=wp/feed`:     false,
		`rel=alternate type=" application/rdf+xml" href=a`:     true,
		`rel=me href=feed.xml`:                                 false,
	} {
		for _, element := range []string{"link", "a"} {
			if _, got := Advertised([]byte("<" + element + " " + link + ">")); (len(got) == 1) != want {
				t.Errorf("%s %s: %+v", element, link, got)
			}
		}
	}
	for link, comments := range map[string]bool{
		`href=/comments/feed/`: true, `href=a title="Blog » Kommentar-Feed"`: true, `href=/?feed=comments-rss2`: true, `href=/feed title="Blog"`: false,
	} {
		if _, got := Advertised([]byte("<link rel=alternate type=application/rss+xml " + link + ">")); len(got) != 1 || got[0].Comments != comments {
			t.Errorf("%s: %+v", link, got)
		}
	}
}

func TestFeedsThatAHeaderAdvertises(t *testing.T) {
	got := AdvertisedByHeader([]string{
		`<https://hub.example/>; rel=hub, </a,b.xml>; rel="alternate nofollow"; type="application/rss+xml"; title="One, \"two\"; three" , <c>;type=application/atom+xml;rel=alternate`,
		`</d>; REL=feed; title=plain; title*=UTF-8'en'%e2%82%ac, <e>; rel=alternate; crossorigin; type="application/feed+json"; type="text/html"`,
		`</style.css>; rel=preload; as=style, <f; rel=feed`, `no link; rel=feed`, `<`, ``, `<g>; rel="feed`,
	})
	want := []Link{{Target: "/a,b.xml", Title: `One, "two"; three`}, {Target: "c"}, {Target: "/d", Title: "€"}, {Target: "e"}, {Target: "g"}}
	if !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
	if many := AdvertisedByHeader([]string{strings.Repeat("</a>; rel=feed, ", 1000)}); len(many) != maxAdvertised {
		t.Errorf("%d feeds of one header", len(many))
	}
}

func FuzzAdvertisedByHeader(f *testing.F) {
	f.Add(`</a,b.xml>; rel="alternate \"x"; type="application/rss+xml"; title*=UTF-8''%e2, <c>;rel=feed`)
	f.Fuzz(func(t *testing.T, field string) {
		for _, l := range AdvertisedByHeader([]string{field, field}) {
			if l.Target == "" || !strings.Contains(field, l.Target) {
				t.Errorf("%q advertises %q", field, l.Target)
			}
		}
	})
}
