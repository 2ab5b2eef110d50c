package feed

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"tidings/internal/longtest"
)

// fill repeats s between begin and end until the document has MaxDocument bytes.
func fill(begin, s, end string) []byte {
	n := (MaxDocument - len(begin) - len(end)) / len(s)
	return []byte(begin + strings.Repeat(s, n) + end)
}

// These documents are made to cost their parser as much as possible.
var hostile = []struct {
	name string
	doc  func() []byte
	want error // nil: it is a feed
}{
	{"a million empty items", func() []byte { return fill("<rss><channel>", "<item/>", "</channel></rss>") }, ErrBroken},
	{"items that have a date alone", func() []byte {
		return fill("<rss><channel>", "<item><pubDate>Sat, 21 Nov 2026 12:00:00 GMT</pubDate></item>", "</channel></rss>")
	}, ErrBroken},
	{"2,000 items with a guid in common", func() []byte {
		return fill("<rss><channel>", "<item><guid>x</guid><title>"+strings.Repeat("y", 5000)+"</title></item>", "</channel></rss>")
	}, nil},
	{"2,000 items of 5 KB", func() []byte {
		var b bytes.Buffer
		b.WriteString("<rss><channel>")
		for i := range MaxItems {
			fmt.Fprintf(&b, "<item><guid>%d</guid><description>%s</description></item>", i, strings.Repeat("&lt;p&gt;word <![CDATA[<a href='x?y'>]]>", 120))
		}
		b.WriteString("</channel></rss>")
		return b.Bytes()
	}, nil},
	{"a million nested tags", func() []byte { return fill("<rss><channel><item>", "<b>", "") }, ErrLimit},
	{"a million attributes", func() []byte { return fill("<rss><channel ", "a='' ", "></channel></rss>") }, ErrLimit},
	{"elements with many attributes", func() []byte {
		var attrs strings.Builder
		for i := range maxAttributes {
			fmt.Fprintf(&attrs, " a%d=''", i)
		}
		return fill("<rss><channel>", "<x"+attrs.String()+"/>", "</channel></rss>")
	}, nil},
	{"elements with many namespaces", func() []byte {
		var attrs strings.Builder
		for i := range maxAttributes - 1 {
			fmt.Fprintf(&attrs, " xmlns:a%d='u'", i)
		}
		return fill("<rss><channel"+attrs.String()+">", "<a0:x a1:x=''/>", "</channel></rss>")
	}, nil},
	{"elements with bases", func() []byte {
		return fill("<rss xml:base='https://o.example/"+strings.Repeat("a", 4000)+"/'><channel>", "<a xml:base='x/'/>", "</channel></rss>")
	}, nil},
	{"a head of links below a base", func() []byte {
		return fill("<rss xml:base='https://o.example/"+strings.Repeat("a", 4000)+"/'><channel>", "<link>#</link><link rel='x' href='b'/>", "</channel></rss>")
	}, nil},
	{"a long name around many items", func() []byte {
		name := strings.Repeat("x", maxField)
		return fill("<rss><"+name+">", "<item></item>", "</"+name+"></rss>")
	}, nil},
	{"a long name around many ends", func() []byte {
		return fill("<rss><channel><"+strings.Repeat("x", MaxDocument/2)+">", "</b>", "</channel></rss>")
	}, nil},
	{"a long name around many elements", func() []byte {
		name := strings.Repeat("x", MaxDocument/4)
		return fill("<rss><"+name+">", "<b/>", "</"+name+"></rss>")
	}, nil},
	{"one text", func() []byte {
		return fill("<rss><channel><item><description>", "x", "</description></item></channel></rss>")
	}, nil},
	{"one text of unknown entities", func() []byte {
		return fill("<rss><channel><item><description>", "&x;", "</description></item></channel></rss>")
	}, ErrLimit},
	{"one text of '&'", func() []byte {
		return fill("<rss><channel><item><description>", "&", "</description></item></channel></rss>")
	}, ErrLimit},
	{"one head of '&'", func() []byte { return fill("<rss><channel><title>", "&", "</title></channel></rss>") }, ErrLimit},
	{"'&' and nothing else", func() []byte { return fill("", "&", "") }, ErrNotFeed},
	{"one attribute of '&'", func() []byte { return fill("<rss><channel><item a='", "&", "'/></channel></rss>") }, ErrLimit},
	{"one text of '&' and ends of CDATA", func() []byte {
		return fill("<rss><channel><item><description>", "&]]>", "</description></item></channel></rss>")
	}, ErrLimit},
	{"JSON of '&'", func() []byte { return fill(`{"title":"`, "&", `","items":[{"content_html":"x"}]}`) }, nil},
	{"one text of '<'", func() []byte {
		return fill("<rss><channel><item><description>", "< ", "</description></item></channel></rss>")
	}, ErrLimit},
	{"one name", func() []byte { return fill("<rss><channel><", "x", "/></channel></rss>") }, nil},
	{"one comment", func() []byte { return fill("<rss><channel><!--", "-", " --></channel></rss>") }, nil},
	{"quotes that do not end", func() []byte { return fill("<rss><channel>", "<x a='", "") }, ErrLimit},
	{"end tags without start", func() []byte { return fill("<rss><channel>", "</b>", "</channel></rss>") }, nil},
	{"start tags without end", func() []byte {
		return fill("<rss><channel>", "<p><b><i></p>", "</channel></rss>")
	}, ErrLimit},
	{"items without end", func() []byte { return fill("<rss><channel>", "<item>", "</channel></rss>") }, ErrLimit},
	{"prefixes nobody declares", func() []byte {
		var b bytes.Buffer
		for i := range 500_000 {
			fmt.Fprintf(&b, "<p%d:x/>", i)
		}
		return []byte("<rss><channel>" + b.String() + "</channel></rss>")
	}, ErrBroken},
	{"an entity bomb", func() []byte {
		bomb := `<!ENTITY a "aaaaaaaaaa">`
		for c := 'b'; c < 'k'; c++ {
			bomb += fmt.Sprintf(`<!ENTITY %c "%s">`, c, strings.Repeat(fmt.Sprintf("&%c;", c-1), 10))
		}
		return []byte("<!DOCTYPE rss [" + bomb + "]><rss><channel><title>&j;</title></channel></rss>")
	}, nil},
	{"a document type", func() []byte { return fill("<!DOCTYPE rss [", "<!ENTITY a 'a'>", "]><rss><channel/></rss>") }, nil},
	{"a head", func() []byte { return fill("<rss><channel>", "<title>x</title>", "</channel></rss>") }, nil},
	{"white space", func() []byte { return fill("", " ", "") }, ErrEmpty},
	{"torn UTF-8", func() []byte { return fill("<rss><channel><title>", "é\xff ", "</title></channel></rss>") }, ErrLimit},
	{"bytes of no charset", func() []byte { return fill("<rss><channel><title>", "\xff ", "</title></channel></rss>") }, ErrLimit},
	{"HTML in many items", func() []byte {
		return fill("<rss><channel>", "<item><description><![CDATA["+strings.Repeat("<p a=b c=d>&amp;<a href=x", 200)+"]]></description></item>", "</channel></rss>")
	}, nil},
	{"a tag with many attributes in each item", func() []byte {
		return fill("<rss><channel>", "<item><description><![CDATA[<p"+manyAttributes()+">"+strings.Repeat("<b>x", 5000)+"]]></description></item>", "</channel></rss>")
	}, nil},
	{"items of many children", func() []byte {
		return fill("<rss><channel>", "<item><title>x</title>"+strings.Repeat("<a/>", MaxItem/3)+"</item>", "</channel></rss>")
	}, nil},
	{"more than the limit", func() []byte { return make([]byte, MaxDocument+1) }, ErrLimit},

	{"JSON with a million items", func() []byte { return fill(`{"title":"x","items":[`, `{},`, `{}]}`) }, ErrBroken},
	{"JSON with a million members", func() []byte { return fill(`{"title":"x","items":[],`, `"a":1,`, `"b":1}`) }, nil},
	{"JSON with large items", func() []byte {
		return fill(`{"title":"x","items":[`, `{"content_html":"`+strings.Repeat("x", MaxItem)+`"},`, `{}]}`)
	}, nil},
	{"deep JSON", func() []byte { return fill(`{"title":"x","items":`, `[`, ``) }, ErrLimit},
	{"one JSON string", func() []byte { return fill(`{"title":"`, `\u0041`, `","items":[]}`) }, nil},
	{"JSON of line ends", func() []byte { return fill(`{"title":"`, "\n", `","items":[]}`) }, ErrLimit},
	{"JSON that does not end", func() []byte { return fill(`{"title":"x","items":[`, `{},`, ``) }, ErrTruncated},
}

// No document costs more than a second of processor time and 128 MiB.
func TestNoDocumentCostsMuch(t *testing.T) {
	for _, c := range hostile {
		t.Run(c.name, func(t *testing.T) {
			doc := c.doc()
			var f *Feed
			var err error
			longtest.Bounded(t, func() { f, err = Parse(doc, "") })
			if !errors.Is(err, c.want) || err != nil && c.want == nil {
				t.Errorf("error %v, want %v", err, c.want)
			}
			if err == nil && len(f.Items) > MaxItems {
				t.Errorf("%d items", len(f.Items))
			}
		})
	}
}

// manyAttributes returns 30,000 attributes of a tag.
func manyAttributes() string {
	var b strings.Builder
	for i := range 30_000 {
		fmt.Fprintf(&b, " a%d", i)
	}
	return b.String()
}
