package page

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"tidings/internal/longtest"
)

func TestDocumentsAreReadByTheirKind(t *testing.T) {
	for _, c := range []struct {
		name, doc, contentType string
		want                   []string
	}{
		{"HTML", "<p>a<p>b", "text/html; charset=utf-8", []string{"a", "b"}},
		{"HTML of which nothing is said", "<!doctype html><p>a", "", []string{"a"}},
		{"HTML in the charset that it says", "<meta charset=windows-1251><p>\xcf\xf0\xe0\xe2\xe8\xeb\xe0", "text/html", []string{"Правила"}},
		{"a charset that lies", "<p>Größe", "text/html; charset=iso-8859-1", []string{"Größe"}},
		{"no charset fits", "<p>\x81\x82\xff\xfe\x81\x82\xff\xfe", "text/html; charset=utf-8", []string{strings.Repeat("\uFFFD", 8)}},
		{"text", "a  b\r\n\r\n c\n", "text/plain", []string{"a b", "c"}},
		{"text that looks like JSON", "[a, b", "text/plain", []string{"[a, b"}},
		{"JSON", `{"a": {"list": [{"x": 1.50, "y": true}, {"x": "two\nlines"}]}, "nonce": "abc", "none": null}`, "application/json", []string{"a.list.x: 1.50", "a.list.y: true", "a.list.x: two lines"}},
		{"JSON that another is put before", `["b", "a"]`, "application/ld+json", []string{"b", "a"}},
		{"JSON that ends too soon", `{"a": "b", `, "application/json", []string{`{"a": "b",`}},
		{"values one after the other", "{\"a\":1}\n{\"a\":2}", "application/json", []string{"a: 1", "a: 2"}},
		{"XML", `<?xml version="1.0"?><a xmlns="x"><b z="1" y="2">text &amp; <c>more</c> tail</b><lastBuildDate>now</lastBuildDate></a>`, "application/xml",
			[]string{"a.b: y=2 z=1", "a.b: text &", "a.b.c: more", "a.b: tail"}},
		{"XML in its charset", "<?xml version=\"1.0\" encoding=\"ISO-8859-1\"?><a>Gr\xf6\xdfe</a>", "text/xml", []string{"a: Größe"}},
		{"XML that is none", "<a>b <c>x & y</d>z", "text/xml", []string{"a: b", "a.c: x & y", "a.c: z"}},
		{"XML with names that HTML has, too", "<r><title/><item><x>One</x></item><script><![CDATA[a < b]]></script></r>", "text/xml", []string{"r.item.x: One", "r.script: a < b"}},
		{"a page of XML", "<html><head><script src='x'/><title/></head><body><p>a</p></body></html>", "application/xhtml+xml", []string{"a"}},
		{"ends without beginnings", "</x><a></x>b</a></a>", "text/xml", []string{"a: b"}},
	} {
		got, err := Read([]byte(c.doc), c.contentType, Location{})
		if err != nil || !slices.Equal(got.Lines, c.want) {
			t.Errorf("%s: %q, %v, want %q", c.name, got.Lines, err, c.want)
		}
	}
}

// Pictures and programs are refused whatever their type says, and text is accepted whatever its first bytes
// are.
func TestBinaryDocumentsAreRefusedWhateverTheirType(t *testing.T) {
	noise := make([]byte, 10000)
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
	for _, contentType := range []string{"text/html", "text/html; charset=utf-8", "text/html; charset=iso-8859-1", "application/json", "text/xml", "text/plain", "application/xhtml+xml"} {
		for name, doc := range map[string]string{
			"a PNG": "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x01\x00" + string(noise), "a GIF": "GIF89a\x01\x00\x01\x00\x80\x00\x00\xff\xff\xff\x00",
			"a PDF": "%PDF-1.7\n1 0 obj << /Type /Catalog >> endobj\n", "packed": "\x1f\x8b\x08\x00" + string(noise), "noise": string(noise), "zeros": strings.Repeat("\x00", 100),
		} {
			if c, err := Read([]byte(doc), contentType, Location{}); !errors.Is(err, ErrKind) {
				t.Errorf("%s as %s: %.100q, %v", name, contentType, c.Lines, err)
			}
		}
		for _, text := range []string{"MZ 1890", "BMW and others", "ID3 makes trees", "Form\x0cfeed", "Bold \x1b[1mtext", "one \x08 by chance", "Größe \xe4", "\xcf\xf0\xe0\xe2\xe8\xeb\xe0 \x85"} {
			if _, err := Read([]byte(text), contentType, Location{}); err != nil {
				t.Errorf("%q as %s: %v", text, contentType, err)
			}
		}
	}
	if c, err := Read([]byte("\xff\xfe<\x00p\x00>\x00a\x00"), "text/html", Location{}); err != nil || len(c.Lines) != 1 || c.Lines[0] != "a" {
		t.Errorf("UTF-16: %q, %v", c.Lines, err)
	}
}

func TestDocumentsWithoutTextAreRefused(t *testing.T) {
	for contentType, doc := range map[string]string{
		"image/png": "x", "image/svg+xml": "<svg/>", "application/pdf": "%PDF-1.4", "": "\x89PNG\r\n\x1a\n\x00\x00", "application/octet-stream": "\x00\x01\x02",
	} {
		if c, err := Read([]byte(doc), contentType, Location{}); !errors.Is(err, ErrKind) {
			t.Errorf("%s: %q, %v", contentType, c.Lines, err)
		}
	}
	if _, err := Read(make([]byte, MaxDocument+1), "text/plain", Location{}); !errors.Is(err, ErrLarge) {
		t.Error(err)
	}
	if _, err := Read([]byte(strings.Repeat("a\xe4", MaxDocument/2)), "text/plain; charset=latin1", Location{}); !errors.Is(err, ErrLarge) {
		t.Error(err)
	}
}

// long returns a name of the maximum length.
func long(of string) string { return strings.Repeat(of, maxName) }

// Data cannot make its parsing slow, or large.
func TestHostileDataIsCheap(t *testing.T) {
	size := longtest.Pick(2<<20, 10<<20)
	for _, c := range []struct{ what, contentType, piece, before string }{
		{"lists in lists", "application/json", "[", ""}, {"objects in objects", "application/json", `{"a":`, ""}, {"values", "application/json", "1,", "["},
		{"values deep down", "application/json", "1,", strings.Repeat("[", 5000)}, {"names", "application/json", `{"a":1},`, "["}, {"one string", "application/json", "a", `"`},
		{"long names", "application/json", "1,", `{"` + long("a") + `":{"` + long("b") + `":{"` + long("c") + `":[`}, {"long names", "text/xml", "<" + long("a") + ">", ""},
		{"nested", "text/xml", "<a>", ""}, {"ends", "text/xml", "</a>", strings.Repeat("<b>", 5000)}, {"elements", "text/xml", "<a>b</a>", "<r>"}, {"attributes", "text/xml", "a='b' ", "<r "},
		{"bad entities", "text/xml", "&;", "<r>"}, {"lines", "text/plain", "a\n", ""}, {"blanks", "text/plain", " ", ""}, {"one line", "text/plain", "a", ""},
		{"numbers", "text/plain", "1 view ", ""}, {"numbers of lines", "text/plain", "1 view 2 days ago\n", ""}, {"numbers, long ago", "text/plain", strings.Repeat("1 ", 110) + "ago\n", ""},
		{"numbers in view", "text/plain", strings.Repeat("1,", 110) + "iew\n", ""}, {"bytes", "text/plain", "\xff", ""}, {"halves", "text/html; charset=utf-16", "\xd8", "\xff\xfe"},
		{"accents", "text/plain", "o\u0308", ""}, {"signs that become longer", "text/plain", "\U0001D160", ""},
	} {
		t.Run(c.what+" "+c.contentType, func(t *testing.T) {
			doc := []byte(c.before + strings.Repeat(c.piece, (size-len(c.before))/len(c.piece)))
			longtest.Bounded(t, func() { _, _ = Read(doc, c.contentType, Location{}) }) // it need only end
		})
	}
}

func FuzzRead(f *testing.F) {
	for _, contentType := range []string{"text/html", "text/plain", "application/json", "text/xml", ""} {
		f.Add([]byte(`{"a":[1,"b"]}`), contentType)
		f.Add([]byte("<?xml version='1.0' encoding='utf-16'?><a b='c'>d</a>"), contentType)
		f.Add([]byte("\xff\xfea\x00"), contentType)
	}
	f.Fuzz(func(t *testing.T, doc []byte, contentType string) {
		c, err := Read(doc, contentType, Location{})
		if err != nil && !errors.Is(err, ErrKind) && !errors.Is(err, ErrLarge) && !strings.HasPrefix(err.Error(), "read page: its charset: ") {
			t.Fatal(err)
		}
		for _, l := range c.Lines {
			if l == "" || len(l) > 2*maxLine || !utf8.ValidString(l) || strings.ContainsAny(l, "\n\r\t") || strings.TrimSpace(l) != l {
				t.Errorf("a line is %.100q", l)
			}
		}
		var m Tracker
		at := time.Unix(0, 0)
		if m.Check(c, at).Kind == Changed && m.Check(c, at.Add(time.Minute)).Kind != Same {
			t.Error("the same document is another")
		}
	})
}
