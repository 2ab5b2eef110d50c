//go:build !linux

package main

import "net"

// checkLocal cannot tell which user runs the program at the other end of a connection here.
func (t token) checkLocal(net.Conn) error { return nil }
