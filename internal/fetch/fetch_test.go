package fetch

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"

	"tidings/internal/env"
)

func TestAnswerHasTheDocumentAndItsHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got *http.Request
		b := web{"a.example:80": func(w http.ResponseWriter, r *http.Request) {
			got = r
			w.Header()["ETag"] = []string{`W/"1, 'ü"`}
			w.Header()["Last-Modified"] = []string{"Sat,  1 Jan 2000 00:00:00 GMT"}
			w.Header().Set("Content-Type", "application/rss+xml; charset=utf-8")
			w.Header().Set("Cache-Control", "public, max-age=600")
			w.Header().Set("Age", "100")
			w.Header().Add("Link", `<https://hub.example/>; rel="hub"`)
			w.Header().Add("Link", `<https://a.example/feed>; rel="self"`)
			w.Header().Set("Set-Cookie", "id=1")
			io.WriteString(w, "<rss/>")
		}}.open(t, Config{Version: "1.2", Contact: "https://tidings.example/"})
		defer b.close()
		a := b.get(env.Request{URL: "HTTP://A.example/a|b%2f?q#f", Subscribers: 3})
		want := env.Answer{
			Status: 200, FinalURL: "http://a.example/a|b%2f?q",
			ETag: `W/"1, 'ü"`, LastModified: "Sat,  1 Jan 2000 00:00:00 GMT",
			ContentType: "application/rss+xml; charset=utf-8", MaxAge: 500 * time.Second,
			Links: []string{`<https://hub.example/>; rel="hub"`, `<https://a.example/feed>; rel="self"`},
			Body:  []byte("<rss/>"), Requests: 1,
		}
		if !reflect.DeepEqual(a, want) {
			t.Fatalf("got  %+v\nwant %+v", a, want)
		}
		if got.RequestURI != "/a|b%2f?q" || got.Host != "a.example" {
			t.Errorf("asked %s for %s", got.Host, got.RequestURI)
		}
		header := http.Header{
			"User-Agent":      {"tidings/1.2 (+https://tidings.example/; 3 subscribers)"},
			"Accept":          {accept},
			"Accept-Encoding": {"gzip"},
		}
		if !reflect.DeepEqual(got.Header, header) {
			t.Errorf("sent %v", got.Header)
		}
		b.get(env.Request{URL: "http://a.example/"})
		if len(got.Cookies()) > 0 {
			t.Error("the cookie came back")
		}
	})
}

func TestUserAgentSaysForHowMany(t *testing.T) {
	for _, c := range []struct {
		version, site string
		subscribers   int
		want          string
	}{
		{"", "", 0, "tidings/0"},
		{"1.2", "", 0, "tidings/1.2"},
		{"1.2", "", 1, "tidings/1.2 (1 subscriber)"},
		{"1.2", "https://t.example/", 0, "tidings/1.2 (+https://t.example/)"},
		{"1.2", "https://t.example/", 40, "tidings/1.2 (+https://t.example/; 40 subscribers)"},
	} {
		if got := New(Config{Version: c.version, Contact: c.site}, nil).userAgent(c.subscribers); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

func TestValidatorsAreSentAsTheyCame(t *testing.T) {
	const etag, date = `W/"ü,1"`, "yesterday"
	for _, c := range []struct {
		name    string
		request env.Request
		header  http.Header // of the answer 304
		sent    []string
		want    env.Answer
	}{
		{"both", env.Request{ETag: etag, LastModified: date}, nil,
			[]string{etag, date}, env.Answer{Status: 304, ETag: etag, LastModified: date}},
		{"one", env.Request{LastModified: date}, nil,
			[]string{"", date}, env.Answer{Status: 304, LastModified: date}},
		{"the answer has new ones", env.Request{ETag: etag, LastModified: date},
			http.Header{"Etag": {`"2"`}, "Expires": {"Sat, 01 Jan 2000 00:01:00 GMT"}},
			[]string{etag, date}, env.Answer{Status: 304, ETag: `"2"`, LastModified: date, MaxAge: time.Minute}},
		{"of the same address", env.Request{ETag: etag, ValidatedURL: "http://a.example/"}, nil,
			[]string{etag, ""}, env.Answer{Status: 304, ETag: etag}},
		{"of another address", env.Request{ETag: etag, ValidatedURL: "http://b.example/"}, nil,
			[]string{"", ""}, env.Answer{Err: env.ErrBroken}},
		{"none", env.Request{}, nil, []string{"", ""}, env.Answer{Err: env.ErrBroken}},
		{"not to be sent", env.Request{ETag: "a\r\nX-Evil: 1", LastModified: date}, nil,
			[]string{"", date}, env.Answer{Status: 304, ETag: "a\r\nX-Evil: 1", LastModified: date}},
		{"too long", env.Request{ETag: strings.Repeat("a", maxValidator+1)}, nil,
			[]string{"", ""}, env.Answer{Err: env.ErrBroken}},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := web{"a.example:80": func(w http.ResponseWriter, r *http.Request) {
				if got := []string{r.Header.Get("If-None-Match"), r.Header.Get("If-Modified-Since")}; !slices.Equal(got, c.sent) {
					t.Errorf("%s: sent %q, want %q", c.name, got, c.sent)
				}
				w.Header()["Date"] = []string{"Sat, 01 Jan 2000 00:00:00 GMT"}
				for name, values := range c.header {
					w.Header()[name] = values
				}
				w.WriteHeader(304)
			}}.open(t, Config{})
			defer b.close()
			c.request.URL = "http://a.example/"
			c.want.FinalURL, c.want.Requests = c.request.URL, 1
			a := b.get(c.request)
			if a.Message = ""; !reflect.DeepEqual(a, c.want) {
				t.Errorf("%s: got %+v\nwant %+v", c.name, a, c.want)
			}
		})
	}
}

func TestLongValidatorsAreNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := web{"a.example:80": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("ETag", strings.Repeat("a", maxValidator+1))
		}}.open(t, Config{})
		defer b.close()
		if a := b.get(env.Request{URL: "http://a.example/"}); a.ETag != "" || a.Status != 200 {
			t.Errorf("%+v", a)
		}
	})
}

// packWith compresses a text in another way than gzip.
func packWith(coding, s string) string {
	var b bytes.Buffer
	var z io.WriteCloser
	switch coding {
	case "br":
		z = brotli.NewWriter(&b)
	case "zstd":
		z, _ = zstd.NewWriter(&b, zstd.WithEncoderConcurrency(1))
	case "zlib":
		z = zlib.NewWriter(&b)
	case "deflate":
		z, _ = flate.NewWriter(&b, flate.BestCompression)
	}
	io.WriteString(z, s)
	z.Close()
	return b.String()
}

func pack(s string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	io.WriteString(z, s)
	z.Close()
	return b.String()
}

func TestBodiesAreUnpackedAndBounded(t *testing.T) {
	const limit = 4 << 20
	packed := pack("<rss/>")
	flipped := []byte(packed)
	flipped[len(flipped)-6] ^= 1
	digits := make([]byte, limit/2+1)
	rand.NewChaCha8([32]byte{}).Read(digits)
	noise := hex.EncodeToString(digits)
	random := strings.Repeat(fmt.Sprintf("%x", []byte("not so well packed")), 10)
	for _, c := range []struct {
		name, encoding, body string
		more                 string // repeated for ever after body
		err                  string
		want                 string
		cut                  bool
	}{
		{name: "plain", body: "<rss/>", want: "<rss/>"},
		{name: "plain, said", encoding: "identity", body: "<rss/>", want: "<rss/>"},
		{name: "nothing"},
		{name: "packed", encoding: "gzip", body: packed, want: "<rss/>"},
		{name: "packed, as long ago", encoding: "X-GZip", body: packed, want: "<rss/>"},
		{name: "packed in parts", encoding: "gzip", body: packed + packed, want: "<rss/><rss/>"},
		{name: "nothing, packed", encoding: "gzip", body: pack("")},
		{name: "nothing, said to be packed", encoding: "gzip"},
		{name: "packed well", encoding: "gzip", body: pack(strings.Repeat("a", minRatioSize)), want: strings.Repeat("a", minRatioSize)},
		{name: "just as large as may be", body: strings.Repeat("a", limit), want: strings.Repeat("a", limit)},

		{name: "unasked: br", encoding: "br", body: packWith("br", "<rss/>"), want: "<rss/>"},
		{name: "unasked: zstd", encoding: "zstd", body: packWith("zstd", "<rss/>"), want: "<rss/>"},
		{name: "unasked: deflate", encoding: "deflate", body: packWith("zlib", "<rss/>"), want: "<rss/>"},
		{name: "unasked: deflate without the header of zlib", encoding: "Deflate", body: packWith("deflate", "<rss/>"), want: "<rss/>"},
		{name: "packed twice", encoding: "gzip, gzip", body: pack(packed), want: "<rss/>"},
		{name: "packed in two ways", encoding: "br, gzip", body: pack(packWith("br", "<rss/>")), want: "<rss/>"},
		{name: "a packed file", body: packed, want: "<rss/>"},
		{name: "a packed file, packed", encoding: "gzip", body: pack(packed), want: "<rss/>"},
		{name: "not packed", encoding: "gzip", body: "<rss/>\n<rss/>", want: "<rss/>\n<rss/>"},
		{name: "not deflated", encoding: "deflate", body: "<rss/>", want: "<rss/>"},
		{name: "a charset", encoding: "UTF-8", body: "<rss/>", want: "<rss/>"},
		{name: "nothing, said to be br", encoding: "br"},

		{name: "no br", encoding: "br", body: "<rss/>", want: "<rss/>"},
		{name: "no br, with a mark", encoding: "br", body: "\ufeff<rss/>", want: "\ufeff<rss/>"},
		{name: "br that begins as a list", encoding: "br", body: "[\xff\xff\x00" + "\x00", err: env.ErrEncoding},
		{name: "br, broken off", encoding: "br", body: packWith("br", random)[:20], err: env.ErrBroken},
		{name: "zstd, broken off", encoding: "zstd", body: packWith("zstd", random)[:20], err: env.ErrBroken},
		{name: "packed badly", encoding: "gzip", body: string(flipped), err: env.ErrEncoding},
		{name: "packed, broken off", encoding: "gzip", body: packed[:len(packed)-2], err: env.ErrBroken},
		{name: "one byte too large", body: strings.Repeat("a", limit+1), want: strings.Repeat("a", limit), cut: true},
		{name: "unpacks to too much", encoding: "gzip", body: pack(noise), want: noise[:limit], cut: true},
		{name: "endless", more: strings.Repeat("a", 32<<10), want: strings.Repeat("a", limit), cut: true},
		{name: "bomb", encoding: "gzip", body: pack(strings.Repeat("\x00", limit)), err: env.ErrTooLarge},
		{name: "bomb of br", encoding: "br", body: packWith("br", strings.Repeat("\x00", limit)), err: env.ErrTooLarge},
		{name: "bomb of zstd", encoding: "zstd", body: packWith("zstd", strings.Repeat("\x00", limit)), err: env.ErrTooLarge},
		{name: "endless, packed nothing", encoding: "gzip", more: strings.Repeat(pack(""), 1000), err: env.ErrTooLarge},
		{name: "packed, endless nothing", encoding: "gzip, gzip", body: pack(strings.Repeat(pack(""), limit/10)), err: env.ErrTooLarge},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := web{"a.example:80": func(w http.ResponseWriter, _ *http.Request) {
				if c.encoding != "" {
					w.Header().Set("Content-Encoding", c.encoding)
				}
				io.WriteString(w, c.body)
				for c.more != "" {
					if _, err := io.WriteString(w, c.more); err != nil {
						return
					}
				}
			}}.open(t, Config{MaxBody: limit})
			defer b.close()
			a := b.get(env.Request{URL: "http://a.example/"})
			if a.Err != c.err || string(a.Body) != c.want || c.err == "" && a.Body == nil || a.Cut != c.cut {
				t.Errorf("%s: error %q (%s), %d bytes, cut %v; want %q, %d bytes", c.name, a.Err, a.Message, len(a.Body), a.Cut, c.err, len(c.want))
			}
			if a := b.get(env.Request{URL: "http://a.example/", Robots: true}); c.cut && a.Err != env.ErrTooLarge {
				t.Errorf("%s: half a page: %q", c.name, a.Err)
			}
		})
	}
}

func TestHugeResponsesTakeLittleMemory(t *testing.T) {
	zeros := pack(strings.Repeat("\x00", 16<<20))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		part, n := strings.Repeat("a", 1<<20), 100
		if r.URL.Path == "/bomb" {
			w.Header().Set("Content-Encoding", "gzip")
			part, n = zeros, 64
		}
		for range n {
			if _, err := io.WriteString(w, part); err != nil {
				return
			}
		}
	}))
	defer s.Close()
	b := openReal(t, Config{AllowPrivate: true})
	for _, path := range []string{"/bomb", "/endless"} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start := time.Now()
		a := b.get(env.Request{URL: s.URL + path})
		took := time.Since(start)
		runtime.ReadMemStats(&after)
		allocated := (after.TotalAlloc - before.TotalAlloc) >> 20
		if a.Err != env.ErrTooLarge && !a.Cut || allocated > 96 {
			t.Errorf("%s: %+v, %d MiB allocated", path, a, allocated)
		}
		t.Logf("%s: %s, in %v, with %d MiB allocated", path, a.Message, took, allocated)
	}
}

// These answers cannot be written with net/http.
func TestBrokenAnswersAreReported(t *testing.T) {
	for _, c := range []struct{ name, raw, class, words string }{
		{"broken off", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n<rss>", env.ErrBroken, "ended too early after 5 bytes"},
		{"broken off in a chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\n<rss>", env.ErrBroken, "ended too early after 5 bytes"},
		{"no chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nhello", env.ErrBroken, "ended too early"},
		{"larger than all", "HTTP/1.1 200 OK\r\nContent-Length: 104857600\r\n\r\n<rss>", env.ErrBroken, "ended too early"},
		{"nothing", "", env.ErrBroken, "closed the connection"},
		{"half a line", "HTTP/1.1 200", env.ErrBroken, "closed the connection"},
		{"not HTTP", "220 mail.example ESMTP\r\n", env.ErrBroken, "not HTTP"},
		{"no length to believe", "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n", env.ErrBroken, "not HTTP"},
		{"another protocol", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", env.ErrBroken, "101"},
		{"large headers", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("a", maxHeaders) + "\r\n\r\n", env.ErrTooLarge, "headers"},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := web{"a.example:80": func(w http.ResponseWriter, _ *http.Request) {
				conn, _, err := http.NewResponseController(w).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				io.WriteString(conn, c.raw)
				conn.Close()
			}}.open(t, Config{})
			defer b.close()
			if a := b.get(env.Request{URL: "http://a.example/"}); a.Err != c.class || !strings.Contains(a.Message, c.words) {
				t.Errorf("%s: %q %q, want %q %q", c.name, a.Err, a.Message, c.class, c.words)
			}
		})
	}
}

func TestStatusIsPassedOnWithoutABody(t *testing.T) {
	for status, words := range map[int]string{
		201: "without a document", 204: "without a document", 206: "without a document", 300: "without a document",
		400: "without a document", 401: "everybody", 403: "everybody", 404: "does not exist", 410: "for good",
		418: "without a document", 429: "fewer", 500: "the web server failed", 503: "at the moment", 599: "the web server failed",
	} {
		synctest.Test(t, func(t *testing.T) {
			b := web{"a.example:80": func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", "120")
				w.WriteHeader(status)
				io.WriteString(w, "<html>")
			}}.open(t, Config{})
			defer b.close()
			a := b.get(env.Request{URL: "http://a.example/"})
			wait := 2 * time.Minute
			if status < 400 {
				wait = 0
			}
			if a.Status != status || !strings.Contains(a.Message, words) || a.Body != nil || a.RetryAfter != wait {
				t.Errorf("%d: %+v", status, a)
			}
		})
	}
}

func TestInvalidAddressesAreAnsweredAtOnce(t *testing.T) {
	for _, url := range []string{"", "a.example", "ftp://a.example/", "http://user:geheim@a.example/", "http://"} {
		var got env.Answer
		c := New(Config{}, func(_ env.Handle, a env.Answer) { got = a })
		if c.Fetch(1, env.Request{URL: url}); got.Err != env.ErrURL || strings.Contains(got.Message, "geheim") {
			t.Errorf("%q: %+v", url, got)
		}
	}
}

// A contact is a URL that fits into a User-Agent unchanged.
func TestContactsAreURLs(t *testing.T) {
	for contact, good := range map[string]bool{
		"": true, "https://example.org/feeds.html": true, "http://example.org": true, "mailto:ops@example.org": true,
		"example.org": false, "https:///x": false, "mailto:": false, "ftp://example.org/": false, "javascript:alert(1)": false,
		"https://example.org/a b": false, "https://example.org/(x)": false, "https://example.org/x;y": false,
		"https://example.org/\r\nX: 1": false, "https://exämple.org/": false, "https://example.org/" + strings.Repeat("x", 250): false,
	} {
		if err := CheckContact(contact); (err == nil) != good {
			t.Errorf("%q: %v", contact, err)
		}
	}
	if err := CheckContact("ops@example.org"); err == nil || !strings.HasSuffix(err.Error(), "give mailto:ops@example.org") {
		t.Errorf("a mail address: %v", err)
	}
}
