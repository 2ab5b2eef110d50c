package proxy

import (
	"context"
	"net"
	"net/netip"
	"os"
	"sync"
)

// A caller is the program at the other end of a connection.
type connOwner struct {
	isOurs func() bool // whether the node's own user opened the connection; asked of the system once
}

type connOwnerKey struct{}

// withCaller remembers who opened a connection, to be asked when it matters.
func withConnOwner(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connOwnerKey{}, connOwner{sync.OnceValue(func() bool {
		client, errClient := netip.ParseAddrPort(c.RemoteAddr().String())
		server, errServer := netip.ParseAddrPort(c.LocalAddr().String())
		return errClient == nil && errServer == nil && isOwnConnection(client, server)
	})})
}

// openedByUs reports whether the node's own user opened a connection. Root may read the node's
// files anyway, so it counts as the node's user.
func isOwnConnection(client, server netip.AddrPort) bool {
	uid, ok := userAt(client, server)
	return ok && (uid == os.Getuid() || uid == 0)
}

// isOurs reports whether a program of the node's own user sent a request, where the system tells.
func isOwnRequest(ctx context.Context) bool {
	c, ok := ctx.Value(connOwnerKey{}).(connOwner)
	return ok && c.isOurs()
}
