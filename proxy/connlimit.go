package proxy

import (
	"cmp"
	"net"
	"net/http"
	"net/netip"
	"sync"
)

const (
	// maxConns bounds the connections of readers. At the bound a connection is closed for each new one, so that
	// clients that hold idle connections cannot keep others out.
	maxConns = 512
	// maxPerClient bounds the connections of one client on another machine. Browsers and feed readers open fewer
	// than ten. Clients on this machine share an address, and so do clients behind a proxy, so this bound does not
	// apply to them.
	maxPerClient = 64
)

// A connLimiter is a listener that bounds the connections it has accepted. It never waits for a connection to end:
// at a bound it closes one.
type connLimiter struct {
	net.Listener
	exempt func(remote string) bool // exempts connections from maxPerClient

	mu      sync.Mutex
	changes uint64
	conns   map[net.Conn]*trackedConn
}

// A trackedConn describes an open connection.
type trackedConn struct {
	client string // "" if maxPerClient does not apply
	state  http.ConnState
	change uint64 // value of changes when the connection entered its state
}

func newConnLimiter(l net.Listener, exempt func(remote string) bool) *connLimiter {
	return &connLimiter{Listener: l, exempt: exempt, conns: map[net.Conn]*trackedConn{}}
}

// Accept accepts a connection, and closes another one if necessary.
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
	ofClient := 0
	for _, tracked := range c.conns {
		if tracked.client == client {
			ofClient++
		}
	}
	switch {
	case client != "" && ofClient >= maxPerClient:
		c.evict(func(tracked *trackedConn) bool { return tracked.client == client })
	case len(c.conns) >= maxConns:
		c.evict(func(*trackedConn) bool { return true })
	}
	c.changes++
	c.conns[conn] = &trackedConn{client, http.StateNew, c.changes}
	return conn, nil
}

// newConnChanges is the number of state changes of any connections during which a new connection is the last to be
// closed. After that it should have sent its headers.
const newConnChanges = 64

// evictionRank returns the order in which connections are closed: first those whose headers have not arrived, then
// idle ones, then those with a request in progress, and last those that are new.
func (c *connLimiter) evictionRank(conn *trackedConn) int {
	switch {
	case conn.state == http.StateNew && c.changes-conn.change >= newConnChanges:
		return 0
	case conn.state == http.StateIdle:
		return 1
	case conn.state == http.StateActive:
		return 2
	}
	return 3
}

// evict closes the connection that has been in its state for longest, among those with the lowest rank.
func (c *connLimiter) evict(candidates func(*trackedConn) bool) {
	var victim net.Conn
	var worst *trackedConn
	for conn, tracked := range c.conns {
		if !candidates(tracked) {
			continue
		}
		if worst == nil || cmp.Or(cmp.Compare(c.evictionRank(tracked), c.evictionRank(worst)), cmp.Compare(tracked.change, worst.change)) < 0 {
			victim, worst = conn, tracked
		}
	}
	delete(c.conns, victim)
	_ = victim.Close() // its server notices
}

// stateChanged is called by http.Server when the state of a connection changes. A request is active when all of its
// headers have arrived.
func (c *connLimiter) stateChanged(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	tracked := c.conns[conn]
	switch {
	case tracked == nil: // the connection was evicted
	case state == http.StateClosed || state == http.StateHijacked:
		delete(c.conns, conn)
	case state != tracked.state:
		c.changes++
		tracked.state, tracked.change = state, c.changes
	}
}

// clientOf returns the part of an address that identifies a client. For IPv6 that is the /64 network, because each
// machine of a network can use any number of its addresses.
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
