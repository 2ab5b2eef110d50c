package origin

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tidings/internal/script"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A testOrigin is an origin on a real listener, with a clock set by hand.
type testOrigin struct {
	*Origin
	t   *testing.T
	now atomic.Int64
	url string
}

func open(t *testing.T) *testOrigin {
	s := &testOrigin{t: t}
	s.start(func() time.Duration { return time.Duration(s.now.Load()) })
	return s
}

func (s *testOrigin) start(clock func() time.Duration) {
	t := s.t
	s.Origin = New(clock)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.url = "http://" + l.Addr().String()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	})
}

// ask sends a request with headers given in pairs.
func (s *testOrigin) ask(method, path string, header ...string) (*http.Response, string, error) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Accept-Encoding", "identity")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp, string(b), err
}

func (s *testOrigin) get(path string, header ...string) (*http.Response, string) {
	s.t.Helper()
	resp, body, err := s.ask("GET", path, header...)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp, body
}

func twoVersions() script.Script {
	return script.NewReplay([]script.Snapshot{
		{Body: []byte("<rss>1</rss>"), ContentType: "application/rss+xml", Hold: time.Hour},
		{Body: []byte("<rss>2</rss>"), ContentType: "application/rss+xml"},
	})
}

func TestOriginPlaysItsScript(t *testing.T) {
	s := open(t)
	s.Play("/feed", twoVersions())
	resp, body := s.get("/feed?a=b")
	if resp.StatusCode != 200 || body != "<rss>1</rss>" || resp.Header.Get("Content-Type") != "application/rss+xml" {
		t.Errorf("%+v %s", resp, body)
	}
	s.now.Store(int64(time.Hour))
	if _, body = s.get("/feed"); body != "<rss>2</rss>" {
		t.Errorf("an hour later: %s", body)
	}
	if resp, _ = s.get("/"); resp.StatusCode != 404 {
		t.Errorf("a path without a script: %d", resp.StatusCode)
	}
	resp, body, err := s.ask("HEAD", "/feed")
	if err != nil || resp.StatusCode != 200 || body != "" || resp.ContentLength != 12 {
		t.Errorf("%+v %q %v", resp, body, err)
	}
	if resp, _, err = s.ask("POST", "/feed"); err != nil || resp.StatusCode != 405 {
		t.Errorf("%+v %v", resp, err)
	}
}

func TestValidatorsHoldForAVersion(t *testing.T) {
	s := open(t)
	s.Play("/feed", twoVersions())
	resp, _ := s.get("/feed")
	etag, modified := resp.Header.Get("ETag"), resp.Header.Get("Last-Modified")
	resp, packed := s.get("/feed", "Accept-Encoding", "br, gzip;q=0.5")
	packedTag := resp.Header.Get("ETag")
	z, err := gzip.NewReader(strings.NewReader(packed))
	if err != nil || resp.Header.Get("Content-Encoding") != "gzip" || packedTag == etag {
		t.Fatalf("%+v %v", resp, err)
	}
	if b, err := io.ReadAll(z); err != nil || string(b) != "<rss>1</rss>" {
		t.Errorf("%s %v", b, err)
	}
	for _, c := range []struct {
		header []string
		status int
	}{
		{[]string{"If-None-Match", etag}, 304},
		{[]string{"If-None-Match", "W/" + etag}, 304},
		{[]string{"If-None-Match", packedTag}, 304},
		{[]string{"If-None-Match", `"x", ` + etag}, 304},
		{[]string{"If-None-Match", "*"}, 304},
		{[]string{"If-None-Match", etag, "Accept-Encoding", "gzip"}, 304},
		{[]string{"If-None-Match", etag, "If-Modified-Since", "Thu, 01 Jan 1970 00:00:00 GMT"}, 304},
		{[]string{"If-Modified-Since", modified}, 304},
		{[]string{"If-None-Match", `"x"`}, 200},
		{[]string{"If-None-Match", `"x"`, "If-Modified-Since", modified}, 200},
		{[]string{"If-Modified-Since", "Thu, 01 Jan 1970 00:00:00 GMT"}, 200},
		{[]string{"If-Modified-Since", "yesterday"}, 200},
	} {
		resp, body := s.get("/feed", c.header...)
		if resp.StatusCode != c.status || (body == "") != (c.status == 304) || resp.Header.Get("ETag") == "" || resp.Header.Get("Vary") == "" {
			t.Errorf("%v: %+v %s", c.header, resp, body)
		}
	}
	s.now.Store(int64(time.Hour))
	if resp, _ := s.get("/feed", "If-None-Match", etag); resp.StatusCode != 200 {
		t.Errorf("the old validator holds for the new version")
	}
}

func TestRequestsAreRecorded(t *testing.T) {
	s := open(t)
	s.Play("/feed", twoVersions())
	resp, _ := s.get("/feed?q", "User-Agent", "reader/1")
	s.now.Store(int64(2 * time.Hour))
	s.get("/feed", "If-None-Match", resp.Header.Get("ETag"))
	s.get("/other", "If-Modified-Since", "now")
	got := s.Requests()
	if len(got) != 3 {
		t.Fatalf("%+v", got)
	}
	for i, want := range []Request{
		{Path: "/feed?q", UserAgent: "reader/1", Bytes: 12},
		{Path: "/feed", Version: 1, Bytes: 12},
		{Path: "/other", Bytes: 19},
	} {
		if i > 0 {
			want.UserAgent = "Go-http-client/1.1"
		}
		want.From, want.Time = got[i].From, got[i].Time
		if got[i] != want || want.From == "" || time.Since(want.Time) > time.Minute {
			t.Errorf("got  %+v\nwant %+v", got[i], want)
		}
	}
}

func TestOriginMisbehavesAsTold(t *testing.T) {
	s := open(t)
	s.Play("/feed", twoVersions())
	_, _ = s.get("/feed")
	for _, c := range []struct {
		name   string
		fault  Fault
		status int // 0: no answer, or a broken one
		body   string
		header string
	}{
		{"a status", Fault{Status: 503, Header: http.Header{"Retry-After": {"60"}}}, 503, "", "Retry-After: 60"},
		{"a redirect", Redirect(301, "/new"), 301, "", "Location: /new"},
		{"a page", Page("<html>"), 200, "<html>", "Content-Type: text/html; charset=utf-8"},
		{"a header", Fault{Header: http.Header{"Cache-Control": {"max-age=60"}}}, 200, "<rss>1</rss>", "Cache-Control: max-age=60"},
		{"a delay", Fault{Delay: time.Millisecond}, 200, "<rss>1</rss>", ""},
		{"no answer", Fault{Drop: true}, 0, "", ""},
		{"half a document", Fault{Truncate: true}, 0, "", ""},
	} {
		s.Misbehave("/feed", c.fault)
		resp, body, err := s.ask("GET", "/feed")
		if c.status == 0 {
			if err == nil {
				t.Errorf("%s: %+v %s", c.name, resp, body)
			}
			continue
		}
		name, value, _ := strings.Cut(c.header, ": ")
		if err != nil || resp.StatusCode != c.status || body != c.body || resp.Header.Get(name) != value {
			t.Errorf("%s: %+v %s %v", c.name, resp, body, err)
		}
	}
	s.Behave("/feed")
	resp, body := s.get("/feed")
	etag := resp.Header.Get("ETag")
	if body != "<rss>1</rss>" || etag == "" {
		t.Errorf("behaves, and sends %+v", resp)
	}
	s.Misbehave("/feed", Fault{NoValidators: true})
	if resp, body = s.get("/feed", "If-None-Match", etag); body != "<rss>1</rss>" || resp.Header.Get("ETag")+resp.Header.Get("Last-Modified") != "" {
		t.Errorf("without validators: %+v", resp)
	}
	s.Misbehave("/feed", Fault{Status: 500, Times: 2})
	var got []int
	for range 4 {
		resp, _ := s.get("/feed")
		got = append(got, resp.StatusCode)
	}
	if got[0] != 500 || got[1] != 500 || got[2] != 200 || got[3] != 200 {
		t.Errorf("twice in four times: %v", got)
	}
}

// A client that waits for a slow path does not keep the origin from stopping.
func TestOriginEndsWithRequestsUnderWay(t *testing.T) {
	s := &testOrigin{t: t}
	asked := make(chan bool, 1)
	s.start(func() time.Duration {
		asked <- true
		return 0
	})
	s.Play("/feed", twoVersions())
	s.Misbehave("/feed", Fault{Delay: time.Hour})
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	io.WriteString(conn, "GET /feed HTTP/1.1\r\nHost: a\r\n\r\n")
	<-asked
}

func TestClockRunsAtItsSpeed(t *testing.T) {
	start := time.Now()
	clock := Clock(1e6)
	if got, most := clock(), time.Since(start)*1e6; got < 0 || got > most {
		t.Errorf("%v, at most %v", got, most)
	}
}
