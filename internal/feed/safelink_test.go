package feed

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
)

// scripts are addresses that a browser runs, or shows as a document of their own.
var scripts = []string{
	"javascript:alert(1)", "JavaScript:alert(1)", "JAVASCRIPT:alert(1)", " javascript:alert(1)", "\tjavascript:alert(1)", "\x01javascript:alert(1)",
	"java\nscript:alert(1)", "java\tscript:alert(1)", "java\r\nscript:alert(1)", "j\na\nv\na\ns\nc\nr\ni\np\nt\n:alert(1)", "javascript\n:alert(1)",
	"data:text/html,<script>alert(1)</script>", "DATA:text/html;base64,PHNjcmlwdD4=", "vbscript:msgbox(1)", "file:///etc/passwd", "blob:https://a.example/1",
	"javascript://https://a.example/%0aalert(1)", "view-source:https://a.example/", "about:blank", "feed:javascript:alert(1)", "mailto:a@a.example",
}

func TestSafeLinks(t *testing.T) {
	for _, s := range scripts {
		if isSafeLink(s) {
			t.Errorf("%q is harmless", s)
		}
	}
	for _, s := range []string{"", "https://a.example/", "HTTP://A.EXAMPLE/", " https://a.example/", "/about", "about", "//a.example/x", "?a=javascript:b", "#javascript:", "a/b:c", "./javascript:alert(1)"} {
		if !isSafeLink(s) {
			t.Errorf("%q is not", s)
		}
	}
}

// TestHeadsHaveNoUnsafeLinks writes heads whose addresses are scripts, in every format.
func TestHeadsHaveNoUnsafeLinks(t *testing.T) {
	for _, script := range scripts {
		if strings.Contains(script, "\x01") {
			continue // no document has it
		}
		quoted := string(marshal(script))
		for name, doc := range map[string]string{
			"JSON": fmt.Sprintf(`{"version":"https://jsonfeed.org/version/1.1","title":"T","home_page_url":%[1]s,"icon":%[1]s,"favicon":%[1]s,"next_url":%[1]s,`+
				`"author":{"name":"A","url":%[1]s},"authors":[{"name":"A"},{"avatar":%[1]s}],"items":[{"id":"1","content_text":"one"}]}`, quoted),
			"RSS":   `<rss version="2.0"><channel><title>T</title><link>` + escape(script) + `</link><description/><item><guid>1</guid><title>One</title></item></channel></rss>`,
			"CDATA": `<rss version="2.0"><channel><title>T</title><link><![CDATA[` + script + `]]></link><description/><item><guid>1</guid><title>One</title></item></channel></rss>`,
			"Atom": `<feed xmlns="http://www.w3.org/2005/Atom"><title>T</title><id>urn:f</id><updated>2026-01-02T03:04:05Z</updated><link href="` + escape(script) + `"/>` +
				`<link rel="related" href="` + escape(script) + `"/><entry><title>One</title><id>urn:1</id><updated>2026-01-02T03:04:05Z</updated></entry></feed>`,
		} {
			f, err := Parse([]byte(doc), "")
			if err != nil {
				t.Fatalf("%s, %q: %v", name, script, err)
			}
			d := &Document{URL: "http://127.0.0.1:8190/f", Base: "https://a.example/", Head: f.Head}
			for _, it := range f.Items {
				d.Entries = append(d.Entries, Entry{Item: it})
			}
			for _, format := range []Format{RSS, Atom, JSON, RDF} {
				out, err := Write(d, format)
				if err != nil {
					t.Fatal(err)
				}
				again, err := Parse(out, "")
				if err != nil || again.Head.Title != "T" || len(again.Items) != 1 {
					t.Fatalf("%s as %v: %v\n%s", name, format, err, out)
				}
				for _, part := range []string{script, escape(script), strings.Trim(quoted, `"`)} {
					if strings.Contains(string(out), part) {
						t.Errorf("%s as %v has %q:\n%s", name, format, script, out)
						break
					}
				}
			}
		}
	}
}

func TestSafeLinksOfHeadsStay(t *testing.T) {
	for _, doc := range []string{
		`{"version":"https://jsonfeed.org/version/1.1","title":"T","home_page_url":"https://a.example/","author":{"url":"https://a.example/me"},"authors":"x","items":[]}`,
		`<rss version="2.0"><channel><title>T</title><link>https://a.example/</link><description/></channel></rss>`,
		`<feed xmlns="http://www.w3.org/2005/Atom"><title>T</title><id>urn:f</id><updated>2026-01-02T03:04:05Z</updated><link href="https://a.example/"/></feed>`,
	} {
		f, err := Parse([]byte(doc), "")
		if err != nil {
			t.Fatal(err)
		}
		for _, format := range []Format{RSS, Atom, JSON, RDF} {
			if out, err := Write(&Document{URL: "http://127.0.0.1/f", Head: f.Head}, format); err != nil || !strings.Contains(string(out), "https://a.example/") {
				t.Errorf("%v: %v\n%s", format, err, out)
			}
		}
	}
}

func FuzzSafeLink(f *testing.F) {
	for _, s := range scripts {
		f.Add(s)
	}
	f.Add("https://a.example/")
	f.Fuzz(func(t *testing.T, s string) {
		if u, err := url.Parse(strings.TrimSpace(s)); err == nil && u.Scheme != "" && u.Scheme != "http" && u.Scheme != "https" && isSafeLink(s) {
			t.Errorf("%q is harmless", s)
		}
	})
}
