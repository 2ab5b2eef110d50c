package fetch

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"tidings/internal/env"
)

func TestRedirectsAreFollowedAndChecked(t *testing.T) {
	redirect := func(status int, to string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Location"] = []string{to}
			w.WriteHeader(status)
		}
	}
	document := func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s of %s, referred by %q", r.URL, r.Host, r.Referer())
	}
	// countdown redirects from /n to /n-1, and serves /0.
	countdown := func(w http.ResponseWriter, r *http.Request) {
		var n int
		if fmt.Sscanf(r.URL.Path, "/%d", &n); n == 0 {
			document(w, r)
			return
		}
		redirect(301, fmt.Sprint(n-1))(w, r)
	}
	const a, b = "http://a.example/", "http://b.example/new"
	for _, c := range []struct {
		name       string
		from       http.HandlerFunc
		url        string
		final      string
		moved      bool
		class, say string
	}{
		{name: "301", from: redirect(301, b), final: b, moved: true},
		{name: "302", from: redirect(302, b), final: b},
		{name: "303", from: redirect(303, b), final: b},
		{name: "307", from: redirect(307, b), final: b},
		{name: "308", from: redirect(308, b), final: b, moved: true},
		{name: "301, then 302", from: redirect(301, "http://b.example/302"), final: b},
		{name: "301, then 308", from: redirect(301, "http://b.example/308"), final: b, moved: true},
		{name: "relative", from: countdown, url: a + "1", final: a + "0", moved: true},
		{name: "as many as may be", from: countdown, url: a + "5", final: a + "0", moved: true},
		{name: "fragment", from: redirect(301, "//b.example/new#x"), final: b, moved: true},
		{name: "not ASCII", from: redirect(301, "http://b.example/ü b"), final: "http://b.example/%C3%BC%20b", moved: true},

		{name: "too many", from: countdown, url: a + "6", class: env.ErrRedirect, say: "more than 5"},
		{name: "circle", from: redirect(302, "/"), class: env.ErrRedirect, say: "circle"},
		{name: "larger circle", from: redirect(302, "http://b.example/back"), class: env.ErrRedirect, say: "circle"},
		{name: "nowhere", from: redirect(302, ""), class: env.ErrRedirect, say: "without an address"},
		{name: "credentials", from: redirect(302, "http://user:geheim@b.example/"), class: env.ErrURL, say: "password"},
		{name: "file", from: redirect(302, "file:///etc/passwd"), class: env.ErrURL, say: "http"},
		{name: "gopher", from: redirect(302, "gopher://b.example:6379/_INFO"), class: env.ErrURL, say: "http"},
		{name: "no host", from: redirect(302, "http://"), class: env.ErrURL, say: "host"},
		{name: "not UTF-8", from: redirect(302, "http://b.example/\xff"), class: env.ErrURL, say: "UTF-8"},
		{name: "long", from: redirect(302, b+strings.Repeat("a", 3000)), class: env.ErrURL, say: "2 KiB"},
		{name: "unknown host", from: redirect(302, "http://c.example/"), class: env.ErrDNS, say: "c.example"},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := web{"a.example:80": c.from, "b.example:80": func(w http.ResponseWriter, r *http.Request) {
				switch r.URL.Path {
				case "/302":
					redirect(302, "/new")(w, r)
				case "/308":
					redirect(308, "/new")(w, r)
				case "/back":
					redirect(302, a)(w, r)
				default:
					document(w, r)
				}
			}}.open(t, Config{})
			defer w.close()
			if c.url == "" {
				c.url = a
			}
			got := w.get(env.Request{URL: c.url})
			if got.Err != c.class || !strings.Contains(got.Message, c.say) || strings.Contains(got.Message, "geheim") {
				t.Errorf("%s: %q %q", c.name, got.Err, got.Message)
			}
			if c.class == "" && (got.FinalURL != c.final || got.Moved != c.moved || !strings.Contains(string(got.Body), `referred by ""`)) {
				t.Errorf("%s: %+v %s", c.name, got, got.Body)
			}
		})
	}
}

func TestValidatorsAreSentOnlyToTheirAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conditional := map[string]bool{}
		w := web{
			"a.example:80": func(w http.ResponseWriter, r *http.Request) {
				conditional["a"] = r.Header.Get("If-None-Match") != ""
				http.Redirect(w, r, "http://b.example/", http.StatusFound)
			},
			"b.example:80": func(w http.ResponseWriter, r *http.Request) {
				conditional["b"] = r.Header.Get("If-None-Match") != ""
				w.WriteHeader(304)
			},
		}.open(t, Config{})
		defer w.close()
		a := w.get(env.Request{URL: "http://a.example/", ETag: `"1"`, ValidatedURL: "http://b.example/"})
		if a.Status != 304 || a.FinalURL != "http://b.example/" || conditional["a"] || !conditional["b"] {
			t.Errorf("%+v, conditional %v", a, conditional)
		}
	})
}

// A request's headers may hold a password. They go to the origin of its address, and no more after a redirect to
// another scheme, host or port, even if that leads back.
func TestHeadersGoToTheirOriginOnly(t *testing.T) {
	for _, c := range []struct {
		to   map[string]string // redirects, by host and path
		want string            // requests that had the header
	}{
		{map[string]string{}, "a.example:80/"},
		{map[string]string{"a.example:80/": "/b"}, "a.example:80/ a.example:80/b"},
		{map[string]string{"a.example:80/": "http://b.example/"}, "a.example:80/"},
		{map[string]string{"a.example:80/": "https://a.example/"}, "a.example:80/"},
		{map[string]string{"a.example:80/": "http://b.example/", "b.example:80/": "http://a.example/b"}, "a.example:80/"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var had []string
			at := func(host string) http.HandlerFunc {
				return func(w http.ResponseWriter, r *http.Request) {
					if r.Header.Get("Authorization") == "Basic geheim" {
						had = append(had, host+r.URL.Path)
					}
					if to := c.to[host+r.URL.Path]; to != "" {
						http.Redirect(w, r, to, http.StatusFound)
					}
				}
			}
			w := web{"a.example:80": at("a.example:80"), "b.example:80": at("b.example:80"), "a.example:443": at("a.example:443")}.open(t, Config{})
			defer w.close()
			w.get(env.Request{URL: "http://a.example/", Headers: map[string]string{"authorization": "Basic geheim"}})
			if got := strings.Join(had, " "); got != c.want {
				t.Errorf("%v: the header went to %s", c.to, got)
			}
		})
	}
}

// Redirects and the document share one time limit.
func TestRedirectsShareOneTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		patient := func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-r.Context().Done():
			case <-after(9):
			}
			http.Redirect(w, r, r.URL.Path+"a", http.StatusFound)
		}
		w := web{"a.example:80": patient}.open(t, Config{})
		defer w.close()
		start := now()
		if a := w.get(env.Request{URL: "http://a.example/"}); a.Err != env.ErrTimeout || since(start) != 20 {
			t.Errorf("%+v after %v s", a, since(start))
		}
	})
}

func TestBodiesOfRedirectsAreNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := web{"a.example:80": func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/2" {
				return
			}
			w.Header().Set("Location", "/2")
			w.WriteHeader(302)
			for {
				if _, err := io.WriteString(w, strings.Repeat("a", 1<<16)); err != nil {
					return
				}
			}
		}}.open(t, Config{})
		defer w.close()
		if a := w.get(env.Request{URL: "http://a.example/"}); a.Status != 200 {
			t.Errorf("%+v", a)
		}
	})
}

// A redirect from HTTPS to HTTP is followed by HTTPS. If HTTPS does not work there, the answer names the
// address that does. What comes after a further redirect has nothing to do with it.
func TestHTTPSIsKeptOverRedirects(t *testing.T) {
	for path, c := range map[string]struct {
		status     int
		class, say string
	}{
		"/news":    {status: 200},
		"/missing": {class: env.ErrRedirect, say: "subscribe to http://a.example/missing"},
		"/gone":    {status: 410},
		"/busy":    {status: 503},
		"/onward":  {status: 404},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := web{"a.example": func(w http.ResponseWriter, r *http.Request) {
				switch r.URL.Path {
				case "/start":
					w.Header().Set("Location", "http://a.example"+path)
					w.WriteHeader(301)
				case "/onward":
					w.Header().Set("Location", "https://a.example/last")
					w.WriteHeader(301)
				case "/last", "/missing":
					w.WriteHeader(404)
				case "/gone":
					w.WriteHeader(410)
				case "/busy":
					w.WriteHeader(503)
				}
			}}.open(t, Config{})
			defer w.close()
			cert, pool := certificate(t, "a.example", -24*365*100, 24*365*100)
			plain := w.public.DialContext
			w.any.TLSClientConfig = &tls.Config{RootCAs: pool}
			w.any.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
				if addr != "a.example:443" {
					t.Errorf("%s: dialled %s", path, addr)
				}
				conn, err := plain(ctx, network, "a.example")
				if err != nil {
					return nil, err
				}
				return tlsInFront(conn, cert), nil
			}
			a := w.get(env.Request{URL: "https://a.example/start"})
			if a.Err != c.class || c.class == "" && a.Status != c.status || !strings.Contains(a.Message, c.say) {
				t.Errorf("%s: %+v", path, a)
			}
		})
	}
}
