package fetch

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"
)

// callbackTime bounds one request to a callback: the connection, and the answer's header.
const callbackTime = 10 * time.Second

// Callbacks returns a client for requests to addresses that others name. It connects to public addresses on any port, and of
// the others only to those that allow accepts; never to a metadata service. It follows no redirect, uses no proxy, and keeps
// no connection. [IsRefused] recognises its refusals.
func Callbacks(allow func(netip.Addr) bool) *http.Client {
	g := newGuard(false, nil)
	dialer := net.Dialer{Timeout: callbackTime, Control: func(_, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		switch {
		case err != nil:
			return err
		case isMetadata(to.Addr()):
			return refusal{to, "is a link-local address, or one of a cloud's metadata service"}
		case !g.isPublic(to.Addr()) && !allow(to.Addr().Unmap().WithZone("")):
			return refusal{to, "is not a public address"}
		}
		return nil
	}}
	return &http.Client{
		Timeout:       2 * callbackTime,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext: dialer.DialContext, DisableKeepAlives: true, TLSHandshakeTimeout: callbackTime, ResponseHeaderTimeout: callbackTime,
		},
	}
}

// IsRefused reports whether a client of Callbacks did not connect because it may not.
func IsRefused(err error) bool {
	_, refused := errors.AsType[refusal](err)
	return refused
}
