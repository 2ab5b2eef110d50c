package checktest

import (
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"testing"
)

const (
	// Ports are given from firstPort on, in blocks. They end below what systems give to connections: 32768 and up on Linux, 49152
	// elsewhere. A port that the system chose could be given to a connection of another test in the meantime.
	firstPort, blocks, blockSize = 12_000, 200, 100
)

// ports are the ports that this process may give. It has the block that they are from for itself, because it listens at the
// block's first port until it ends.
var ports struct {
	sync.Mutex
	next, end int
	claims    []net.Listener // kept, because a listener that nobody refers to is closed
}

// Port returns a port of this machine that nobody listens at, over TCP or UDP. Neither the system nor another test gets it, also
// not one of a package that is tested at the same time: a node can return to it after a restart.
func Port(t testing.TB) string {
	t.Helper()
	ports.Lock()
	defer ports.Unlock()
	for range blocks * blockSize {
		if ports.next == ports.end {
			claimBlock(t)
		}
		port := strconv.Itoa(ports.next)
		ports.next++
		if isFree(port) {
			return port
		}
	}
	t.Fatal("all ports are taken")
	return ""
}

func claimBlock(t testing.TB) {
	t.Helper()
	from := rand.IntN(blocks) // processes that begin with the same block would fail more often
	for i := range blocks {
		first := firstPort + (from+i)%blocks*blockSize
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(first)))
		if err == nil {
			ports.claims = append(ports.claims, l)
			ports.next, ports.end = first+1, first+blockSize
			return
		}
	}
	t.Fatal("other programs have all blocks of ports")
}

// isFree tells whether nobody listens at a port.
func isFree(port string) bool {
	address := net.JoinHostPort("127.0.0.1", port)
	l, err := net.Listen("tcp", address)
	if err != nil {
		return false
	}
	defer l.Close() //nolint:errcheck // it was only looked for
	c, err := net.ListenPacket("udp", address)
	if err != nil {
		return false
	}
	defer c.Close() //nolint:errcheck // as above
	return true
}
