package daemon

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"tidings/feedtree"
	"tidings/internal/env"
	"tidings/internal/node"
	"tidings/internal/store"
	"tidings/internal/wire"
)

func TestDataDirectoryThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	network := laboratory("home")
	found := func(dir string) Config { return Config{Dir: dir, HTTP: noHTTP, Listen: anyPort, Found: &network} }
	for _, c := range []struct {
		name  string
		spoil func(t *testing.T, dir string) Config
		want  string
	}{
		{"no directory", func(*testing.T, string) Config { return found("") }, "daemon: Dir is empty"},
		{"no network", func(_ *testing.T, dir string) Config {
			return Config{Dir: filepath.Join(dir, "new"), HTTP: noHTTP, Listen: anyPort}
		}, "belongs to no network yet"},
		{"impossible network", func(_ *testing.T, dir string) Config {
			return Config{Dir: dir, HTTP: noHTTP, Listen: anyPort, Found: &wire.Network{Name: "two words"}}
		}, "leave out spaces"},
		{"founder that cannot be dialled", func(_ *testing.T, dir string) Config {
			c := found(dir)
			c.RefuseInbound = true
			return c
		}, "has to accept connections"},
		{"two names", func(_ *testing.T, dir string) Config {
			c := found(dir)
			c.Network = "elsewhere"
			return c
		}, "do one of them"},
		{"other network", func(_ *testing.T, dir string) Config {
			return Config{Dir: dir, HTTP: noHTTP, Listen: anyPort, Network: "elsewhere"}
		}, `belongs to network "home", not "elsewhere"`},
		{"other parameters", func(_ *testing.T, dir string) Config {
			other := network
			other.Owners = 3
			return Config{Dir: dir, HTTP: noHTTP, Listen: anyPort, Found: &other}
		}, `whose settings never change, and the flags differ: owners (flags: 3, network: `},
		{"another file of the authority", func(_ *testing.T, dir string) Config {
			other := network
			other.Witnesses = 2
			return Config{Dir: dir, HTTP: noHTTP, Listen: anyPort, Found: &other, Authority: damagedAuthority{}}
		}, "the file network in the directory of --authority differs: witnesses (file: 2, network: 3); restore the file from a backup"},
		{"another parameter was given", func(_ *testing.T, dir string) Config {
			other := network
			other.Owners, other.Load = 3, 2
			return Config{Dir: dir, HTTP: noHTTP, Listen: anyPort, Found: &other, SettingSources: map[string]string{"owners": "the flag --owners"}}
		}, `whose settings never change: owners is 3 (the flag --owners) and 5 in the network; leave them out`},
		{"key is a text", func(t *testing.T, dir string) Config {
			write(t, filepath.Join(dir, identityFile), "secret", 0o600)
			return found(dir)
		}, "is damaged (no private key in PEM)"},
		{"key is cut off", func(t *testing.T, dir string) Config {
			write(t, filepath.Join(dir, identityFile), "-----BEGIN PRIVATE KEY-----\nMC4C\n-----END PRIVATE KEY-----\n", 0o600)
			return found(dir)
		}, "is damaged (asn1"},
		{"key is a folder", func(t *testing.T, dir string) Config {
			path := filepath.Join(dir, identityFile)
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
			return found(dir)
		}, "identity.key"},
		{"key of another kind", func(t *testing.T, dir string) Config {
			// X25519, all zeros except the header.
			write(t, filepath.Join(dir, identityFile), "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VuBCIEIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\n-----END PRIVATE KEY-----\n", 0o600)
			return found(dir)
		}, "is damaged (a key of type"},
		{"network is a text", func(t *testing.T, dir string) Config {
			write(t, filepath.Join(dir, networkFile), "home", 0o600)
			return found(dir)
		}, "remove it and join again"},
		{"network of a node with subscriptions is missing", func(t *testing.T, dir string) Config {
			if err := os.Remove(filepath.Join(dir, networkFile)); err != nil {
				t.Fatal(err)
			}
			disk, err := store.Open(filepath.Join(dir, storeFile), func(f func()) { f() }, store.SecondCopy{Prefix: []string{feedtree.SubscriptionPrefix, node.QuietSubscriptionPrefix, unsubscribedPrefix}})
			if err != nil {
				t.Fatal(err)
			}
			stored := make(chan error, 1)
			disk.Commit([]env.Op{{Key: []byte(feedtree.SubscriptionPrefix + "x"), Value: []byte("x")}}, func(err error) { stored <- err })
			if err := errors.Join(<-stored, disk.Close()); err != nil {
				t.Fatal(err)
			}
			return found(dir)
		}, "the file network is missing, so the network of the node is not known; restore the file from a backup, join again with --bootstrap"},
		{"network is none", func(t *testing.T, dir string) Config {
			write(t, filepath.Join(dir, networkFile), `{"descriptor":"AAAA"}`, 0o600)
			return found(dir)
		}, "not a network descriptor"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			good, err := Open(found(dir))
			if err != nil {
				t.Fatal(err)
			}
			if err := good.Close(); err != nil {
				t.Fatal(err)
			}
			d, err := Open(c.spoil(t, dir))
			if err == nil {
				t.Error("it was opened", d.Close())
			} else if !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v\nwant %q in it", err, c.want)
			}
		})
	}
}

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func TestIdentityFileIsPrivate(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), identityFile)
	made, err := loadIdentity(path)
	if err != nil {
		t.Fatal(err)
	}
	read, err := loadIdentity(path)
	if err != nil || !made.Equal(read) {
		t.Errorf("read another key than was made: %v", err)
	}
	if runtime.GOOS == "windows" {
		return // its files have no such modes
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	for _, mode := range []os.FileMode{0o640, 0o604, 0o644} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := loadIdentity(path); err == nil || !strings.Contains(err.Error(), "chmod 600") {
			t.Errorf("mode %v: %v", mode, err)
		}
	}
}

func TestHasNetwork(t *testing.T) {
	c := founding(t, "here")
	for _, want := range []bool{false, true} {
		if has, err := HasNetwork(c.Dir); err != nil || has != want {
			t.Errorf("%v %v, want %v", has, err, want)
		}
		opened(t, c).Close()
	}
	if has, err := HasNetwork(filepath.Join(c.Dir, "nowhere")); err != nil || has {
		t.Errorf("a directory that is not there: %v %v", has, err)
	}
}

func TestSecondNodeInADirectoryIsRefused(t *testing.T) {
	t.Parallel()
	network := laboratory("one")
	c := Config{Dir: t.TempDir(), HTTP: noHTTP, Listen: anyPort, Found: &network}
	d, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(c); err == nil || !strings.Contains(err.Error(), "another process uses it") {
		t.Errorf("a second node: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// A node that makes a new identity or a new secret in a used data directory warns once. A new node does not.
func TestMissingFilesAreReported(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		remove, want []string
	}{
		{nil, nil},
		{[]string{identityFile}, []string{"identity.key was missing: the node has a new identity", "restore identity.key from a backup"}},
		{[]string{secretFile}, []string{"reader.secret was missing: the node has a new secret", "no longer work", "restore reader.secret from a backup"}},
		{[]string{identityFile, secretFile}, []string{"newcomer", "no longer work", "restore identity.key and reader.secret from a backup"}},
		{[]string{identityFile, secretFile, storeFile, storeFile + ".second"}, nil}, // a new node
		{[]string{secretFile, storeFile}, []string{"reader.secret was missing"}},
		{[]string{identityFile, storeFile}, nil}, // the identity would have been replaced anyway
	} {
		dir, network := t.TempDir(), laboratory("home")
		var log bytes.Buffer
		open := func() {
			d, err := Open(Config{Dir: dir, HTTP: noHTTP, Listen: anyPort, Found: &network, Log: slog.New(slog.NewTextHandler(&log, nil))})
			if err != nil {
				t.Fatal(err)
			}
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
		}
		open()
		if log.Len() > 0 {
			t.Errorf("a new node logs %s", &log)
		}
		for _, name := range c.remove {
			if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
		}
		open()
		said := log.String()
		if n := strings.Count(said, "was missing"); (n > 0) != (c.want != nil) || strings.Count(said, "to undo this") > 1 {
			t.Errorf("without %v: %s", c.remove, said)
		}
		for _, want := range c.want {
			if !strings.Contains(said, want) {
				t.Errorf("without %v: %s\nwant %q", c.remove, said, want)
			}
		}
	}
}
