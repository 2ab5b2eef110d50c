package daemon

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestWhyANodeCannotStartIsSaidInOneLine(t *testing.T) {
	t.Parallel()
	network := laboratory("unlucky")
	running := Config{Dir: t.TempDir(), HTTP: "127.0.0.1:0", Listen: []string{"/ip4/127.0.0.1/tcp/0"}, Found: &network}
	d, err := Open(running)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}()
	snap, err := d.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	taken, _, _ := strings.Cut(snap.Listens[0], "/p2p/")
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		change func(*Config)
		want   string
		is     error
	}{
		{"the data directory is a file", func(c *Config) { c.Dir = file }, "data directory " + file + ": it is not a directory", syscall.ENOTDIR},
		{"the data directory is below a file", func(c *Config) { c.Dir = filepath.Join(file, "x") }, "file/x: it is not a directory", syscall.ENOTDIR},
		{"another node has the data directory", func(c *Config) { c.Dir = running.Dir }, "in use by another process, perhaps another node", nil},
		{"another node has the port of readers", func(c *Config) { c.HTTP = d.HTTPAddr().String() }, "another port with --http", syscall.EADDRINUSE},
		{"another node has the port of peers", func(c *Config) { c.Listen = []string{taken} }, "listen for other nodes at " + taken + ": the port is taken", syscall.EADDRINUSE},
		{"readers at an address of another machine", func(c *Config) { c.HTTP = "192.0.2.7:8190" }, "does not have the address: choose another one with --http", syscall.EADDRNOTAVAIL},
		{"peers at an address of another machine", func(c *Config) { c.Listen = []string{"/ip4/192.0.2.7/udp/4801/quic-v1"} }, "does not have the address: choose another one with --listen", syscall.EADDRNOTAVAIL},
		{"no multiaddr", func(c *Config) { c.Listen = []string{"0.0.0.0:4801"} }, "give one such as /ip4/", nil},
		{"no peer id", func(c *Config) { c.Bootstrap = []string{"/ip4/192.0.2.7/tcp/4801"} }, "no peer id at its end", nil},
		{"no address of a peer", func(c *Config) { c.Bootstrap = []string{"192.0.2.7:4801"} }, "not the address of a node", nil},
	} {
		config := running
		config.Dir, config.HTTP = t.TempDir(), noHTTP
		c.change(&config)
		other, err := Open(config)
		if err == nil {
			_ = other.Close() // it should not be there
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") || c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	// Without an address that the machine lacks, a node has the others.
	config := running
	config.Dir, config.HTTP, config.Listen = t.TempDir(), noHTTP, []string{"/ip4/192.0.2.7/tcp/4801", "/ip4/127.0.0.1/tcp/0"}
	other, err := Open(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Close(); err != nil {
		t.Error(err)
	}
}

func TestFaultsOfFilesNameTheFile(t *testing.T) {
	denied := &fs.PathError{Op: "open", Path: "/d/tidings.db", Err: syscall.EACCES}
	for _, c := range []struct {
		err  error
		want string
	}{
		{denied, "open /d/tidings.db: permission denied: run tidings as the owner of the data directory, or choose another one with --data"},
		{&fs.PathError{Op: "open", Path: "/d/x", Err: syscall.EROFS}, "open /d/x: the file system is read-only: choose another data directory with --data"},
		{errors.New("as it is"), "as it is"},
	} {
		if got := fileFault("/d", c.err); got.Error() != c.want || !errors.Is(got, c.err) {
			t.Errorf("%v", got)
		}
	}
	if got := listenFault("serve readers at :80", "--http", syscall.EACCES).Error(); !strings.Contains(got, "choose a higher port with --http") {
		t.Error(got)
	}
}
