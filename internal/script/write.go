package script

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"html"
	"math/rand/v2"
	"strings"
	"time"
)

// A document is one version of a lively feed.
type document struct {
	title, link string
	epoch       time.Time
	built       time.Duration // time of the last build, the volatile part
	items       []Item        // newest first
}

func (d *document) write(f Format) (body []byte, contentType string) {
	switch f {
	case Atom:
		return d.atom(), "application/atom+xml; charset=utf-8"
	case JSON:
		return d.json(), "application/feed+json"
	}
	return d.rss(), "application/rss+xml; charset=utf-8"
}

func (d *document) date(t time.Duration, layout string) string {
	return d.epoch.Add(t).UTC().Format(layout)
}

func (d *document) rss() []byte {
	var b bytes.Buffer
	p := func(format string, args ...any) { fmt.Fprintf(&b, format, args...) }
	p("%s<rss version=\"2.0\">\n<channel>\n<title>%s</title>\n<link>%s</link>\n", xml.Header, escape(d.title), escape(d.link))
	p("<description>What came to mind</description>\n<lastBuildDate>%s</lastBuildDate>\n", d.date(d.built, time.RFC1123Z))
	for _, i := range d.items {
		p("<item>\n<title>%s</title>\n<link>%s</link>\n<guid isPermaLink=\"false\">%s</guid>\n", escape(i.Title), escape(i.Link), escape(i.ID))
		p("<pubDate>%s</pubDate>\n<description>%s</description>\n</item>\n", d.date(i.At, time.RFC1123Z), escape(i.HTML))
	}
	p("</channel>\n</rss>\n")
	return b.Bytes()
}

func (d *document) atom() []byte {
	var b bytes.Buffer
	p := func(format string, args ...any) { fmt.Fprintf(&b, format, args...) }
	p("%s<feed xmlns=\"http://www.w3.org/2005/Atom\">\n<title>%s</title>\n<id>%s</id>\n", xml.Header, escape(d.title), escape(d.link))
	p("<link href=\"%s\"/>\n<author><name>Lively</name></author>\n<updated>%s</updated>\n", escape(d.link), d.date(d.built, time.RFC3339))
	for _, i := range d.items {
		at := d.date(i.At, time.RFC3339)
		p("<entry>\n<title>%s</title>\n<id>%s</id>\n<link href=\"%s\"/>\n", escape(i.Title), escape(i.ID), escape(i.Link))
		p("<published>%s</published>\n<updated>%s</updated>\n<content type=\"html\">%s</content>\n</entry>\n", at, at, escape(i.HTML))
	}
	p("</feed>\n")
	return b.Bytes()
}

func (d *document) json() []byte {
	type item struct {
		ID          string `json:"id"`
		URL         string `json:"url"`
		Title       string `json:"title"`
		ContentHTML string `json:"content_html"`
		Published   string `json:"date_published"`
	}
	feed := struct {
		Version string         `json:"version"`
		Title   string         `json:"title"`
		Link    string         `json:"home_page_url"`
		Lively  map[string]any `json:"_lively"` // JSON Feed has no date of its own
		Items   []item         `json:"items"`
	}{"https://jsonfeed.org/version/1.1", d.title, d.link, map[string]any{"built": d.date(d.built, time.RFC3339)}, []item{}}
	for _, i := range d.items {
		feed.Items = append(feed.Items, item{i.ID, i.Link, i.Title, i.HTML, d.date(i.At, time.RFC3339)})
	}
	b, err := json.MarshalIndent(feed, "", "  ")
	if err != nil {
		panic(fmt.Sprintf("script: write a feed: %v", err)) // strings can always be encoded
	}
	return append(b, '\n')
}

// escape escapes for HTML and XML. The escaping of encoding/xml would take most of the time.
func escape(s string) string { return html.EscapeString(s) }

// words are the words of titles and texts: several scripts, both directions, characters that must be
// escaped, and letters of two code points.
var words = strings.Fields(`
	news harbour & lantern "quoted" 5<6 paper river it's wind Übermut façade naïve smörgåsbord Straße
	новости река фонарь ειδήσεις φως ニュース 川 灯台 新聞 風 뉴스 강 समाचार नदी อากาศ أخبار نهر חדשות
	été 👩‍🚀 🌊 ☂ İstanbul ﬁnd … – x² ½`)

func title(r *rand.Rand) string { return phrase(r, 3+r.IntN(5)) }

// text returns some paragraphs of HTML, about a kilobyte.
func text(r *rand.Rand) string {
	var b strings.Builder
	for range 2 + r.IntN(3) {
		fmt.Fprintf(&b, "<p>%s <em>%s</em> %s.</p>\n", escape(phrase(r, 20)), escape(phrase(r, 2)), escape(phrase(r, 20)))
	}
	return b.String()
}

func phrase(r *rand.Rand, n int) string {
	some := make([]string, n)
	for i := range some {
		some[i] = words[r.IntN(len(words))]
	}
	return strings.Join(some, " ")
}
