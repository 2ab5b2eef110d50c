package proxy

import (
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
)

// Only the local end of an open connection between exactly these addresses counts.
func TestTheUserOfAConnection(t *testing.T) {
	const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1FFE 00000000:0000 0A 00000000:00000000 00:00000000 00000000   111        0 1 1 0 100 0 0 10 0
   1: 0100007F:1FFE 0100007F:D431 01 00000000:00000000 00:00000000 00000000   111        0 2 1 0 20 4 30 10 -1
   2: 0100007F:D431 0100007F:1FFE 01 00000000:00000000 00:00000000 00000000   222        0 3 1 0 20 4 30 10 -1
   3: 0100007F:D432 0100007F:1FFE 05 00000000:00000000 00:00000000 00000000     0        0 0 1 0 20 4 30 10 -1
   4: 0200007F:D433 0100007F:1FFE 01 00000000:00000000 00:00000000 00000000   333        0 4 1 0 20 4 30 10 -1
   5: 0000000000000000FFFF00000100007F:D434 0000000000000000FFFF00000100007F:1FFE 01 00000000:00000000 00:00000000 00000000   444        0 5 1 0 20 4 30 10 -1
   6: 00000000000000000000000001000000:D435 00000000000000000000000001000000:1FFE 01 00000000:00000000 00:00000000 00000000   555        0 6 1 0 20 4 30 10 -1
   7: 0100007F:1FFE 0100007F:D436 01 00000000:00000000 00:00000000 00000000     0        0 0 1 0 20 4 30 10 -1
   8: broken
`
	users := map[endpoints]int{}
	addUsers(users, strings.NewReader(table))
	for _, c := range []struct {
		near, far string
		uid       int
		ok        bool
	}{
		{"127.0.0.1:54321", "127.0.0.1:8190", 222, true},
		{"127.0.0.1:8190", "127.0.0.1:54321", 111, true},
		{"127.0.0.1:8190", "127.0.0.1:54326", 0, false}, // not accepted yet
		{"127.0.0.1:54322", "127.0.0.1:8190", 0, false}, // closing
		{"127.0.0.2:54323", "127.0.0.1:8190", 333, true},
		{"127.0.0.1:54323", "127.0.0.1:8190", 0, false},
		{"127.0.0.1:54324", "127.0.0.1:8190", 444, true},
		{"[::1]:54325", "[::1]:8190", 555, true},
		{"127.0.0.1:54321", "127.0.0.1:8191", 0, false},
	} {
		uid, ok := users[endpoints{netip.MustParseAddrPort(c.near), netip.MustParseAddrPort(c.far)}.canonical()]
		if uid != c.uid || ok != c.ok {
			t.Errorf("%s to %s: %d, %v", c.near, c.far, uid, ok)
		}
	}
}

// However many callers ask at the same time, each gets an answer that was read after its call.
func TestConcurrentOwnerLookups(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var asking sync.WaitGroup
	for range 100 {
		client, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		asking.Go(func() {
			server, client := client.RemoteAddr().(*net.TCPAddr).AddrPort(), client.LocalAddr().(*net.TCPAddr).AddrPort()
			if !isOwnConnection(client, server) {
				t.Errorf("the list does not have the connection from %s", client)
			}
		})
	}
	asking.Wait()
	if connections4.users != nil {
		t.Error("a list is kept that nobody asks for")
	}
}

func FuzzAddUsers(f *testing.F) {
	f.Add("h\n 2: 0100007F:D431 0100007F:1FFE 01 0:0 0:0 0 222 0 3 1\n")
	f.Fuzz(func(t *testing.T, table string) {
		addUsers(map[endpoints]int{}, strings.NewReader(table))
	})
}
