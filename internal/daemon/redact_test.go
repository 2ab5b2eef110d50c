package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tidings/proxy"
)

func TestRedactedAddresses(t *testing.T) {
	for text, want := range map[string]string{
		"https://user:pass@h.example:8443/feed?key=s3cr3t":                   "h.example:8443#",
		"page+https://h.example/s3cr3t":                                      "h.example#",
		"read https://h.example/s3cr3t: origin too slow":                     "read h.example#",
		`Get "http://h.example/s3cr3t/it's?a=(b)": dial tcp: lookup`:         `Get "h.example#`,
		"HTTPS://h.example/s3cr3t":                                           "h.example#",
		"feed:https://h.example/s3cr3t, feed://h.example/s3cr3t":             "feed:h.example#",
		"https:/h.example/s3cr3t":                                            "address#",
		`https:\\h.example\s3cr3t`:                                           "#",
		"[http://a.example/s3cr3t http://b.example/s3cr3t]":                  "[a.example#",
		"no address, but host h.example and /ip4/127.0.0.1/udp/1/quic-v1":    "no address, but host h.example and /ip4/127.0.0.1/udp/1/quic-v1",
		"http://127.0.0.1:8190/f/s3cr3t/https://h.example/feed is not asked": "127.0.0.1:8190#",
	} {
		got := redact(text)
		if !strings.Contains(got, want) || strings.Contains(got, "s3cr3t") || strings.Contains(got, "pass") {
			t.Errorf("%q becomes %q", text, got)
		}
	}
	if redact("https://h.example/a") != redact("https://h.example/a:")[:len("h.example#")+hashDigits] || redact("https://h.example/a") == redact("https://h.example/b") {
		t.Error("hashes do not tell feeds apart")
	}
}

func TestRedactorRedactsMessagesAndAttributes(t *testing.T) {
	var out bytes.Buffer
	const secret = "https://h.example/s3cr3t"
	log := slog.New(newRedactor(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})))
	for _, l := range []slog.Level{slog.LevelInfo, slog.LevelWarn, slog.LevelError} {
		log.With("url", secret).WithGroup("g").Log(context.Background(), l, "words "+secret, "err", fmt.Errorf("read: %w", errors.New(secret)), "urls", []string{secret},
			slog.Group("deep", "url", secret), "n", 7)
		if got := out.String(); strings.Contains(got, "s3cr3t") || strings.Count(got, "h.example#") != 5 || !strings.Contains(got, "g.n=7") {
			t.Errorf("%v: %s", l, got)
		}
		out.Reset()
	}
	if log.With("url", secret).Debug("words"); !strings.Contains(out.String(), secret) {
		t.Errorf("DEBUG has %s", &out)
	}
}

func FuzzRedact(f *testing.F) {
	f.Add("https://", "h.example", "/s3cr3t")
	f.Add("page+HTTP:/", "h", "?s3cr3t")
	f.Fuzz(func(t *testing.T, before, host, path string) {
		got := redact(before + "http://h.example/" + strings.Join(strings.FieldsFunc(path, func(r rune) bool { return r <= ' ' || strings.ContainsRune("\"<>\u0085\u00a0", r) }), "") + "s3cr3t")
		if strings.Contains(got, "s3cr3t") && !strings.Contains(before, "s3cr3t") {
			t.Errorf("%q", got)
		}
	})
}

// TestLogsContainNoAddresses subscribes to a feed with a secret in its address, lets polls succeed and fail
// and a subscription lapse, and checks the log.
func TestLogsContainNoAddresses(t *testing.T) {
	t.Parallel()
	var broken atomic.Bool
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case broken.Load():
			http.Error(w, "gone wrong", http.StatusInternalServerError)
		default:
			_, _ = io.WriteString(w, aFeed)
		}
	}))
	defer origin.Close()
	network := laboratory("redacted")
	network.PollInterval = time.Second
	m := running(t, Config{Dir: t.TempDir(), Found: &network, HTTP: "127.0.0.1:0", AllowPrivateOrigins: true})
	m.awaitMembers(t, 1)
	const key = "/k3y-of-somebody/feed.xml"
	var done proxy.Subscribed
	m.post(t, "subscribe", fmt.Sprintf(`{"url":%q}`, origin.URL+key), &done)
	lapses := origin.URL + "/lapses" + key
	if err := m.Subscribe(t.Context(), lapses, true); err != nil {
		t.Fatal(err)
	}
	m.get(t, strings.TrimPrefix(done.ReadURL, "http://"+m.HTTPAddr().String()))
	state := func(want func(string) bool) {
		t.Helper()
		within(t, awaitTimeout, "another state", func() error {
			list, err := m.List(t.Context())
			for _, c := range list {
				if c.URL == origin.URL+key && want(c.State) {
					return nil
				}
			}
			return fmt.Errorf("%+v, %w", list, err)
		})
	}
	state(func(s string) bool { return s == proxy.StateOK })
	broken.Store(true)
	state(func(s string) bool { return s != proxy.StateOK })
	m.endLapsed(t.Context(), time.Now().Add(2*lapseAge))
	m.stop(t)
	seen := 0
	for line := range strings.Lines(m.log.String()) {
		if strings.Contains(line, "level=DEBUG") {
			continue
		}
		if strings.Contains(line, "k3y-of-somebody") {
			t.Errorf("the log has %s", line)
		}
		if strings.Contains(line, strings.TrimPrefix(origin.URL, "http://")+"#") {
			seen++
		}
	}
	if seen == 0 {
		t.Errorf("no line says which feed it is about")
	}
}
