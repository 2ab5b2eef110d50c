package proxy

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// The test opens more connections than allowed, some silent, some that send headers and some that send bodies byte
// by byte, and checks that the node still answers.
func TestSlowConnectionsDoNotKeepOthersOut(t *testing.T) {
	for name, said := range map[string]string{
		"nothing": "", "half a header": "GET / HTTP/1.1\r\nHost: " + host + "\r\n",
		"half a body": "POST /api/v1/subscribe HTTP/1.1\r\nHost: " + host + "\r\nTidings: 1\r\nTidings-Token: " + secret +
			"\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{",
		"a request, and no more": "GET /style.css HTTP/1.1\r\nHost: " + host + "\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			address, stop := serve(t, newTestServer(t).server)
			defer func() {
				if err := stop(); err != nil {
					t.Error(err)
				}
			}()
			for range maxConns + 88 {
				c, err := net.Dial("tcp", address)
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				if _, err := io.WriteString(c, said); err != nil && !strings.Contains(err.Error(), "reset") {
					t.Fatal(err)
				}
			}
			client := http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
			for range 3 {
				r, err := client.Get("http://" + address + "/healthz")
				if err != nil {
					t.Fatalf("the node does not answer within a second: %v", err)
				}
				_ = r.Body.Close()
				if r.StatusCode != http.StatusOK {
					t.Errorf("it answers %s", r.Status)
				}
			}
		})
	}
}

// A fakeConn is a connection with an address and nothing else.
type fakeConn struct {
	net.Conn
	from   string
	closed bool
}

func (g *fakeConn) RemoteAddr() net.Addr { a, _ := net.ResolveTCPAddr("tcp", g.from); return a }
func (g *fakeConn) Close() error         { g.closed = true; return nil }

// A fakeListener is a listener at which fake connections wait.
type fakeListener struct {
	net.Listener
	waiting []*fakeConn
}

func (q *fakeListener) Accept() (net.Conn, error) {
	g := q.waiting[0]
	q.waiting = q.waiting[1:]
	return g, nil
}

func TestOneClientDoesNotTakeAllConnections(t *testing.T) {
	q := &fakeListener{}
	c := newConnLimiter(q, func(remote string) bool { return strings.HasPrefix(remote, "192.0.2.") })
	enter := func(from string) *fakeConn {
		g := &fakeConn{from: from}
		q.waiting = append(q.waiting, g)
		if _, err := c.Accept(); err != nil {
			t.Fatal(err)
		}
		return g
	}
	open := func(conns []*fakeConn) (n int) {
		for _, g := range conns {
			if !g.closed {
				n++
			}
		}
		return n
	}
	other := enter("198.51.100.1:1")
	// The addresses of one IPv6 network count as one client.
	for name, address := range map[string]func(int) string{
		"IPv4": func(i int) string { return fmt.Sprintf("203.0.113.1:%d", i+1) },
		"IPv6": func(i int) string { return fmt.Sprintf("[2001:db8::%x]:1", i+1) },
	} {
		var own []*fakeConn
		for i := range maxPerClient {
			own = append(own, enter(address(i)))
		}
		if n := open(own); n != maxPerClient {
			t.Errorf("%s: %d of %d are open", name, n, maxPerClient)
		}
		c.stateChanged(own[0], http.StateActive) // a request is being answered
		c.changes += newConnChanges              // many state changes of the others
		enter(address(maxPerClient))
		if own[0].closed || !own[1].closed || open(own) != maxPerClient-1 || other.closed {
			t.Errorf("%s: the connection of that client that waits longest for its headers does not give way", name)
		}
		for _, g := range own {
			c.stateChanged(g, http.StateClosed)
		}
	}
	// A new connection is not closed for one that arrives a moment later, although the headers of all others have
	// arrived.
	for i := range maxConns {
		c.stateChanged(enter(fmt.Sprintf("127.0.0.1:%d", i+1)), http.StateActive)
	}
	reader := enter("127.0.0.1:9001")
	for i := range newConnChanges / 2 {
		c.stateChanged(enter(fmt.Sprintf("127.0.0.1:%d", i+2000)), http.StateActive)
	}
	if reader.closed {
		t.Error("a connection is closed before its headers can have come")
	}
	for conn := range c.conns {
		c.stateChanged(conn, http.StateClosed)
	}
	// This machine, and a proxy, may stand for many clients.
	for _, address := range []string{"127.0.0.1", "192.0.2.1"} {
		var own []*fakeConn
		for i := range maxPerClient + 1 {
			own = append(own, enter(fmt.Sprintf("%s:%d", address, i+1)))
		}
		if open(own) != len(own) {
			t.Errorf("%s: %d of %d are open", address, open(own), len(own))
		}
	}
}
