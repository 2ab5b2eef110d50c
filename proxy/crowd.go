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
type crowd struct {
	net.Listener
	exempt func(remote string) bool // from maxPerClient

	mu    sync.Mutex
	turn  uint64
	conns map[net.Conn]*visit
}

// A visit is a connection that is open.
type visit struct {
	client string // "": of no client that has a bound
	state  http.ConnState
	since  uint64 // the turn in which it came to its state
}

func newCrowd(l net.Listener, exempt func(remote string) bool) *crowd {
	return &crowd{Listener: l, exempt: exempt, conns: map[net.Conn]*visit{}}
}

// Accept accepts a connection, and makes room for it.
func (c *crowd) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err != nil {
		return nil, err
	}
	client := clientOf(conn.RemoteAddr().String())
	if isFromHere(conn.RemoteAddr().String()) || c.exempt(conn.RemoteAddr().String()) {
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
		c.evict(func(v *visit) bool { return v.client == client })
	case len(c.conns) >= maxConns:
		c.evict(func(*visit) bool { return true })
	}
	c.turn++
	c.conns[conn] = &visit{client, http.StateNew, c.turn}
	return conn, nil
}

// fresh is how many later changes a connection may see before it should have sent its headers. Until then it
// is the last to give way.
const fresh = 64

// gives is the order in which connections give way: those whose headers have not come, those between two
// requests, those whose request is being answered or whose body has not come, and last those that have just come.
func (c *crowd) gives(v *visit) int {
	switch {
	case v.state == http.StateNew && c.turn-v.since >= fresh:
		return 0
	case v.state == http.StateIdle:
		return 1
	case v.state == http.StateActive:
		return 2
	}
	return 3
}

// evict closes the connection, among some, that has been longest in its state.
func (c *crowd) evict(among func(*visit) bool) {
	var out net.Conn
	var worst *visit
	for conn, v := range c.conns {
		if !among(v) {
			continue
		}
		if worst == nil || cmp.Or(cmp.Compare(c.gives(v), c.gives(worst)), cmp.Compare(v.since, worst.since)) < 0 {
			out, worst = conn, v
		}
	}
	delete(c.conns, out)
	_ = out.Close() // its server notices
}

// heard is what an http.Server calls when the state of a connection changes. A request is active
// when all of its headers have come.
func (c *crowd) heard(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := c.conns[conn]
	switch {
	case v == nil: // it was evicted
	case state == http.StateClosed || state == http.StateHijacked:
		delete(c.conns, conn)
	case state != v.state:
		c.turn++
		v.state, v.since = state, c.turn
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
