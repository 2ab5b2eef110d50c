package checktest

import (
	"net"
	"testing"
)

// A process that needs more ports than a block has claims another block, and no port is given twice.
func TestPorts(t *testing.T) {
	given := map[string]bool{}
	for range blockSize {
		port := Port(t)
		if given[port] {
			t.Fatalf("port %s was given twice", port)
		}
		given[port] = true
	}
	if len(ports.claims) < 2 {
		t.Errorf("%d ports are from %d blocks", len(given), len(ports.claims))
	}
}

// A port at which a program listens is not given, over whichever protocol.
func TestTakenPorts(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:"+Port(t))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // nothing was sent
	c, err := net.ListenPacket("udp", "127.0.0.1:"+Port(t))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close() //nolint:errcheck // nothing was sent
	for _, a := range []net.Addr{l.Addr(), c.LocalAddr()} {
		if _, port, _ := net.SplitHostPort(a.String()); isFree(port) {
			t.Errorf("port %s of %s is said to be free", port, a.Network())
		}
	}
}
