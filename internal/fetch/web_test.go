package fetch

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"tidings/internal/env"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A web is a small Internet in memory, by "host:port". Its connections are pipes, so that they run in
// virtual time in a synctest bubble.
type web map[string]http.HandlerFunc

// A testClient is a client that fetches from a web.
type testClient struct {
	*Client
	t       *testing.T
	answers chan answer
	stop    func()
}

type answer struct {
	handle env.Handle
	env.Answer
}

// open runs a client on a web. close must be called before the bubble ends.
func (w web) open(t *testing.T, c Config) *testClient {
	answers := make(chan answer, 1000)
	b := &testClient{Client: New(c, func(h env.Handle, a env.Answer) { answers <- answer{h, a} }), t: t, answers: answers}
	origins := map[string]*pipes{}
	var serving sync.WaitGroup
	var servers []*http.Server
	for host, handler := range w {
		p := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
		s := &http.Server{Handler: handler}
		origins[host], servers = p, append(servers, s)
		serving.Go(func() { s.Serve(p) })
	}
	dial := func(ctx context.Context, _, addr string) (net.Conn, error) {
		p := origins[addr]
		if p == nil {
			return nil, &net.DNSError{Err: "no such host", Name: addr, IsNotFound: true}
		}
		return p.dial(ctx)
	}
	b.public.DialContext, b.any.DialContext = dial, dial
	ctx, cancel := context.WithCancel(t.Context())
	serving.Go(func() { b.Run(ctx) })
	b.stop = sync.OnceFunc(func() {
		cancel()
		for _, s := range servers {
			s.Close()
		}
		serving.Wait()
	})
	return b
}

func (b *testClient) close() { b.stop() }

// get fetches one document.
func (b *testClient) get(r env.Request) env.Answer {
	b.t.Helper()
	b.Fetch(7, r)
	a := <-b.answers
	if a.handle != 7 {
		b.t.Errorf("%s: the answer is for %d", r.URL, a.handle)
	}
	if (a.Status == 0) == (a.Err == "") {
		b.t.Errorf("%s: status %d and error %q", r.URL, a.Status, a.Err)
	}
	if a.Err != "" && a.Message == "" {
		b.t.Errorf("%s: no words for %q", r.URL, a.Err)
	}
	return a.Answer
}

// pipes is a listener whose connections are pipes.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (p *pipes) dial(ctx context.Context) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.conns <- there:
		return here, nil
	case <-p.done:
		return nil, errors.New("closed")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.done) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }
