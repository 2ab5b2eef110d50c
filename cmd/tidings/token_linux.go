package main

import (
	"fmt"
	"net"
	"os"
	"syscall"

	"tidings/proxy"
)

const advice = "run the command with sudo or as the user who runs the node, or name the node's data directory with --data"

// checkLocal refuses to send the token to a program on this machine, unless the program runs as this user, as root,
// or as the owner of the token's file, which is the user of a node that runs as a system service. If the system
// does not tell, as for a node in a container, the token is sent only if the user named its data directory.
func (t token) checkLocal(conn net.Conn) error {
	uid, ok := proxy.AcceptedBy(conn)
	switch {
	case !ok && t.named, ok && (uid == os.Getuid() || uid == 0):
		return nil
	case !ok:
		return untrusted("the system does not tell which user runs that program: " + advice)
	}
	if info, err := os.Stat(t.file); err == nil && t.named {
		if s, ok := info.Sys().(*syscall.Stat_t); ok && int(s.Uid) == uid {
			return nil
		}
	}
	return untrusted(fmt.Sprintf("another user (uid %d) runs that program: %s", uid, advice))
}
