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
	"time"
)

// acceptWithin is how long AcceptedBy waits for the other program to accept a connection. Most
// programs take less than a millisecond.
const acceptWithin = 2 * time.Second

// AcceptedBy looks up the user whose program has accepted a connection to this machine. ok is false
// if the program does not accept it within two seconds, or runs in another network namespace.
func AcceptedBy(conn net.Conn) (uid int, ok bool) {
	client, errClient := netip.ParseAddrPort(conn.LocalAddr().String())
	server, errServer := netip.ParseAddrPort(conn.RemoteAddr().String())
	if errClient != nil || errServer != nil {
		return 0, false
	}
	for until := time.Now().Add(acceptWithin); ; time.Sleep(10 * time.Millisecond) {
		if uid, ok = userAt(server, client); ok || time.Now().After(until) {
			return uid, ok
		}
	}
}

// userAt looks up the user whose program has the near end of a connection: the system lists the ends of
// all connections on this machine with their users.
func userAt(near, far netip.AddrPort) (uid int, ok bool) {
	for _, name := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		table, err := os.Open(name)
		if err != nil {
			continue
		}
		uid, ok := userOf(table, near, far)
		_ = table.Close() // it was only read
		if ok {
			return uid, true
		}
	}
	return 0, false
}

// established is the state of a connection that is open on both sides. In later states the list names
// root once the program has let go of its connection, whoever it was.
const established = "01"

// userOf finds the near end of a connection in a list as proc_net_tcp(5) describes it. The end of a
// server that has not accepted the connection yet has the inode 0, and belongs to nobody.
func userOf(table io.Reader, near, far netip.AddrPort) (uid int, ok bool) {
	lines := bufio.NewScanner(table)
	lines.Scan() // names of columns
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		if len(f) < 10 || f[3] != established || f[9] == "0" || parsePort(f[1]) != near.Port() || !isAt(f[1], near) || !isAt(f[2], far) {
			continue
		}
		uid, err := strconv.Atoi(f[7])
		return uid, err == nil
	}
	return 0, false
}

func parsePort(text string) uint16 {
	_, port, _ := strings.Cut(text, ":")
	n, err := strconv.ParseUint(port, 16, 16)
	if err != nil {
		return 0
	}
	return uint16(n)
}

// isAt reports whether an address as the list writes it, in words of 32 bits in the machine's order, is another.
func isAt(text string, at netip.AddrPort) bool {
	host, _, _ := strings.Cut(text, ":")
	b, err := hex.DecodeString(host)
	if err != nil || len(b)%4 != 0 {
		return false
	}
	for word := range slices.Chunk(b, 4) {
		binary.NativeEndian.PutUint32(word, binary.BigEndian.Uint32(word))
	}
	ip, ok := netip.AddrFromSlice(b)
	return ok && ip.Unmap() == at.Addr().Unmap().WithZone("") && parsePort(text) == at.Port()
}
