package feed

import (
	"bytes"
	"slices"
	"testing"
)

func FuzzParse(f *testing.F) {
	for _, src := range sources {
		f.Add([]byte(src), "")
	}
	f.Add([]byte("<rss><channel><item><a:b c='&x;<' d></item></channel></rss>"), "text/xml; charset=latin1")
	f.Add([]byte("\xff\xfe<\x00r\x00s\x00s\x00/\x00>\x00"), "")
	f.Add([]byte("<!DOCTYPE html>"), "text/html")
	f.Fuzz(func(t *testing.T, doc []byte, contentType string) {
		feed, err := Parse(doc, contentType)
		if err != nil {
			kindOf(t, "", err)
			return
		}
		if feed.Repaired == "" && contentType == "" && feed.Head.Format != JSON && bytes.IndexByte(doc[:min(4, len(doc))], 0) < 0 && !bytes.Contains(doc, []byte("encoding")) && !has(doc, "\xff\xfe") && !has(doc, "\xfe\xff") {
			for _, it := range feed.Items {
				if !bytes.Contains(doc, it.Raw) {
					t.Errorf("%q is no part of the document", it.Raw)
				}
			}
		}
		checkFeed(t, "document", feed)
	})
}

func FuzzParseStart(f *testing.F) {
	for _, src := range sources {
		f.Add([]byte(src)[:len(src)/2], "")
		f.Add([]byte(src)[:len(src)-1], "")
	}
	f.Add([]byte(`{"version":"https://jsonfeed.org/version/1","items":[{"id":"}"},{"id`), "")
	f.Fuzz(func(t *testing.T, doc []byte, contentType string) {
		feed, err := ParseStart(doc, contentType)
		if err != nil {
			kindOf(t, "", err)
			return
		}
		checkFeed(t, "start", feed)
	})
}

func FuzzReadItem(f *testing.F) {
	for _, src := range sources {
		feed, err := Parse([]byte(src), "")
		if err != nil {
			f.Fatal(err)
		}
		for _, it := range feed.Items {
			prefix, uri := "", ""
			if len(it.Scope) > 0 {
				prefix, uri = it.Scope[0].Prefix, it.Scope[0].URI
			}
			f.Add(uint8(it.Format), it.Raw, prefix, uri)
		}
	}
	f.Fuzz(func(t *testing.T, format uint8, raw []byte, prefix, uri string) {
		it, err := ReadItem(Format(format), raw, []Binding{{prefix, uri}}, 0)
		if err != nil {
			if it, err = ReadItem(Format(format), raw, nil, 0); err != nil {
				return
			}
		}
		if m, err := it.Meaning(""); err == nil {
			if published, updated := it.Dates(); !published.Equal(m.Published) || !updated.Equal(m.Updated) {
				t.Errorf("dates %v and %v, not %v and %v", published, updated, m.Published, m.Updated)
			}
		}
		sameAtom := slices.Contains(it.Scope, Binding{"", nsAtom})
		head, err := NewHead(it.Format, "T", "http://x/", "", "")
		if err != nil {
			t.Fatal(err)
		}
		for format := RSS; format <= JSON; format++ {
			doc, err := Write(&Document{URL: "http://u/", Head: head, Entries: []Entry{{Item: it, Provenance: "p"}}}, format)
			if err != nil {
				t.Fatal(err)
			}
			again, err := Parse(doc, "")
			if err != nil || again.Repaired != "" {
				t.Fatalf("as %s: %v\n%s", format, err, doc)
			}
			if len(again.Items) != 1 {
				t.Errorf("as %s: %d items\n%s", format, len(again.Items), doc)
			} else if format == it.Format && (format != Atom || sameAtom) && again.Items[0].Hash != it.Hash {
				t.Errorf("as %s: another hash\n%s", format, doc)
			}
		}
	})
}

func FuzzReadHead(f *testing.F) {
	for _, src := range sources {
		feed, err := Parse([]byte(src), "")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(feed.Head.Format), feed.Head.Raw)
	}
	f.Fuzz(func(t *testing.T, format uint8, raw []byte) {
		head, err := ReadHead(Format(format), raw)
		if err != nil {
			return
		}
		for format := RSS; format <= JSON; format++ {
			doc, err := Write(&Document{URL: "http://u/", Base: "http://b/", Head: head}, format)
			if err != nil {
				t.Fatal(err)
			}
			again, err := Parse(doc, "")
			if err != nil || again.Repaired != "" {
				t.Fatalf("as %s: %v %v\n%s", format, err, again, doc)
			}
		}
	})
}
