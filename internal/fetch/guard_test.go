package fetch

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"tidings/internal/env"
)

func TestGuardKnowsPublicAddresses(t *testing.T) {
	own := netip.MustParseAddr("8.8.4.4")
	g := newGuard(false, func() []netip.Addr { return []netip.Addr{own} })
	for _, c := range []struct {
		addr   string
		public bool
	}{
		{"8.8.8.8", true}, {"1.1.1.1", true}, {"93.184.216.34", true}, {"223.255.255.254", true},
		{"::ffff:8.8.8.8", true}, {"2606:4700::1111", true}, {"2a00:1450::1", true}, {"64:ff9b::808:808", true},

		{"0.0.0.0", false}, {"0.1.2.3", false}, {"10.0.0.1", false}, {"100.64.0.1", false}, {"100.127.255.255", false},
		{"127.0.0.1", false}, {"127.255.255.255", false}, {"169.254.169.254", false}, {"172.16.0.1", false}, {"172.31.255.255", false},
		{"192.0.0.8", false}, {"192.0.2.1", false}, {"192.88.99.1", false}, {"192.168.0.1", false}, {"198.18.0.1", false},
		{"198.19.255.255", false}, {"198.51.100.1", false}, {"203.0.113.1", false}, {"224.0.0.1", false}, {"240.0.0.1", false},
		{"255.255.255.255", false}, {"168.63.129.16", false}, {"8.8.4.4", false},
		{"::", false}, {"::1", false}, {"::127.0.0.1", false}, {"::8.8.8.8", false}, {"::ffff:127.0.0.1", false},
		{"::ffff:168.63.129.16", false}, {"::ffff:8.8.4.4", false}, {"64:ff9b::7f00:1", false}, {"64:ff9b::a00:1", false},
		{"64:ff9b::a9fe:a9fe", false}, {"64:ff9b:1::808:808", false}, {"100::1", false}, {"2001::1", false}, {"2001:db8::1", false},
		{"2002:7f00:1::", false}, {"2002:808:808::", false}, {"3fff::1", false}, {"5f00::1", false}, {"fc00::1", false},
		{"fd00:ec2::254", false}, {"fe80::1", false}, {"fe80::1%eth0", false}, {"fec0::1", false}, {"ff02::1", false},
	} {
		if got := g.isPublic(netip.MustParseAddr(c.addr)); got != c.public {
			t.Errorf("%s: public %v", c.addr, got)
		}
	}
	interfaces, _ := net.InterfaceAddrs()
	for _, a := range interfaces {
		if ip := netip.MustParsePrefix(a.String()).Addr(); g.isPublic(ip) {
			t.Errorf("%s is this machine's", ip)
		}
	}
}

func TestGuardRestrictsPorts(t *testing.T) {
	for _, c := range []struct {
		addr                 string
		open, withAllPrivate bool
	}{
		{"8.8.8.8:80", true, true}, {"8.8.8.8:443", true, true}, {"[2606:4700::1111]:443", true, true},
		{"8.8.8.8:8080", false, false}, {"8.8.8.8:25", false, false}, {"8.8.8.8:0", false, false},
		{"127.0.0.1:80", false, true}, {"127.0.0.1:8080", false, true}, {"[fd00::1]:8080", false, true},
		{"169.254.169.254:80", false, false}, {"169.254.1.1:8080", false, false}, {"[::ffff:169.254.169.254]:80", false, false},
		{"[64:ff9b::a9fe:a9fe]:80", false, false}, {"[fe80::1%eth0]:8080", false, false}, {"[fe80::1]:80", false, false},
		{"168.63.129.16:80", false, false}, {"100.100.100.200:80", false, false}, {"100.64.0.1:80", false, true},
		{"[fd00:ec2::254]:80", false, false},
		{"a.example:80", false, false}, {"127.0.0.1", false, false}, {"", false, false},
	} {
		at, err := netip.ParseAddrPort(c.addr)
		anyPort := err == nil && (c.open || newGuard(false, nil).isPublic(at.Addr())) && !isMetadata(at.Addr())
		if err := DialControl(false, nil)("tcp", c.addr, nil); (err == nil) != anyPort {
			t.Errorf("%s, any port: %v", c.addr, err)
		}
		if err := DialControl(true, nil)("tcp", c.addr, nil); (err == nil) != (c.withAllPrivate || anyPort) {
			t.Errorf("%s, any port, private allowed: %v", c.addr, err)
		}
		for private, open := range map[bool]bool{false: c.open, true: c.withAllPrivate} {
			if err := newGuard(private, nil).control("tcp", c.addr, nil); (err == nil) != open {
				t.Errorf("%s, private allowed %v: %v", c.addr, private, err)
			}
		}
	}
}

// spellings are hosts that lead, or might lead, to a private address. With the port and resolver of the
// test below, those under "loop" reach a server on this machine if nothing stops them.
var spellings = map[string][]string{
	"loop": {
		"127.0.0.1", "127.1", "127.0.1", "127.000.000.001", "0177.0.0.1", "0177.0.0.01", "0x7f.0.0.1", "0x7f000001", "0X7F.1",
		"2130706433", "017700000001", "127.0.0.1.", "%31%32%37.0.0.1", "①②⑦.⓪.⓪.①", "１２７．０．０．１", "127。0。0。1",
		"0.0.0.0", "0", "0x0", "00.0", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:ffff:127.0.0.1]",
		"localhost", "LOCALHOST", "ⓛⓞⓒⓐⓛⓗⓞⓢⓣ", "loc\u00adalhost", "localhost.", "a.localhost", "localtest.example", "127.0.0.1.nip.example",
		"xn--bcher-kva.example", "both.example",
	},
	"rest": {
		"127.127.127.127", "[::1]", "[0:0:0:0:0:0:0:1]", "[0000::1]", "[::]", "[::127.0.0.1]", "[64:ff9b::127.0.0.1]", "[64:ff9b::7f00:1]",
		"[64:ff9b:1::7f00:1]", "[2002:7f00:1::]", "[2001:0:7f00:1::]", "[fe80::1]", "[fec0::1]", "[fc00::1]", "[fd00::1]", "[ff02::1]",
		"[100::1]", "[2001:db8::1]", "[5f00::1]", "10.0.0.1", "10.255.255.255", "172.16.0.1", "172.31.255.254", "192.168.0.1",
		"169.254.169.254", "0xa9fea9fe", "2852039166", "0251.0376.0251.0376", "[::ffff:a9fe:a9fe]", "[fd00:ec2::254]",
		"168.63.129.16", "[::ffff:168.63.129.16]", "2822734096", "100.64.0.1", "100.100.100.200", "198.18.0.1", "192.0.0.170",
		"192.88.99.1", "192.0.2.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255",
		"metadata.internal", "six.example", "mapped.example",
	},
}

// fakeNames answers all DNS questions: with public and private addresses for some names, with this
// machine for the others, and differently each time for flip.
func fakeNames(t *testing.T) {
	var asked atomic.Int32
	serve := func(conn net.Conn) {
		defer conn.Close()
		for {
			var length [2]byte
			if _, err := io.ReadFull(conn, length[:]); err != nil {
				return
			}
			query := make([]byte, binary.BigEndian.Uint16(length[:]))
			if _, err := io.ReadFull(conn, query); err != nil {
				return
			}
			var m dnsmessage.Message
			if err := m.Unpack(query); err != nil || len(m.Questions) != 1 {
				t.Errorf("a name server was asked %q: %v", query, err)
				return
			}
			m.Response, m.RecursionAvailable, m.Additionals = true, true, nil
			q := m.Questions[0]
			addrs := []string{"127.0.0.1"}
			switch name := strings.TrimSuffix(q.Name.String(), "."); {
			case strings.HasPrefix(name, "nowhere.example"):
				m.RCode = dnsmessage.RCodeNameError
			case strings.HasPrefix(name, "broken.example"):
				m.RCode = dnsmessage.RCodeServerFailure
			case name == "metadata.internal":
				addrs = []string{"169.254.169.254"}
			case name == "dual.example":
				addrs = []string{"2001:db8::1", "127.0.0.1"}
			case name == "six.example":
				addrs = []string{"::1"}
			case name == "mapped.example":
				addrs = []string{"::ffff:10.0.0.1"}
			case name == "both.example":
				addrs = []string{"8.8.8.8", "127.0.0.1"}
			case name == "flip.example" && q.Type == dnsmessage.TypeA && asked.Add(1)%2 == 1:
				addrs = []string{"8.8.8.8"}
			}
			for _, s := range addrs {
				a := netip.MustParseAddr(s)
				h := dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 1}
				switch {
				case m.RCode != 0:
				case a.Is4() && q.Type == dnsmessage.TypeA:
					m.Answers = append(m.Answers, dnsmessage.Resource{Header: h, Body: &dnsmessage.AResource{A: a.As4()}})
				case a.Is6() && q.Type == dnsmessage.TypeAAAA:
					m.Answers = append(m.Answers, dnsmessage.Resource{Header: h, Body: &dnsmessage.AAAAResource{AAAA: a.As16()}})
				}
			}
			reply, err := m.AppendPack(make([]byte, 2))
			if err != nil {
				t.Error(err)
			}
			binary.BigEndian.PutUint16(reply, uint16(len(reply)-2))
			if _, err := conn.Write(reply); err != nil {
				return
			}
		}
	}
	old := net.DefaultResolver
	t.Cleanup(func() { net.DefaultResolver = old })
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		here, there := net.Pipe()
		go serve(there) // until the listener is closed
		return here, nil
	}}
}

// canary is a server that counts connections.
func canary(t *testing.T) (port string, connections *atomic.Int32) {
	connections = &atomic.Int32{}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	return strconv.Itoa(s.Listener.Addr().(*net.TCPAddr).Port), connections
}

// openReal runs a client that finds redirector.example in memory, and whose other connections are real.
func openReal(t *testing.T, c Config) *testClient {
	c.Spacing, c.HostWaiting = -1, 1000
	c.Own = func() []netip.Addr { return nil }
	outside := New(c, nil)
	b := web{"redirector.example:80": func(w http.ResponseWriter, r *http.Request) {
		status, to, _ := strings.Cut(r.URL.RawQuery, "/")
		code, err := strconv.Atoi(status)
		if err != nil {
			code = http.StatusNotFound // a robots.txt
		}
		w.Header().Set("Location", "http://"+to)
		w.WriteHeader(code)
	}}.open(t, c)
	for _, pair := range [][2]*http.Transport{{b.public, outside.public}, {b.any, outside.any}} {
		inMemory, outside := b.public.DialContext, pair[1].DialContext
		pair[0].DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if addr == "redirector.example:80" {
				return inMemory(ctx, network, addr)
			}
			return outside(ctx, network, addr)
		}
		if b.public == b.any {
			break
		}
	}
	t.Cleanup(b.close)
	return b
}

func TestPrivateAddressesAreNotDialled(t *testing.T) {
	fakeNames(t)
	port, connections := canary(t)
	b := openReal(t, Config{})
	n := 0
	for _, hosts := range spellings {
		for _, host := range hosts {
			n++
			for _, url := range []string{
				"http://" + host + ":" + port + "/",
				"https://" + host + ":" + port + "/",
				"http://" + host + "/",
				"http://redirector.example/?301/" + host + ":" + port + "/",
				"http://redirector.example/?302/" + host + ":" + port + "/",
				"http://redirector.example/?303/" + host + ":" + port + "/",
				"http://redirector.example/?307/" + host + ":" + port + "/",
				"http://redirector.example/?308/" + host + ":" + port + "/",
			} {
				if host == "both.example" && !strings.Contains(url, port) {
					continue // its public address would really be dialled
				}
				if a := b.get(env.Request{URL: url}); a.Err != env.ErrRefused && !strings.Contains(host, ":") {
					t.Errorf("%s: %q %q", url, a.Err, a.Message)
				} else if a.Err != env.ErrRefused && a.Err != env.ErrDial { // the machine may have no IPv6
					t.Errorf("%s: %q %q", url, a.Err, a.Message)
				}
			}
		}
	}
	if got := connections.Load(); got != 0 || n < 60 {
		t.Errorf("%d spellings led to %d connections", n, got)
	}
}

// Only the guard stands between the spellings and this machine.
func TestSpellingsLeadToThisMachine(t *testing.T) {
	fakeNames(t)
	port, connections := canary(t)
	b := openReal(t, Config{AllowPrivate: true})
	for i, host := range spellings["loop"] {
		a := b.get(env.Request{URL: "http://" + host + ":" + port + "/"})
		if a.Status != 200 || !a.Private {
			t.Errorf("%s: %+v", host, a)
		}
		b.any.CloseIdleConnections()
		if got := connections.Load(); got != int32(i+1) {
			t.Fatalf("%s: %d connections", host, got)
		}
	}
}

// A refusal names the address of a host, unless the host is that address.
func TestRefusalsNameAnAddressOnce(t *testing.T) {
	fakeNames(t)
	b := openReal(t, Config{})
	for url, want := range map[string]string{
		"http://127.0.0.1:8000/":        "127.0.0.1:8000 may not be polled: it is not a public address",
		"http://127.0.0.1/":             "127.0.0.1 may not be polled: it is not a public address",
		"https://[::1]/":                "[::1] may not be polled: it is not a public address",
		"http://localtest.example:123/": "localtest.example:123 may not be polled: 127.0.0.1:123 is not a public address",
		"http://metadata.internal/":     "metadata.internal may not be polled: 169.254.169.254:80 is a link-local address, or one of a cloud's metadata service",
	} {
		if a := b.get(env.Request{URL: url}); a.Message != want && a.Err != env.ErrDial { // the machine may have no IPv6
			t.Errorf("%s: %q, want %q", url, a.Message, want)
		}
	}
}

func TestNamesThatFlipAreCaughtWhenDialled(t *testing.T) {
	fakeNames(t)
	port, connections := canary(t)
	b := openReal(t, Config{})
	var said []string
	for range 4 {
		a := b.get(env.Request{URL: "http://flip.example:" + port + "/"})
		if a.Err != env.ErrRefused {
			t.Errorf("%+v", a)
		}
		said = append(said, a.Message)
	}
	all := strings.Join(said, "\n")
	if !strings.Contains(all, "8.8.8.8:"+port+" has another port") || !strings.Contains(all, "127.0.0.1:"+port+" is not a public") {
		t.Errorf("both addresses should have been refused:\n%s", all)
	}
	if got := connections.Load(); got != 0 {
		t.Errorf("%d connections", got)
	}
}

func TestPublicOriginsCannotRedirectToPrivateOnes(t *testing.T) {
	fakeNames(t)
	port, connections := canary(t)
	b := openReal(t, Config{AllowPrivate: true})
	home := "127.0.0.1:" + port + "/"
	if a := b.get(env.Request{URL: "http://" + home}); a.Status != 200 || !a.Private { // and a connection stays open
		t.Errorf("%+v", a)
	}
	before := connections.Load()
	if a := b.get(env.Request{URL: "http://redirector.example/?302/" + home}); a.Err != env.ErrRefused {
		t.Errorf("%+v", a)
	}
	if got := connections.Load() - before; got != 0 {
		t.Errorf("%d connections", got)
	}
}

// A request that is for public addresses alone asks no other, nor for its robots.txt, whatever the node allows. That is
// no reason to refuse the same page to a reader of the node.
func TestRequestsForPublicAddressesAskNoOthers(t *testing.T) {
	fakeNames(t)
	port, connections := canary(t)
	b := openReal(t, Config{AllowPrivate: true})
	page := "127.0.0.1:" + port + "/page"
	for _, url := range []string{"http://" + page, "http://localtest.example:" + port + "/", "http://redirector.example/?302/" + page} {
		for _, robots := range []bool{false, true} {
			if a := b.get(env.Request{URL: url, Public: true, Robots: robots}); a.Err != env.ErrRefused {
				t.Errorf("%s, robots.txt %v: %+v", url, robots, a)
			}
		}
	}
	if got := connections.Load(); got != 0 {
		t.Errorf("%d connections", got)
	}
	if a := b.get(env.Request{URL: "http://" + page, Robots: true}); a.Status != 200 || connections.Load() == 0 {
		t.Errorf("a reader's own: %+v, %d connections", a, connections.Load())
	}
}

func TestPrivateOriginsMayRedirectAmongThemselves(t *testing.T) {
	port, _ := canary(t)
	b := openReal(t, Config{AllowPrivate: true})
	s := httptest.NewServer(http.RedirectHandler("http://127.0.0.1:"+port+"/new", http.StatusFound))
	defer s.Close()
	if a := b.get(env.Request{URL: s.URL}); a.Status != 200 || !a.Private || a.FinalURL != "http://127.0.0.1:"+port+"/new" {
		t.Errorf("%+v", a)
	}
}

// The first answers of a private origin show that it needs no pause.
func TestPrivateOriginsNeedNoPause(t *testing.T) {
	port, _ := canary(t)
	answers := make(chan env.Answer, 50)
	c := New(Config{AllowPrivate: true, Spacing: 1000 * 1000 * 1000 * 1000}, func(_ env.Handle, a env.Answer) { answers <- a })
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- c.Run(ctx) }()
	for i := range cap(answers) {
		c.Fetch(1, env.Request{URL: fmt.Sprintf("http://127.0.0.1:%s/%d", port, i)})
	}
	for range cap(answers) {
		if a := <-answers; a.Status != 200 || !a.Private {
			t.Errorf("%+v", a)
		}
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestMetadataAddressesAreKnownInEverySpelling embeds the addresses in IPv6 in all ways, and writes
// each in full and in short.
func TestMetadataAddressesAreKnownInEverySpelling(t *testing.T) {
	for v4, secret := range map[string]bool{"169.254.169.254": true, "168.63.129.16": true, "100.100.100.200": true, "192.168.1.7": false, "8.8.8.8": false} {
		b := netip.MustParseAddr(v4).As4()
		x := func(format string) string {
			return fmt.Sprintf(format, uint16(b[0])<<8|uint16(b[1]), uint16(b[2])<<8|uint16(b[3]))
		}
		for name, spelled := range map[string]string{
			"plain": v4, "mapped": "::ffff:" + v4, "mapped, in digits": x("0:0:0:0:0:ffff:%x:%x"),
			"compatible": "::" + v4, "compatible, in digits": x("0000:0000:0000:0000:0000:0000:%04x:%04x"),
			"translated": "::ffff:0:" + v4, "translated, in digits": x("0:0:0:0:ffff:0:%X:%X"),
			"NAT64": "64:ff9b::" + v4, "NAT64 in digits": x("0064:ff9b:0:0:0:0:%04X:%04X"),
			"own NAT64": "64:ff9b:1::" + v4, "own NAT64, other bits": x("64:ff9b:1:abcd:0:1:%x:%x"),
			"own NAT64 /48": fmt.Sprintf("64:ff9b:1:%02x%02x:%02x:%02x00::", b[0], b[1], b[2], b[3]),
			"own NAT64 /56": fmt.Sprintf("64:ff9b:1:aa%02x:%02x:%02x%02x::", b[0], b[1], b[2], b[3]),
			"own NAT64 /64": fmt.Sprintf("64:ff9b:1:aaaa:%02x:%02x%02x:%02x00:0", b[0], b[1], b[2], b[3]),
			"6to4":          x("2002:%x:%x::"), "6to4 of a host": x("2002:%04X:%04X:1::5efe"),
			"Teredo": fmt.Sprintf("2001::1:%02x%02x:%02x%02x", b[0]^0xff, b[1]^0xff, b[2]^0xff, b[3]^0xff),
		} {
			ip := netip.MustParseAddr(spelled)
			if got := isMetadata(ip); got != secret {
				t.Errorf("%s, %s (%s): secret %v", v4, name, spelled, got)
			}
			to := netip.AddrPortFrom(ip, 80).String()
			if err := newGuard(true, nil).control("tcp", to, nil); secret && err == nil {
				t.Errorf("%s (%s) is dialled", to, name)
			}
			if public := newGuard(false, nil).isPublic(ip); public && v4 != "8.8.8.8" {
				t.Errorf("%s (%s) is public", to, name)
			}
		}
	}
}

func TestIsPublicResolvesNames(t *testing.T) {
	c := New(Config{Spacing: -1, AllowPrivate: true}, func(env.Handle, env.Answer) {})
	for address, public := range map[string]bool{
		"https://8.8.8.8/feed": true, "https://[2606:4700::1111]/feed": true,
		"http://192.168.1.1/feed": false, "http://localhost/feed": false, "http://127.0.0.1:8080/feed": false, "http://[::1]/feed": false,
		"http://169.254.169.254/": false, "http://[fe80::1]/": false, "http://[::ffff:10.0.0.1]/": false, "http://[2002:a00:1::]/": false,
		"http://nowhere.invalid/": false, "http://": false, "": false, "::": false,
	} {
		if got := c.IsPublic(t.Context(), address); got != public {
			t.Errorf("%q: %v", address, got)
		}
	}
}
