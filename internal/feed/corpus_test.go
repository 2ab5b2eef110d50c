package feed

import (
	"archive/tar"
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// shared opens an archive of the shared data, which lies beside the module.
func shared(t testing.TB, name string, each func(name string, doc []byte)) {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "..", "..", "shared", "data", filepath.FromSlash(name)))
	if errors.Is(err, os.ErrNotExist) {
		t.Skipf("%s of the shared data is not beside the project", name)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := zstd.NewReader(f, zstd.WithDecoderMaxWindow(1<<30))
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		doc, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		each(h.Name, doc)
	}
}

// strict parses a document as XML without any tolerance.
func strict(doc []byte) error {
	d := xml.NewDecoder(bytes.NewReader(doc))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

func TestCorporaParseOrFailCleanly(t *testing.T) {
	for _, name := range []string{"gofeed", "feedparser-70pct", "feedvalidator-70pct"} {
		t.Run(name, func(t *testing.T) {
			parsed, failed := 0, map[string]int{}
			shared(t, "feeds/"+name+".tar.zst", func(name string, doc []byte) {
				switch filepath.Ext(name) {
				case ".xml", ".json", ".rdf":
				default:
					return
				}
				f, err := Parse(doc, "")
				if err != nil {
					failed[kindOf(t, name, err)]++
					if os.Getenv("SHOW") != "" {
						t.Log(name, err)
					}
					return
				}
				parsed++
				checkFeed(t, name, f)
			})
			t.Logf("%d parsed, failed: %v", parsed, failed)
		})
	}
}

// kindOf returns the kind of an error of Parse, which must be one of this package.
func kindOf(t testing.TB, name string, err error) string {
	for _, kind := range []error{ErrEmpty, ErrNotFeed, ErrTruncated, ErrBroken, ErrLimit} {
		if errors.Is(err, kind) {
			return kind.Error()
		}
	}
	t.Errorf("%s: %v is of no kind", name, err)
	return ""
}

// checkFeed checks the properties that every feed must have.
func checkFeed(t testing.TB, name string, f *Feed) {
	t.Helper()
	var entries []Entry
	seen := map[ID]bool{}
	for _, it := range f.Items {
		if seen[it.ID] {
			t.Errorf("%s: two items have one identity", name)
		}
		seen[it.ID] = true
		again, err := ReadItem(it.Format, it.Raw, it.Scope, it.Qualifiers)
		if err != nil {
			t.Errorf("%s: an item by itself: %v\n%s %v", name, err, it.Raw, it.Scope)
		} else if again.ID != it.ID || again.Hash != it.Hash {
			t.Errorf("%s: an item by itself is another", name)
		}
		m, err := it.Meaning("https://example.org/feed")
		if err != nil {
			t.Logf("%s: %v", name, err)
		}
		if published, updated := it.Dates(); !published.Equal(m.Published) || !updated.Equal(m.Updated) {
			t.Errorf("%s: an item by itself has the dates %v and %v, not %v and %v", name, published, updated, m.Published, m.Updated)
		}
		entries = append(entries, Entry{Item: it, Provenance: "single"})
	}
	if h, err := ReadHead(f.Head.Format, f.Head.Raw); err != nil {
		t.Errorf("%s: its head by itself: %v\n%s", name, err, f.Head.Raw)
	} else if h.Hash() != f.Head.Hash() || h.Shown() != f.Head.Shown() || h.ItemsAt != f.Head.ItemsAt {
		t.Errorf("%s: its head by itself is another", name)
	}
	d := &Document{URL: "http://127.0.0.1/x", Base: "https://example.org/feed", Head: f.Head, Entries: entries}
	for format := RSS; format <= JSON; format++ {
		doc, err := Write(d, format)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if format != JSON {
			if err := strict(doc); err != nil {
				t.Errorf("%s as %s: %v\n%s", name, format, err, doc)
				continue
			}
		}
		again, err := Parse(doc, "")
		if err != nil {
			t.Errorf("%s as %s: %v\n%s", name, format, err, doc)
			continue
		}
		if again.Repaired != "" {
			t.Errorf("%s as %s: %s\n%s", name, format, again.Repaired, doc)
		}
		if format != f.Head.Format {
			if len(again.Items) != len(f.Items) {
				t.Errorf("%s as %s: %d items of %d", name, format, len(again.Items), len(f.Items))
			}
			continue
		}
		if got, want := identities(again.Items, f.Items), identities(f.Items, f.Items); got != want {
			t.Errorf("%s written and read: items %s, want %s\n%s", name, got, want, doc)
		}
	}
}

// identities returns the identities and hashes of items, in order. It leaves out the identities of Atom entries
// that had no id in the source, because Write gave them one, and items with relative addresses, which Write makes
// absolute.
func identities(items, source []Item) string {
	var b bytes.Buffer
	for i, it := range items {
		if i < len(source) && hasRelativeAddress(&source[i]) {
			b.WriteString("relative ")
			continue
		}
		if i >= len(source) || it.Format != Atom || source[i].facts().id != "" {
			b.WriteString(it.ID.String()[:8])
		}
		b.WriteString(":" + it.Hash.String()[:8] + " ")
	}
	return b.String()
}

func hasRelativeAddress(it *Item) bool {
	if it.Format == JSON {
		return !bytes.Equal(absoluteJSON(it.Raw, absoluteBase), it.Raw)
	}
	return !bytes.Equal(absoluteXML(it.Raw, scopeOf(it.Scope), absoluteBase), it.Raw)
}
