package fetch

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tidings/internal/env"
)

// Cookies live as long as one fetch, and are sent only to the site that set them.
func TestCookiesLiveForOneFetch(t *testing.T) {
	const feedURL = "http://www.journal.example/index/feed"
	for _, c := range []struct {
		name       string
		set        string // Set-Cookie of the first answer
		via        string // where the first answer redirects
		class, say string
	}{
		{name: "to itself", set: "OJSSID=a1; path=/; HttpOnly", via: feedURL},
		{name: "of the directory", set: "s=a1", via: "feed"},
		{name: "of the whole site", set: "s=a1; Domain=journal.example", via: "http://check.journal.example/?back"},
		{name: "by a check of the same host", set: "s=a1; Path=/", via: "/check"},
		{name: "of another path", set: "s=a1; Path=/admin", via: feedURL, class: env.ErrRedirect, say: "circle, although its cookies were sent back"},
		{name: "of another site", set: "s=a1; Domain=other.example", via: feedURL, class: env.ErrRedirect, say: "circle"},
		{name: "of a public suffix", set: "s=a1; Domain=co.uk", via: feedURL, class: env.ErrRedirect, say: "circle"},
		{name: "expired", set: "s=a1; Max-Age=0", via: feedURL, class: env.ErrRedirect, say: "circle"},
		{name: "too large", set: "s=" + strings.Repeat("a", maxCookies), via: feedURL, class: env.ErrRedirect, say: "circle"},
		{name: "without a cookie", via: feedURL, class: env.ErrRedirect, say: "redirects in a circle"},
	} {
		synctest.Test(t, func(t *testing.T) {
			back := func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, feedURL, http.StatusFound) }
			w := web{
				"www.journal.example:80": func(w http.ResponseWriter, r *http.Request) {
					switch {
					case r.URL.Path == "/check":
						back(w, r)
					case r.Header.Get("Cookie") != "":
						io.WriteString(w, r.Header.Get("Cookie"))
					default:
						if c.set != "" {
							w.Header().Set("Set-Cookie", c.set)
						}
						http.Redirect(w, r, c.via, http.StatusFound)
					}
				},
				"check.journal.example:80": back,
			}.open(t, Config{})
			defer w.close()
			for range 2 { // at the second fetch nothing is left of the first one
				before := w.Stats().Asked
				a := w.get(env.Request{URL: feedURL})
				if a.Err != c.class || !strings.Contains(a.Message, c.say) || c.class == "" && !strings.HasSuffix(string(a.Body), "=a1") {
					t.Errorf("%s: %+v %s", c.name, a, a.Body)
				}
				if asked := w.Stats().Asked - before; asked > 3 || c.class == "" && asked < 2 {
					t.Errorf("%s: %d requests", c.name, asked)
				}
			}
		})
	}
}

func TestCookiesAreNotSentElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent []string
		w := web{
			"a.example:80": func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Set-Cookie", "secret=1; Path=/")
				http.Redirect(w, r, "http://b.example/", http.StatusFound)
			},
			"b.example:80": func(w http.ResponseWriter, r *http.Request) { sent = append(sent, r.Header.Get("Cookie")) },
		}.open(t, Config{})
		defer w.close()
		w.get(env.Request{URL: "http://a.example/"})
		w.get(env.Request{URL: "http://b.example/"})
		if !slices.Equal(sent, []string{"", ""}) {
			t.Errorf("sent %q", sent)
		}
	})
}

// A cookie that changes each time makes each request another one, and the number of redirects ends it.
func TestCookiesThatChangeForEverEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := web{"a.example:80": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Set-Cookie", "n=1"+r.Header.Get("Cookie")[min(2, len(r.Header.Get("Cookie"))):])
			http.Redirect(w, r, "/", http.StatusFound)
		}}.open(t, Config{})
		defer w.close()
		a := w.get(env.Request{URL: "http://a.example/"})
		if a.Err != env.ErrRedirect || !strings.Contains(a.Message, "although its cookies") {
			t.Errorf("%+v", a)
		}
	})
}

// An origin that insists on text/html gets it, and is asked so from then on. One that offers a page and
// a feed sends the feed to a reader of feeds, and the page to a reader of pages.
func TestAcceptFitsTheOrigin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := web{
			"strict.example:80": func(w http.ResponseWriter, r *http.Request) {
				if !strings.Contains(r.Header.Get("Accept"), "text/html") {
					w.WriteHeader(http.StatusNotAcceptable)
				}
			},
			"never.example:80": func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusNotAcceptable) },
			"both.example:80": func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/robots.txt" {
					http.NotFound(w, r)
				} else if kind, _, _ := strings.Cut(r.Header.Get("Accept"), ","); kind == "text/html" {
					io.WriteString(w, "page")
				} else {
					io.WriteString(w, "feed")
				}
			},
		}.open(t, Config{})
		defer w.close()
		asked := func(url string) (env.Answer, int) {
			before := w.Stats().Asked
			a := w.get(env.Request{URL: url})
			return a, int(w.Stats().Asked - before)
		}
		for i, want := range []int{2, 1, 1} {
			if a, n := asked("http://strict.example/feed"); a.Status != 200 || n != want {
				t.Errorf("fetch %d: %d requests, %+v", i, n, a)
			}
		}
		for i, want := range []int{2, 1} {
			if a, n := asked("http://never.example/feed"); a.Status != http.StatusNotAcceptable || n != want {
				t.Errorf("fetch %d: %d requests, %+v", i, n, a)
			}
		}
		time.Sleep(lessonTTL)
		if _, n := asked("http://strict.example/feed"); n != 2 {
			t.Errorf("%d requests after some hours", n)
		}
		if a, _ := asked("http://both.example/"); string(a.Body) != "feed" {
			t.Errorf("%s", a.Body)
		}
		if a := w.get(env.Request{URL: "http://both.example/", Robots: true}); string(a.Body) != "page" {
			t.Errorf("%s", a.Body)
		}
	})
	for _, value := range []string{accept, acceptHTML} {
		if strings.Contains(value, "text/html,") {
			t.Errorf("%q prefers pages", value)
		}
	}
}

// A web server that appends the name of the compression to its ETags is asked in a form that it
// recognises.
func TestTagsOfCompressedDocumentsAreRecognised(t *testing.T) {
	const date = "Sat, 01 Jan 2000 00:00:00 GMT"
	for _, c := range []struct {
		name, tag  string
		recognises func(tag, since string) bool
		full       int // answers with the document, of twenty
	}{
		{"the list", `"k1-gzip"`, func(tag, _ string) bool { return slices.Contains(strings.Split(tag, ", "), `"k1"`) }, 1},
		{"its own tag", `"k1-gzip"`, func(tag, _ string) bool { return tag == `"k1-gzip"` }, 3},
		{"the tag without suffix alone", `W/"k1--gzip"`, func(tag, _ string) bool { return tag == `W/"k1"` }, 2},
		{"another compression", `"k;1;br"`, func(tag, _ string) bool { return tag == `"k;1"` }, 2},
		{"the date alone", `"k1-gzip"`, func(tag, since string) bool { return tag == "" && since == date }, 4},
		{"nothing", `"k1-gzip"`, func(string, string) bool { return false }, 20},
		{"a tag that only looks like it", `"-gzip"`, func(tag, _ string) bool { return tag == `"-gzip"` }, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := web{"a.example:80": func(w http.ResponseWriter, r *http.Request) {
				w.Header()["ETag"] = []string{c.tag}
				w.Header().Set("Last-Modified", date)
				if r.Header.Get("If-Modified-Since") != "" && c.recognises(r.Header.Get("If-None-Match"), r.Header.Get("If-Modified-Since")) {
					w.WriteHeader(http.StatusNotModified)
				}
			}}.open(t, Config{})
			defer w.close()
			r, full := env.Request{URL: "http://a.example/"}, 0
			for range 20 {
				a := w.get(r)
				if r.ETag, r.LastModified, r.ValidatedURL = a.ETag, a.LastModified, a.FinalURL; a.Status == 200 {
					full++
				}
			}
			if full != c.full {
				t.Errorf("%s: the document came %d times, want %d", c.name, full, c.full)
			}
		})
	}
}

// An address that accepts connections and says nothing is left for another one in the same fetch, and
// avoided for some hours.
func TestSilentAddressesAreLeft(t *testing.T) {
	for name, scheme := range map[string]string{"handshake": "https", "answer": "http"} {
		synctest.Test(t, func(t *testing.T) {
			fakeNames(t)
			w := web{"good": func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "<rss/>") }}.open(t, Config{})
			defer w.close()
			toGood, dialled := dialFunc(w.any.DialContext), []string{}
			cert, pool := certificate(t, "dual.example", -24*365*100, 24*365*100)
			silent := make(chan net.Conn, 10)
			w.any.TLSClientConfig = &tls.Config{RootCAs: pool, Time: func() time.Time { return time.Now() }}
			w.any.DialContext = w.silentLast(func(ctx context.Context, network, addr string) (net.Conn, error) {
				host, _, _ := net.SplitHostPort(addr)
				if host == "dual.example" {
					host = "2001:db8::1" // IPv6 is preferred
				}
				dialled = append(dialled, host)
				defer httptrace.ContextClientTrace(ctx).ConnectDone(network, net.JoinHostPort(host, "443"), nil)
				if host != "127.0.0.1" {
					here, there := net.Pipe()
					go io.Copy(io.Discard, there)
					silent <- there
					return here, nil
				}
				conn, err := toGood(ctx, network, "good")
				if scheme == "http" || err != nil {
					return conn, err
				}
				return tlsInFront(conn, cert), nil
			})
			for i, seconds := range []float64{map[string]float64{"https": tlsTimeout.Seconds(), "http": headerTimeout.Seconds()}[scheme], 0, 0} {
				start := now()
				a := w.get(env.Request{URL: scheme + "://dual.example/feed"})
				if a.Status != 200 || since(start) > seconds+2 || since(start) < seconds {
					t.Errorf("%s, fetch %d: %+v after %v s", name, i, a, since(start))
				}
				w.any.CloseIdleConnections()
			}
			if !slices.Equal(dialled, []string{"2001:db8::1", "127.0.0.1", "127.0.0.1", "127.0.0.1"}) {
				t.Errorf("%s: dialled %v", name, dialled)
			}
			time.Sleep(lessonTTL)
			if w.get(env.Request{URL: scheme + "://dual.example/feed"}); dialled[4] != "2001:db8::1" {
				t.Errorf("%s: dialled %v", name, dialled)
			}
			close(silent)
			for there := range silent {
				there.Close()
			}
		})
	}
}

// tlsInFront returns a connection behind which a server with a certificate speaks TLS, and passes the
// plain bytes on.
func tlsInFront(plain net.Conn, cert tls.Certificate) net.Conn {
	here, there := net.Pipe()
	secure := tls.Server(there, &tls.Config{Certificates: []tls.Certificate{cert}})
	go func() {
		io.Copy(plain, secure)
		plain.Close()
	}()
	go func() {
		io.Copy(secure, plain)
		secure.Close()
	}()
	return here
}

func TestAddressesOfAnotherFamilyAreTriedFirst(t *testing.T) {
	a := netip.MustParseAddr
	got := leastSilent([]netip.Addr{a("2001:db8::1"), a("2001:db8::2"), a("::ffff:192.0.2.1"), a("192.0.2.2")}, []netip.Addr{a("2001:db8::1")})
	if want := []netip.Addr{a("::ffff:192.0.2.1"), a("192.0.2.2"), a("2001:db8::2"), a("2001:db8::1")}; !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
}

// A client that has learned about too many hosts forgets them all.
func TestLessonsAreBounded(t *testing.T) {
	c := New(Config{}, nil)
	for i := range 3 * maxLessons {
		c.learn(string(rune(i)), func(l *lesson) { l.html = true })
		if len(c.lessons) > maxLessons {
			t.Fatalf("%d lessons", len(c.lessons))
		}
	}
}
