package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A netns is a network namespace that stands for a separate machine, connected to a lan by a virtual cable. It ends
// with the test process.
type netns struct {
	t    *testing.T
	file *os.File
	name string // name of the lan's end of the cable
}

// A lan is a bridge in the test's own network (inOwnNetwork). The test has the address lanHost.
type lan struct {
	t   *testing.T
	all []*netns
}

const (
	lanHost = "10.77.0.1"
	lanMask = "/24"
)

func newLAN(t *testing.T) *lan {
	t.Helper()
	for _, args := range []string{"link add lan0 type bridge", "addr add " + lanHost + lanMask + " dev lan0", "link set lan0 up"} {
		ip(t, args)
	}
	return &lan{t: t}
}

// ip runs the program ip in the namespace of the calling thread.
func ip(t *testing.T, args string) {
	t.Helper()
	if out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput(); err != nil {
		t.Fatalf("ip %s: %v: %s", args, err, out)
	}
}

// machine adds a machine with an address.
func (l *lan) machine(address string) *netns {
	l.t.Helper()
	n := &netns{t: l.t, name: fmt.Sprintf("cable%d", len(l.all))}
	l.all = append(l.all, n)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	home, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		l.t.Fatal(err)
	}
	defer home.Close()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		l.t.Fatal(err)
	}
	n.file, err = os.Open("/proc/thread-self/ns/net")
	if e := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); e != nil || err != nil {
		l.t.Fatal(e, err)
	}
	ip(l.t, fmt.Sprintf("link add %s type veth peer name eth0 netns /proc/%d/fd/%d", n.name, os.Getpid(), n.file.Fd()))
	ip(l.t, "link set "+n.name+" master lan0 up")
	n.ip("link set lo up")
	n.ip("addr add " + address + lanMask + " dev eth0")
	n.ip("link set eth0 up")
	return n
}

// in calls do on a thread that is in the namespace.
func (n *netns) in(do func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	home, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return err
	}
	defer home.Close()
	if err := unix.Setns(int(n.file.Fd()), unix.CLONE_NEWNET); err != nil {
		return err
	}
	err = do()
	if e := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); e != nil {
		panic(e) // the thread cannot be used any more
	}
	return err
}

// ip runs the program ip in the namespace.
func (n *netns) ip(args string) {
	n.t.Helper()
	err := n.in(func() error {
		ip(n.t, args)
		return nil
	})
	if err != nil {
		n.t.Fatal(err)
	}
}

// client returns an HTTP client on the machine.
func (n *netns) client() *http.Client {
	dial := func(ctx context.Context, network, address string) (c net.Conn, err error) {
		err = n.in(func() (e error) {
			c, e = new(net.Dialer).DialContext(ctx, network, address)
			return e
		})
		return c, err
	}
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: dial}, Timeout: timeout}
}

// launchAt starts a node on a machine. It can be reached only there.
func launchAt(n *netns, dir, listen string, flags ...string) *nodeProcess {
	n.t.Helper()
	self, err := os.Executable()
	if err != nil {
		n.t.Fatal(err)
	}
	r := &nodeProcess{t: n.t, dir: dir, flags: append([]string{"--allow-private-origins"}, flags...), machine: n}
	r.start(self, "127.0.0.1:8190", listen)
	return r
}
