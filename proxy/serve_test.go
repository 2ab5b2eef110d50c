package proxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// serve runs a server on a socket until the test ends.
func serve(t testing.TB, s *Server) (address string, stop func() error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	return l.Addr().String(), func() error { cancel(); return <-done }
}

func TestAddressesWorkOverARealConnection(t *testing.T) {
	b := newTestServer(t)
	address, stop := serve(t, b.server)
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(conn)
	for _, c := range []struct {
		line   string
		status int
	}{
		{"GET /" + rssURL, 200},
		{"GET /" + atomURL, 200},
		{"GET /https:/h.example/feed.xml", 200},
		{"GET /https%3A%2F%2Fh.example%2Ffeed.xml", 200},
		{"GET " + b.tokenTarget(atomURL), 200},
		{"GET http://" + address + "/" + rssURL, 200},
		{"GET http://h.example/feed.xml", 421},
		{"CONNECT h.example:443", 405},
		{"OPTIONS *", 400},
		{"GET //" + rssURL, 404},
		{"GET /../" + rssURL, 404},
	} {
		fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: %s\r\nTidings-Token: %s\r\n\r\n", c.line, address, secret)
		r, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatalf("%s: %v", c.line, err)
		}
		if _, err := io.Copy(io.Discard, r.Body); err != nil || r.StatusCode != c.status {
			t.Errorf("%s: %d, %v", c.line, r.StatusCode, err)
		}
		if r.Close {
			conn.Close()
			if conn, err = net.Dial("tcp", address); err != nil {
				t.Fatal(err)
			}
			in = bufio.NewReader(conn)
		}
	}
	conn.Close()
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func TestServeStopsWhileAReaderHangs(t *testing.T) {
	b := newTestServer(t)
	hanging := &hangingNode{memoryNode: b.node, asked: make(chan struct{})}
	b.server.subs = hanging
	address, stop := serve(t, b.server)
	silent, err := net.Dial("tcp", address) // sends nothing
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	answered := make(chan int, 1)
	go func() {
		defer close(answered)
		client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		if r, err := client.Get("http://" + address + "/" + rssURL); err == nil {
			r.Body.Close()
			answered <- r.StatusCode
		}
	}()
	<-hanging.asked
	began := time.Now()
	if err := stop(); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > shutdownTime+2*time.Second {
		t.Errorf("stopping took %v", took)
	}
	if status, ok := <-answered; ok && status != 503 {
		t.Errorf("the reader was told %d", status)
	}
}

// A hangingNode reads until its context ends.
type hangingNode struct {
	*memoryNode
	asked chan struct{}
}

func (h *hangingNode) Read(ctx context.Context, url string) (Window, error) {
	close(h.asked)
	<-ctx.Done()
	return Window{}, ctx.Err()
}

func TestServeReturnsAListenersError(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if err := newTestServer(t).server.Serve(t.Context(), l); err == nil {
		t.Error("nothing was said")
	}
}

// FuzzRequest sends arbitrary requests. None of them may cause an internal error or a subscription.
func FuzzRequest(f *testing.F) {
	b := newTestServer(&testing.T{})
	good := b.tokenTarget(rssURL)
	f.Add("GET", "/"+rssURL, host, "If-None-Match", `"x", W/"y`)
	f.Add("GET", "/https:/h.example/feed.xml?a=%zz", "localhost", "Accept-Encoding", "gzip;q=, *;;")
	f.Add("HEAD", "/feed?url=https%3A%2F%2Fh.example%2Ffeed.xml&format=json&limit=3", "[::1]:1", "If-Modified-Since", "Mon, 99")
	f.Add("GET", good[:len(good)-1], "127.0.0.1:8190", "A-IM", "feed")
	f.Add("POST", "/subscribe", host, "Sec-Fetch-Site", "cross-site")
	f.Add("POST", "/opml", host, "Content-Type", "multipart/form-data; boundary=")
	f.Add("GET", "/feed:/feed:/h", host, "Origin", "null")
	f.Add("CONNECT", "h.example:443", "h.example:443", "", "")
	f.Add("GET", "http://127.0.0.1/https%3A%2F", "127.0.0.1", "User-Agent", "\x01")
	f.Add("GET", "/f/%2e%2e/https://h.example/", host, "Sec-Fetch-Dest", "document")
	f.Add("GET", "/show?url="+strings.Repeat("http://"+host+"/", 9), host, "Tidings", "1")
	f.Add("GET", "/api/v1/opml?rewrite=%", host, "Tidings", "1")
	f.Fuzz(func(t *testing.T, method, target, host, name, value string) {
		text := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\n%s: %s\r\nContent-Length: 0\r\n\r\n", method, target, host, name, value)
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(text)))
		if err != nil {
			return // net/http answers these with 400
		}
		b := newTestServer(t)
		r.RemoteAddr = "127.0.0.1:40000"
		w := httptest.NewRecorder()
		b.server.ServeHTTP(w, r)
		if w.Code >= 500 || w.Code == http.StatusIMUsed {
			t.Errorf("%d for %q", w.Code, text)
		}
		for url := range b.node.subscriptions() {
			if !strings.Contains(target, b.server.tokens.token(url)) {
				t.Errorf("subscribed to %s for %q", url, text)
			}
		}
	})
}

// BenchmarkCachedFeed measures how fast an unchanged feed of 50 items is sent, with reader and server on one core.
// At least 5,000 a second are required.
func BenchmarkCachedFeed(b *testing.B) {
	node := newMemoryNode(time.Now)
	node.publish(b, rssURL, rssDoc(1, 50))
	node.subscribed[rssURL] = false
	s := New(node, Config{Secret: []byte(secret), Token: secret})
	target := tokenPath + s.tokens.token(rssURL) + "/" + rssURL
	tag := ""
	run := func(name string, do func(r *http.Request) int, base string, want int, headers ...string) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				r, err := http.NewRequest("GET", base+target, nil)
				if err != nil {
					b.Fatal(err)
				}
				r.RemoteAddr = "127.0.0.1:40000"
				for i := 0; i < len(headers); i += 2 {
					r.Header.Set(headers[i], headers[i+1])
				}
				if got := do(r); got != want {
					b.Fatalf("%d", got)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
		})
	}
	direct := func(r *http.Request) int {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		tag = w.Header().Get("Etag")
		return w.Code
	}
	run("handler", direct, "http://localhost", 200)
	address, stop := serve(b, s)
	client := http.Client{Transport: &http.Transport{DisableCompression: true}}
	http11 := func(r *http.Request) int {
		answer, err := client.Do(r)
		if err != nil {
			b.Fatal(err)
		}
		io.Copy(io.Discard, answer.Body)
		answer.Body.Close()
		tag = answer.Header.Get("Etag")
		return answer.StatusCode
	}
	run("connection", http11, "http://"+address, 200)
	run("connection-gzip", http11, "http://"+address, 200, "Accept-Encoding", "gzip")
	run("connection-304", http11, "http://"+address, 304, "Accept-Encoding", "gzip", "If-None-Match", tag)
	client.CloseIdleConnections()
	if err := stop(); err != nil {
		b.Fatal(err)
	}
}
