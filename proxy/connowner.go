package proxy

import (
	"context"
	"net"
	"net/netip"
	"os"
	"sync"
)

// A connOwner tells who opened a connection.
type connOwner struct {
	isOurs func() bool // whether the node's own user opened the connection; looked up at most once
}

type connOwnerKey struct{}

// withConnOwner adds a connection's owner to a context. The lookup is done only when it is needed.
func withConnOwner(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connOwnerKey{}, connOwner{sync.OnceValue(func() bool {
		client, errClient := netip.ParseAddrPort(c.RemoteAddr().String())
		server, errServer := netip.ParseAddrPort(c.LocalAddr().String())
		return errClient == nil && errServer == nil && isOwnConnection(client, server)
	})})
}

// isOwnConnection reports whether the node's own user opened a connection. Root counts as the node's user, because
// root can read the node's files anyway.
func isOwnConnection(client, server netip.AddrPort) bool {
	uid, ok := userAt(client, server)
	return ok && (uid == os.Getuid() || uid == 0)
}

// isOwnRequest reports whether a program of the node's own user sent a request, if the system tells.
func isOwnRequest(ctx context.Context) bool {
	c, ok := ctx.Value(connOwnerKey{}).(connOwner)
	return ok && c.isOurs()
}
