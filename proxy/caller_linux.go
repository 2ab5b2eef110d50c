package proxy

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"io"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
)

// openedByUs looks up who opened a connection between two addresses of this machine: the system
// lists all connections with their users. Root may read the node's files anyway, so it counts as
// the node's user.
func openedByUs(client, server netip.AddrPort) bool {
	for _, name := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		table, err := os.Open(name)
		if err != nil {
			continue
		}
		uid, ok := userOf(table, client, server)
		_ = table.Close() // it was only read
		if ok {
			return uid == os.Getuid() || uid == 0
		}
	}
	return false
}

// established is the state of a connection that is open on both sides. In later states the list names
// root once the program has let go of its connection, whoever it was.
const established = "01"

// userOf finds the client's end of a connection in a list as proc_net_tcp(5) describes it.
func userOf(table io.Reader, client, server netip.AddrPort) (uid int, ok bool) {
	lines := bufio.NewScanner(table)
	lines.Scan() // names of columns
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		if len(f) < 10 || f[3] != established || f[9] == "0" || parsePort(f[1]) != client.Port() || !isAt(f[1], client) || !isAt(f[2], server) {
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
