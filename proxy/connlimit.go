package proxy

import (
	"cmp"
	"net"
	"net/http"
	"net/netip"
	"sync"
)

const (
	// maxConns bounds the connections of readers at a time. Beyond it a connection that waits
	// longest gives way to the new one, so that clients that hold connections and say nothing do
	// not keep others out.
	maxConns = 512
	// maxPerClient bounds those of one client on another machine. Browsers and readers open fewer
	// than ten. All clients on this machine have one address, and so have those behind a proxy:
	// they have no such bound.
	maxPerClient = 64
)

// A crowd is a listener that bounds the connections it has accepted. It never waits for a
// connection to end: at a bound it closes one.
type connLimiter struct {
	net.Listener
	exempt func(remote string) bool // from maxPerClient

	mu      sync.Mutex
	changes uint64
	conns   map[net.Conn]*trackedConn
}

// A visit is a connection that is open.
type trackedConn struct {
	client string // "": of no client that has a bound
	state  http.ConnState
	change uint64 // the turn in which it came to its state
}

func newConnLimiter(l net.Listener, exempt func(remote string) bool) *connLimiter {
	return &connLimiter{Listener: l, exempt: exempt, conns: map[net.Conn]*trackedConn{}}
}

// Accept accepts a connection, and makes room for it.
func (c *connLimiter) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err != nil {
		return nil, err
	}
	client := clientOf(conn.RemoteAddr().String())
	if isLoopback(conn.RemoteAddr().String()) || c.exempt(conn.RemoteAddr().String()) {
		client = ""
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	own := 0
	for _, v := range c.conns {
		if v.client == client {
			own++
		}
	}
	switch {
	case client != "" && own >= maxPerClient:
		c.evict(func(v *trackedConn) bool { return v.client == client })
	case len(c.conns) >= maxConns:
		c.evict(func(*trackedConn) bool { return true })
	}
	c.changes++
	c.conns[conn] = &trackedConn{client, http.StateNew, c.changes}
	return conn, nil
}

// fresh is how many later changes a connection may see before it should have sent its headers. Until then it
// is the last to give way.
const newConnChanges = 64

// gives is the order in which connections give way: those whose headers have not come, those between two
// requests, those whose request is being answered or whose body has not come, and last those that have just come.
func (c *connLimiter) evictionRank(v *trackedConn) int {
	switch {
	case v.state == http.StateNew && c.changes-v.change >= newConnChanges:
		return 0
	case v.state == http.StateIdle:
		return 1
	case v.state == http.StateActive:
		return 2
	}
	return 3
}

// evict closes the connection, among some, that has been longest in its state.
func (c *connLimiter) evict(among func(*trackedConn) bool) {
	var out net.Conn
	var worst *trackedConn
	for conn, v := range c.conns {
		if !among(v) {
			continue
		}
		if worst == nil || cmp.Or(cmp.Compare(c.evictionRank(v), c.evictionRank(worst)), cmp.Compare(v.change, worst.change)) < 0 {
			out, worst = conn, v
		}
	}
	delete(c.conns, out)
	_ = out.Close() // its server notices
}

// heard is what an http.Server calls when the state of a connection changes. A request is active
// when all of its headers have come.
func (c *connLimiter) stateChanged(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := c.conns[conn]
	switch {
	case v == nil: // it was evicted
	case state == http.StateClosed || state == http.StateHijacked:
		delete(c.conns, conn)
	case state != v.state:
		c.changes++
		v.state, v.change = state, c.changes
	}
}

// clientOf is the address of a client as far as it tells clients apart: a network of IPv6 gives each of
// its machines as many addresses as it likes.
func clientOf(remote string) string {
	at, err := netip.ParseAddrPort(remote)
	if err != nil {
		return remote
	}
	ip := at.Addr().Unmap().WithZone("")
	if ip.Is4() {
		return ip.String()
	}
	p, err := ip.Prefix(64)
	if err != nil {
		return remote
	}
	return p.String()
}
