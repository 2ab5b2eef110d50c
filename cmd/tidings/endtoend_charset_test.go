package main

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"

	"tidings/internal/daemon/origin"
	"tidings/internal/script"
	"tidings/proxy"
)

// A charsetLabel is a way to serve a document: the charsets that the header and the document name, the byte order
// mark, and the real encoding.
type charsetLabel struct {
	header, own, mark string
	in                transform.Transformer // nil for UTF-8
}

// fault returns an origin fault that serves a document in this way.
func (l charsetLabel) fault(t *testing.T, channel string) origin.Fault {
	t.Helper()
	doc := channel
	if l.own != "" {
		doc = `<?xml version="1.0" encoding="` + l.own + `"?>` + doc
	}
	contentType := "application/rss+xml"
	if l.header != "" {
		contentType += "; charset=" + l.header
	}
	body := []byte(doc)
	if l.in != nil {
		var err error
		if body, _, err = transform.Bytes(l.in, body); err != nil {
			t.Fatal(err)
		}
	}
	return origin.Fault{Status: http.StatusOK, Header: http.Header{"Content-Type": {contentType}}, Body: append([]byte(l.mark), body...)}
}

func (l charsetLabel) String() string {
	return fmt.Sprintf("header %q, document %q, mark %q, in %T", l.header, l.own, l.mark, l.in)
}

// titledFeed returns a feed with an item of a title.
func titledFeed(title string) string {
	return `<rss version="2.0"><channel><title>` + title + `</title><link>http://origin.example/</link><description>d</description>` +
		`<item><title>` + title + `</title><guid>1</guid><description>` + title + `, told</description></item></channel></rss>`
}

// TestMislabelledCharsets serves documents with many labels, right and wrong, in several charsets. Readers see the
// same text all the time, byte for byte, and no new items. A document whose charset cannot be determined is broken,
// and its readers keep what they had.
func TestMislabelledCharsets(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	const bom = "\xef\xbb\xbf"
	western, russian := charmap.Windows1252.NewEncoder, charmap.Windows1251.NewEncoder
	wide := unicode.UTF16(unicode.LittleEndian, unicode.UseBOM).NewEncoder
	cases := []struct {
		name, title string
		labels      []charsetLabel
		unknown     charsetLabel // its charset cannot be determined
	}{
		{
			name: "western", title: "“Naïve” Überraschung in São Paulo – für 5 €",
			labels: []charsetLabel{
				{header: "iso-8859-1", own: "utf-8"},
				{own: "iso-8859-1"},
				{header: "us-ascii"},
				{header: "windows-1252", own: "iso-8859-1", mark: bom},
				{header: "koi8-r", own: "utf-16"},
				{header: "utf-8", own: "utf-8", in: western()},
				{in: western()},
				{own: "utf-8", mark: bom, in: western()},
				{header: "iso-8859-1", own: "utf-8", in: western()},
				{header: "utf-8", own: "windows-1252", in: western()},
				{header: "utf-8", own: "utf-8", in: wide()},
			},
			unknown: charsetLabel{header: "utf-8", own: "utf-8", in: russianNoise{}},
		},
		{
			name: "russian", title: "Все люди рождаются свободными и равными",
			labels: []charsetLabel{
				{header: "iso-8859-1", own: "utf-8"},
				{header: "koi8-r"},
				{own: "windows-1251", mark: bom},
				{header: "iso-8859-1", own: "windows-1251", in: russian()},
				{header: "utf-8", own: "windows-1251", in: russian()},
				{header: "windows-1251", own: "utf-8", in: russian()},
				{own: "windows-1251", mark: bom, in: russian()},
			},
			unknown: charsetLabel{header: "iso-8859-1", own: "utf-8", in: russian()},
		},
	}
	o := newTestOrigin(t)
	n := startNode(t, "--allow-private-origins", "--poll-interval", "1s", "--network", "charsets")
	for _, c := range cases {
		for i, l := range append(c.labels, c.unknown) {
			t.Run(fmt.Sprintf("%s/%s", c.name, l), func(t *testing.T) {
				t.Parallel()
				checkMislabelled(t, o, n, fmt.Sprintf("/%s/%d", c.name, i), c.title, l, i == len(c.labels))
			})
		}
	}
}

// checkMislabelled serves a feed correctly, then with other labels, and then correctly again.
func checkMislabelled(t *testing.T, o *testOrigin, n *nodeProcess, path, title string, l charsetLabel, unknown bool) {
	channel := titledFeed(title)
	o.Play(path, script.NewReplay([]script.Snapshot{{
		Body: []byte(`<?xml version="1.0" encoding="utf-8"?>` + channel), ContentType: "application/rss+xml; charset=utf-8", Hold: time.Second,
	}}))
	address := n.subscribe(o.url + path)
	var first []byte
	eventually(t, timeout, "the feed as it should be", func() (err error) {
		first, err = readBytes(address)
		if err == nil && bytes.Count(first, []byte("<title>"+title+"</title>")) != 2 {
			err = fmt.Errorf("its reader reads: %s", first)
		}
		return err
	})
	// says waits until the current document has been polled twice and has a state, and checks that readers get the
	// same as before.
	says := func(state, words string) {
		t.Helper()
		since := time.Now()
		eventually(t, 2*timeout, "the feed to be "+state, func() error {
			s := n.list()[o.url+path]
			if polls := o.polls(path, since, time.Now()); state == proxy.StateOK && polls < 3 { // the third poll begins after two documents were processed
				return fmt.Errorf("%d polls", polls)
			}
			if s.State != state || !strings.Contains(s.Error, words) || s.Error == "" != (words == "") || s.Items != 1 {
				return fmt.Errorf("it is said to be %s (%s) since %v, next %v, %d items", s.State, s.Error, s.Since, s.NextPoll, s.Items)
			}
			if words != "" && (s.Since == nil || s.NextPoll == nil) {
				return fmt.Errorf("it is said to be %s since %v, next %v", s.State, s.Since, s.NextPoll)
			}
			return nil
		})
		if now, err := readBytes(address); err != nil || !bytes.Equal(now, first) {
			t.Errorf("%v, its reader reads: %s\nand read: %s", err, now, first)
		}
	}
	o.Misbehave(path, l.fault(t, channel))
	if !unknown {
		says(proxy.StateOK, "")
	} else {
		says("broken", "charset")
	}
	o.Behave(path)
	says(proxy.StateOK, "")
}

// russianNoise encodes each character beyond ASCII as a word in a charset that nothing names.
type russianNoise struct{ transform.NopResetter }

func (russianNoise) Transform(dst, src []byte, _ bool) (int, int, error) {
	n := 0
	for i, c := range src {
		switch {
		case len(dst)-n < 8:
			return n, i, transform.ErrShortDst
		case c < 0x80:
			dst[n] = c
			n++
		case c >= 0xc0:
			n += copy(dst[n:], "\xcd\xee\xe2\xee\xf1\xf2\xe8")
		}
	}
	return n, len(src), nil
}

// readBytes reads a feed as a feed reader would.
func readBytes(address string) ([]byte, error) {
	a, err := http.Get(address)
	if err != nil {
		return nil, err
	}
	defer a.Body.Close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(a.Body); err != nil {
		return nil, err
	}
	if a.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", a.Status, b.Bytes())
	}
	return b.Bytes(), nil
}
