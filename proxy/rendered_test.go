package proxy

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestConditionalReading(t *testing.T) {
	b := newTestServer(t)
	target := "/" + rssURL
	if r := b.ask("GET", target); r.Header.Get("Last-Modified") != "" {
		t.Errorf("a time that may still be that of another body: %s", r.Header.Get("Last-Modified"))
	}
	b.advance(time.Second)
	plain := b.ask("GET", target)
	zipped := b.ask("GET", target, "Accept-Encoding", "gzip")
	tag, ztag, modified := plain.Header.Get("Etag"), zipped.Header.Get("Etag"), plain.Header.Get("Last-Modified")
	if tag == ztag || strings.HasPrefix(tag, "W/") || tag == "" || modified == "" {
		t.Fatalf("tags %s, %s, modified %s", tag, ztag, modified)
	}
	at := func(d time.Duration) string { return b.clock.Add(d).Format(http.TimeFormat) }
	for _, c := range []struct {
		name    string
		headers []string
		same    bool
	}{
		{"nothing", nil, false},
		{"the tag", []string{"If-None-Match", tag}, true},
		{"the tag, weak", []string{"If-None-Match", "W/" + tag}, true},
		{"another tag", []string{"If-None-Match", `"x"`}, false},
		{"a list", []string{"If-None-Match", `"x", W/"y",` + tag}, true},
		{"two headers", []string{"If-None-Match", `"x"`, "If-None-Match", tag}, true},
		{"a comma in a tag", []string{"If-None-Match", `"a,b", ` + tag}, true},
		{"anything", []string{"If-None-Match", "*"}, true},
		{"no quotes", []string{"If-None-Match", strings.Trim(tag, `"`)}, false},
		{"an open quote", []string{"If-None-Match", `"x`}, false},
		{"empty", []string{"If-None-Match", ""}, false},
		{"the tag of another coding", []string{"If-None-Match", ztag}, false},
		{"the tag of the coding", []string{"If-None-Match", ztag, "Accept-Encoding", "gzip"}, true},
		{"the plain tag for the coding", []string{"If-None-Match", tag, "Accept-Encoding", "gzip"}, false},
		{"since then", []string{"If-Modified-Since", modified}, true},
		{"since later", []string{"If-Modified-Since", at(time.Hour)}, true},
		{"since before", []string{"If-Modified-Since", at(-time.Second)}, false},
		{"since nonsense", []string{"If-Modified-Since", "yesterday"}, false},
		{"the tag decides against the time", []string{"If-None-Match", `"x"`, "If-Modified-Since", modified}, false},
		{"the tag decides for it", []string{"If-None-Match", tag, "If-Modified-Since", at(-time.Hour)}, true},
		{"a delta is asked for", []string{"If-None-Match", `"x"`, "A-IM", "feed"}, false},
		{"a delta of the same", []string{"If-None-Match", tag, "A-IM", "feed"}, true},
	} {
		for _, method := range []string{"GET", "HEAD"} {
			r := b.ask(method, target, c.headers...)
			want := 200
			if c.same {
				want = 304
			}
			if r.StatusCode != want {
				t.Errorf("%s, %s: %d, want %d", method, c.name, r.StatusCode, want)
			}
			for _, name := range []string{"Etag", "Cache-Control", "Vary", "Last-Modified"} {
				if r.Header.Get(name) == "" {
					t.Errorf("%s, %s: no %s", method, c.name, name)
				}
			}
			if c.same && (body(t, r) != "" || r.Header.Get("Content-Encoding") != "" || r.Header.Get("Content-Length") != "") {
				t.Errorf("%s, %s: 304 with %v", method, c.name, r.Header)
			}
		}
	}
}

func TestValidatorsChangeOnlyWithTheBytes(t *testing.T) {
	b := newTestServer(t)
	target := b.tokenTarget(rssURL)
	see := func() (tag, modified string) {
		r := b.ask("GET", target)
		return r.Header.Get("Etag"), r.Header.Get("Last-Modified")
	}
	see()
	b.advance(time.Second)
	tag, modified := see()
	b.advance(time.Minute)
	b.node.publish(t, rssURL, rssDoc(1, 2)) // polled again without a change
	if tag2, modified2 := see(); tag2 != tag || modified2 != modified {
		t.Error("they changed with nothing")
	}
	// Three changes within a second, and a clock that is set back.
	last, err := http.ParseTime(modified)
	if err != nil {
		t.Fatal(err)
	}
	for i, d := range []time.Duration{0, 100 * time.Millisecond, 100 * time.Millisecond, -time.Hour, 2 * time.Hour} {
		b.advance(d)
		b.node.publish(t, rssURL, rssDoc(1, 3+i))
		tag2, modified2 := see()
		if modified2 != "" || tag2 == tag {
			t.Errorf("change %d: modified %q at once, %s after %s", i, modified2, tag2, tag)
		}
		for range 2 * 3600 { // until the clock has caught up
			if _, modified2 = see(); modified2 != "" {
				break
			}
			b.advance(time.Second)
		}
		at, err := http.ParseTime(modified2)
		if err != nil || !at.After(last) || at.After(b.clock) {
			t.Errorf("change %d: %s after %s at %s", i, modified2, last, b.clock)
		}
		last, tag = at, tag2
	}
}

// Clients built on curl compare only the times, and do not read a body that is no newer than theirs.
func TestARestartWithinASecondDoesNotHideAChange(t *testing.T) {
	b := newTestServer(t)
	target := b.tokenTarget(rssURL)
	b.ask("GET", target)
	b.advance(time.Second)
	before, err := http.ParseTime(b.ask("GET", target).Header.Get("Last-Modified"))
	if err != nil {
		t.Fatal(err)
	}
	b.node.publish(t, rssURL, rssDoc(1, 3))
	b.server = New(b.node, b.server.config)
	target = b.tokenTarget(rssURL)
	if r := b.ask("GET", target); r.Header.Get("Last-Modified") != "" {
		t.Errorf("within the second: %s", r.Header.Get("Last-Modified"))
	}
	b.advance(time.Second)
	if after, err := http.ParseTime(b.ask("GET", target).Header.Get("Last-Modified")); err != nil || !after.After(before) {
		t.Errorf("%s after %s, %v", after, before, err)
	}
}

func TestAcceptEncoding(t *testing.T) {
	for header, want := range map[string]bool{
		"": false, "gzip": true, "GZIP": true, "x-gzip": true, "br, gzip": true, "gzip;q=0": false, "gzip; q=0.1": true,
		"*": true, "*;q=0": false, "gzip;q=0, *": false, "identity": false, "deflate, gzip;q=1.0, *;q=0.5": true, "gzip;q=much": false,
		"br;q=1.0, gzip ; q=0.8": true,
	} {
		if got := acceptsGzip(http.Header{"Accept-Encoding": {header}}); got != want {
			t.Errorf("%q: %v", header, got)
		}
	}
}

func TestIncompressibleBodiesAreNotCompressed(t *testing.T) {
	if compress([]byte("short")) != nil {
		t.Error("a short text was compressed")
	}
	if z := compress([]byte(strings.Repeat("long ", 1000))); len(z) == 0 || len(z) > 500 {
		t.Errorf("%d bytes", len(z))
	}
}
