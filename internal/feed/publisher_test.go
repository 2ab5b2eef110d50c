package feed

import (
	"bytes"
	"crypto/ed25519"
	"reflect"
	"strings"
	"testing"
	"time"
)

func itsPublisher() Publisher {
	return Publisher{
		Key: bytes.Repeat([]byte{0xfb}, ed25519.PublicKeySize), Next: Hash{1, 2}, Beat: time.Hour,
		Certificate: "https://example.org/cert.pem?a=1&b=\"2\"", Fingerprint: Hash{9},
	}
}

// claimed returns a document with a publisher's metadata in its head.
func claimed(t testing.TB, src string, p Publisher) []byte {
	t.Helper()
	f, err := Parse([]byte(src), "")
	if err != nil {
		t.Fatal(err)
	}
	said := p.Metadata(f.Head.Format)
	for _, at := range []string{"<title", "<a:title", `"title"`} {
		if i := strings.Index(src, at); i >= 0 {
			if f.Head.Format == JSON {
				said += ", "
			}
			return []byte(src[:i] + said + src[i:])
		}
	}
	t.Fatalf("no title in %s", src)
	return nil
}

func TestAHeadSaysWhoPublishesTheFeed(t *testing.T) {
	for name, src := range sources {
		for _, p := range []Publisher{itsPublisher(), {Key: itsPublisher().Key}} {
			f, err := Parse(claimed(t, src, p), "")
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if got, ok := f.Head.Publisher(); !ok || !reflect.DeepEqual(got, p) {
				t.Errorf("%s: %+v, %v", name, got, ok)
			}
			plain, _ := Parse([]byte(src), "")
			if _, ok := plain.Head.Publisher(); ok {
				t.Errorf("%s: somebody publishes what nobody said", name)
			}
			if f.Head.Hash() == plain.Head.Hash() {
				t.Errorf("%s: that it has a publisher is no change", name)
			}
			for i, it := range f.Items {
				if it.Hash != plain.Items[i].Hash {
					t.Errorf("%s: its items are others for it", name)
				}
			}
		}
	}
}

// The head may predate a change of the key. Readers get the publisher that the node believes.
func TestTheNodesPublisherReplacesTheSources(t *testing.T) {
	now := Publisher{Key: bytes.Repeat([]byte{7}, ed25519.PublicKeySize), Beat: time.Minute}
	for name, src := range sources {
		plain, err := Parse([]byte(src), "")
		if err != nil {
			t.Fatal(err)
		}
		old, err := Parse(claimed(t, src, itsPublisher()), "")
		if err != nil {
			t.Fatal(err)
		}
		for _, head := range []Head{plain.Head, old.Head} {
			for _, format := range []Format{RSS, RDF, Atom, JSON} {
				for _, want := range []*Publisher{nil, &now} {
					out, err := Write(&Document{URL: "http://127.0.0.1/f", Head: head, Publisher: want}, format)
					if err != nil {
						t.Fatal(err)
					}
					f, err := Parse(out, "")
					if err != nil {
						t.Errorf("%s as %s: %v\n%s", name, format, err, out)
						continue
					}
					got, ok := f.Head.Publisher()
					if ok != (want != nil) || ok && !reflect.DeepEqual(got, now) {
						t.Errorf("%s as %s: %+v, %v\n%s", name, format, got, ok, out)
					}
					if n := bytes.Count(out, []byte(itsPublisher().Next.String())); n > 0 {
						t.Errorf("%s as %s has the old one:\n%s", name, format, out)
					}
				}
			}
		}
		out, err := Write(&Document{Head: old.Head, Publisher: &now}, old.Head.Format)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(out, []byte(itsPublisher().Next.String())) {
			t.Errorf("%s: a document that is no reader's does not stay as it came", name)
		}
	}
}

func TestInvalidPublishersAreIgnored(t *testing.T) {
	p := itsPublisher()
	right := p.Metadata(RSS)
	for _, c := range []struct{ name, old, new string }{
		{"another namespace", Namespace, "urn:other"},
		{"a short key", `key="`, `key="AA`},
		{"no key", "key=", "kay="},
		{"half a commitment", `next="0102`, `next="`},
		{"no whole seconds", `beat="3600"`, `beat="1.5"`},
		{"no beat at all", `beat="3600"`, `beat="0"`},
		{"a month's silence", `beat="3600"`, `beat="2592000"`},
		{"no address", `certificate="https:`, `certificate="`},
	} {
		said := strings.Replace(right, c.old, c.new, 1)
		if said == right {
			t.Fatalf("%s: nothing is other", c.name)
		}
		f, err := Parse([]byte(`<rss version="2.0"><channel>`+said+`<title>T</title><item><title>I</title></item></channel></rss>`), "")
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := f.Head.Publisher(); ok {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
	inItem := `<rss version="2.0"><channel><title>T</title><item><title>I</title>` + right + `</item></channel></rss>`
	f, err := Parse([]byte(inItem), "")
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := f.Head.Publisher(); ok {
		t.Error("an item says whose the feed is")
	}
}

func TestCheckRefusesInvalidPublishers(t *testing.T) {
	for _, c := range []struct {
		spoil func(*Publisher)
		says  string
	}{
		{func(*Publisher) {}, ""},
		{func(p *Publisher) { p.Key = nil }, "key of 0 bytes"},
		{func(p *Publisher) { p.Beat = time.Millisecond }, "whole seconds"},
		{func(p *Publisher) { p.Beat = maxBeatTime + time.Second }, "a week at most"},
		{func(p *Publisher) { p.Certificate = "cert.pem" }, "address"},
	} {
		p := itsPublisher()
		c.spoil(&p)
		if err := p.Check(); (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v, want %q", err, c.says)
		}
	}
}

// FuzzPublisher writes the publisher of a head and reads it again.
func FuzzPublisher(f *testing.F) {
	p := itsPublisher()
	f.Add([]byte(`<rss version="2.0"><channel>` + p.Metadata(RSS) + `<title>T</title></channel></rss>`))
	f.Add([]byte(`<feed xmlns="http://www.w3.org/2005/Atom">` + p.Metadata(Atom) + `<title>T</title></feed>`))
	f.Add([]byte(`{"version":"https://jsonfeed.org/version/1.1","title":"J",` + p.Metadata(JSON) + `,"items":[]}`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		read, err := Parse(doc, "")
		if err != nil {
			return
		}
		p, ok := read.Head.Publisher()
		if !ok {
			return
		}
		if err := p.Check(); err != nil {
			t.Fatal(err)
		}
		for _, src := range []string{
			`<rss version="2.0"><channel>` + p.Metadata(RSS) + `<title>T</title></channel></rss>`,
			`{"version":"https://jsonfeed.org/version/1.1","title":"J",` + p.Metadata(JSON) + `,"items":[]}`,
		} {
			again, err := Parse([]byte(src), "")
			if err != nil {
				t.Fatalf("%s: %v", src, err)
			}
			if got, ok := again.Head.Publisher(); !ok || !reflect.DeepEqual(got, p) {
				t.Errorf("%+v became %+v, %v", p, got, ok)
			}
		}
	})
}
