package feed

import (
	"bytes"
	"crypto/ed25519"
	"strings"
	"testing"
	"time"
)

// A copy has the publisher that the node believes, once, or none, wherever the document names one.
func TestACopyNamesThePublisherOnce(t *testing.T) {
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, ed25519.SeedSize)).Public().(ed25519.PublicKey)
	believed := Publisher{Key: key, Certificate: `https://x/"><evil xmlns="">&`, Beat: time.Hour}
	said := Publisher{Key: bytes.Repeat([]byte{9}, ed25519.PublicKeySize)}
	rss, rdf := said.Metadata(RSS), said.Metadata(RDF)
	for name, doc := range map[string]string{
		"behind the items":    `<rss version="2.0"><channel><title>t</title><item><guid>a</guid><title>x</title></item>` + rss + `</channel></rss>`,
		"more than once":      `<rss version="2.0"><channel>` + rss + rss + `<title>t</title><item><guid>a</guid><title>x</title></item>` + rss + `</channel></rss>`,
		"beside the channel":  `<rss version="2.0">` + rss + `<channel><title>t</title><item><guid>a</guid><title>x</title></item></channel>` + rss + `</rss>`,
		"of Atom":             `<feed xmlns="http://www.w3.org/2005/Atom"><title>t</title><entry><id>a:b</id><title>x</title></entry>` + said.Metadata(Atom) + `</feed>`,
		"of RDF, at its end":  `<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/"><channel rdf:about="x"><title>t</title>` + rdf + `</channel><item rdf:about="a"><title>x</title></item>` + rdf + `</rdf:RDF>`,
		"of JSON, and of one": `{"version":"https://jsonfeed.org/version/1.1","title":"t","_tidings_publisher":{"key":"x"},"items":[{"id":"a","content_text":"c"}],"_tidings_publisher":{"key":"y"}}`,
	} {
		f, err := Parse([]byte(doc), "")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, who := range []*Publisher{nil, &believed} {
			d := Document{Head: f.Head, URL: "http://n/x", Base: "http://a.example/", Publisher: who}
			for _, it := range f.Items {
				d.Entries = append(d.Entries, Entry{Item: it, Arrived: time.Unix(1, 0), Provenance: "single"})
			}
			for _, format := range []Format{RSS, RDF, Atom, JSON} {
				out, err := Write(&d, format)
				if err != nil {
					t.Fatalf("%s, as %v: %v", name, format, err)
				}
				g, err := Parse(out, "")
				if err != nil {
					t.Fatalf("%s, as %v: %v\n%s", name, format, err, out)
				}
				p, ok := g.Head.Publisher()
				if ok != (who != nil) || ok && (!bytes.Equal(p.Key, key) || p.Certificate != believed.Certificate) || strings.Count(string(out), "publisher ") > 1 {
					t.Errorf("%s, as %v: %v, %+v\n%s", name, format, ok, p, out)
				}
			}
		}
	}
}
