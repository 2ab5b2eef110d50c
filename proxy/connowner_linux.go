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

// acceptWithin is how long AcceptedBy waits for the other program to accept a connection. Most
// programs take less than a millisecond.
const acceptTime = 2 * time.Second

// AcceptedBy looks up the user whose program has accepted a connection to this machine. ok is false
// if the program does not accept it within two seconds, or runs in another network namespace.
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

// userAt looks up the user whose program has the near end of a connection: the system lists the ends of
// all connections on this machine with their users.
func userAt(near, far netip.AddrPort) (uid int, ok bool) {
	of := endpoints{near, far}.canonical()
	if of.local.Addr().Is4() {
		if uid, ok = connections4.userOf(of); ok {
			return uid, true
		}
	}
	return connections6.userOf(of) // which has those of IPv4 whose program listens at addresses of both kinds
}

// ends are the two addresses of a connection.
type endpoints struct{ local, remote netip.AddrPort }

// A connectionList reads a list of the system's. To read it takes the longer the more connections the machine
// has, so those who ask while it is being read share the next reading, however many they are.
type connectionList struct {
	file     string
	waiting  atomic.Int64
	readings atomic.Uint64 // readings

	mu    sync.Mutex
	users map[endpoints]int // in the last reading; nil if nobody asks
}

var connections4, connections6 = connectionList{file: "/proc/net/tcp"}, connectionList{file: "/proc/net/tcp6"}

func (l *connectionList) userOf(of endpoints) (uid int, ok bool) {
	l.waiting.Add(1)
	before := l.readings.Load()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.readings.Load() == before { // no reading has begun since
		l.readings.Add(1)
		l.users = readUsers(l.file)
	}
	uid, ok = l.users[of]
	if l.waiting.Add(-1) == 0 {
		l.users = nil
	}
	return uid, ok
}

func readUsers(file string) map[endpoints]int {
	users := map[endpoints]int{}
	table, err := os.Open(file)
	if err != nil {
		return users // the system does not tell
	}
	addUsers(users, table)
	_ = table.Close() // it was only read
	return users
}

// established is the state of a connection that is open on both sides. In later states the list names
// root once the program has let go of its connection, whoever it was.
const established = "01"

// addUsers reads a list as proc_net_tcp(5) describes it. The end of a server that has not accepted the
// connection yet has the inode 0, and belongs to nobody.
func addUsers(users map[endpoints]int, table io.Reader) {
	lines := bufio.NewScanner(table)
	lines.Scan() // names of columns
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

// canonical writes IPv4 addresses alike, which the list has in IPv6, too, and leaves out zones, which it
// does not have.
func (e endpoints) canonical() endpoints {
	plain := func(a netip.AddrPort) netip.AddrPort {
		return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
	}
	return endpoints{plain(e.local), plain(e.remote)}
}

// parseEnd reads an address as the list writes it, in words of 32 bits in the machine's order.
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
