package proxy

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// acceptTime is how long AcceptedBy waits for the other program to accept a connection. Most programs take less
// than a millisecond.
const acceptTime = 2 * time.Second

// AcceptedBy looks up the user whose program has accepted a connection on this machine. ok is false if the program
// does not accept it within two seconds, or runs in another network namespace.
func AcceptedBy(conn net.Conn) (uid int, ok bool) {
	client, errClient := netip.ParseAddrPort(conn.LocalAddr().String())
	server, errServer := netip.ParseAddrPort(conn.RemoteAddr().String())
	if errClient != nil || errServer != nil {
		return 0, false
	}
	for until := time.Now().Add(acceptTime); ; time.Sleep(10 * time.Millisecond) {
		if uid, ok = userAt(server, client); ok || time.Now().After(until) {
			return uid, ok
		}
	}
}

// userAt looks up the user whose program has the local end of a connection. The system lists the ends of all
// connections on this machine with their users.
func userAt(local, remote netip.AddrPort) (uid int, ok bool) {
	conn := endpoints{local, remote}.canonical()
	if conn.local.Addr().Is4() {
		if uid, ok = connections4.userOf(conn); ok {
			return uid, true
		}
	}
	return connections6.userOf(conn) // also contains IPv4 connections of programs that listen for both IPv4 and IPv6
}

// endpoints holds the two addresses of a connection.
type endpoints struct{ local, remote netip.AddrPort }

// A connectionList reads one of the system's connection lists. Reading takes longer the more connections the
// machine has, so all callers that wait while the list is being read share the next reading.
type connectionList struct {
	file     string
	waiting  atomic.Int64
	readings atomic.Uint64 // number of readings that have begun

	mu    sync.Mutex
	users map[endpoints]int // the result of the last reading; nil if no caller waits
}

var connections4, connections6 = connectionList{file: "/proc/net/tcp"}, connectionList{file: "/proc/net/tcp6"}

func (l *connectionList) userOf(conn endpoints) (uid int, ok bool) {
	l.waiting.Add(1)
	before := l.readings.Load()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.readings.Load() == before { // no reading has begun since the call
		l.readings.Add(1)
		l.users = readUsers(l.file)
	}
	uid, ok = l.users[conn]
	if l.waiting.Add(-1) == 0 {
		l.users = nil
	}
	return uid, ok
}

func readUsers(file string) map[endpoints]int {
	users := map[endpoints]int{}
	table, err := os.Open(file)
	if err != nil {
		return users // the system does not provide the list
	}
	addUsers(users, table)
	_ = table.Close() // opened only for reading
	return users
}

// established is the state of a connection that is open on both sides. In later states the list names root after
// the program has closed the connection.
const established = "01"

// addUsers parses a list as described in proc_net_tcp(5). The end of a server that has not accepted the connection
// yet has inode 0 and no owner.
func addUsers(users map[endpoints]int, table io.Reader) {
	lines := bufio.NewScanner(table)
	lines.Scan() // column names
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		if len(f) < 10 || f[3] != established || f[9] == "0" {
			continue
		}
		near, okNear := parseEndpoint(f[1])
		far, okFar := parseEndpoint(f[2])
		if uid, err := strconv.Atoi(f[7]); err == nil && okNear && okFar {
			users[endpoints{near, far}] = uid
		}
	}
}

// canonical unmaps IPv4 addresses in IPv6 form, and removes zones, which the list does not contain.
func (e endpoints) canonical() endpoints {
	plain := func(a netip.AddrPort) netip.AddrPort {
		return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
	}
	return endpoints{plain(e.local), plain(e.remote)}
}

// parseEndpoint parses an address of the list, which consists of 32-bit words in the machine's byte order.
func parseEndpoint(text string) (netip.AddrPort, bool) {
	host, port, _ := strings.Cut(text, ":")
	b, err := hex.DecodeString(host)
	if err != nil || len(b)%4 != 0 {
		return netip.AddrPort{}, false
	}
	for word := range slices.Chunk(b, 4) {
		binary.NativeEndian.PutUint32(word, binary.BigEndian.Uint32(word))
	}
	ip, ok := netip.AddrFromSlice(b)
	n, err := strconv.ParseUint(port, 16, 16)
	return netip.AddrPortFrom(ip.Unmap(), uint16(n)), ok && err == nil
}
