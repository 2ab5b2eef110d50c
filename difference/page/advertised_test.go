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
	want := []Link{{"/feed?a=1&b=2", "All posts"}, {"https://example.org/atom.xml", ""}, {"feed.json", "JSON"}}
	if !slices.Equal(got, want) || base != "/sub/" {
		t.Errorf("got  %q at %q\nwant %q", got, base, want)
	}
	many := strings.Repeat(`<link rel=alternate type=application/rss+xml href=/a>`, 1000)
	if _, got := Advertised([]byte(many)); len(got) != maxAdvertised {
		t.Errorf("%d feeds of one page", len(got))
	}
}
