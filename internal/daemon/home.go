package daemon

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"tidings/internal/store"
	"tidings/internal/wire"
)

// The files of a data directory.
const (
	identityFile = "identity.key" // PEM, PKCS #8
	networkFile  = "network"      // JSON, a membership
	secretFile   = "reader.secret"
	storeFile    = "tidings.db"
	keywordsFile = "keywords.db"
	tokenFile    = "publish.token"
	accessFile   = "api.token"
)

// pemType is what openssl calls a private key, too.
const pemType = "PRIVATE KEY"

// A home is what a node finds in its data directory beside the store: who it is
// and where it belongs.
type home struct {
	config  Config
	key     ed25519.PrivateKey
	renewed bool         // the key is new, in place of an older one
	secret  []byte       // of the addresses given to readers
	token   string       // shown by who wants something published; "": nobody can
	access  string       // shown by programs that use the interface for programs
	network wire.Network // as its descriptor says
	membership
}

// A membership says which network a node belongs to.
type membership struct {
	Descriptor []byte `json:"descriptor"` // as the founder encoded it; nil: not known yet
	Founder    bool   `json:"founder"`
}

func makeDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return nil
}

// openHome reads the data directory, makes the identity if it is new, and founds
// the network if that is the wish. If the store was lost, an old identity must not
// go on: nobody knows any more what it has signed. A node that has subscriptions was in a network, so it founds no
// other one without a word when the file that says which is missing.
func openHome(c Config, lost, subscribed bool) (*home, error) {
	h := &home{config: c}
	var err error
	if lost {
		old := c.path(identityFile)
		switch err := os.Rename(old, old+".retired"); {
		case err == nil:
			h.renewed = true
		case !errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("identity: %w", err)
		}
	}
	warning := missing(c, !lost, !lost || h.renewed)
	if h.secret, err = secret(c.path(secretFile)); err != nil {
		return nil, err
	}
	if h.access, err = tokenAt(c.path(accessFile), "the node makes a new one, which commands find by themselves"); err != nil {
		return nil, err
	}
	if c.Author != nil {
		if h.token, err = tokenAt(c.path(tokenFile), "the node makes a new one, which programs that publish need"); err != nil {
			return nil, err
		}
	}
	if h.key, err = identity(c.path(identityFile)); err != nil {
		return nil, err
	}
	if warning != "" {
		c.Log.Warn("the node made new files in place of missing ones", "details", warning)
	}
	if err := h.readNetwork(); err != nil {
		return nil, err
	}
	switch {
	case h.Descriptor != nil:
		return h, h.agrees()
	case c.Found != nil && subscribed:
		return nil, dataFault(c.Dir, "the file "+networkFile+" is missing, so the network of the node is not known", "restore the file from a backup, join again with --bootstrap, or "+elsewhere, nil)
	case c.Found != nil:
		return h, h.settle(c.Found.Descriptor(), true)
	case len(c.Bootstrap) == 0 && !c.MDNS:
		return nil, dataFault(c.Dir, "it belongs to no network yet", "give --bootstrap to join one", nil)
	}
	return h, nil
}

// missing says which files of a data directory in use are missing, what follows when the node makes new ones, and how
// to avoid that; "" if none are. key and secret say whether the node had an identity and a readers' secret before: a new
// node misses neither.
func missing(c Config, key, secret bool) string {
	var what, files []string
	look := func(had bool, file, follows string) {
		if _, err := os.Stat(c.path(file)); had && errors.Is(err, fs.ErrNotExist) {
			what, files = append(what, file+" was missing: "+follows), append(files, file)
		}
	}
	look(key, identityFile, "the node has a new identity, and other nodes know it as a newcomer")
	look(secret, secretFile, "the node has a new secret, and the addresses that your feed readers have no longer work")
	if files == nil {
		return ""
	}
	return strings.Join(what, "; ") + "; to undo this, stop the node, restore " + strings.Join(files, " and ") + " from a backup, and start the node again"
}

// identity reads the key of a node, or makes one.
func identity(path string) (ed25519.PrivateKey, error) {
	key, err := readIdentity(path)
	if errors.Is(err, fs.ErrNotExist) {
		key, err = newIdentity(path)
	}
	if err != nil {
		return nil, fmt.Errorf("identity: %w", err)
	}
	return key, nil
}

// secretSize is that of the readers' secret, in bytes.
const secretSize = 32

// secret reads what the addresses of readers are made with, or makes it. It does
// not change with the identity: addresses given to readers stay good.
func secret(path string) ([]byte, error) {
	b, err := os.ReadFile(path)
	if err == nil && len(b) == secretSize {
		return b, nil
	}
	if err == nil {
		return nil, damaged(path, fmt.Sprintf("%d bytes", len(b)), "restore it from a backup, or remove it (your readers then need new addresses)", nil)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("readers' secret: %w", err)
	}
	b = make([]byte, secretSize)
	if _, err := rand.Read(b); err != nil {
		return nil, fmt.Errorf("readers' secret: %w", err)
	}
	return b, store.WriteFile(path, b)
}

// tokenAt reads a text that programs have to show, or makes it. then says what to do when a damaged one
// has been removed.
func tokenAt(path, then string) (string, error) {
	text, err := ReadToken(path)
	if err == nil {
		return text, nil
	}
	if errors.Is(err, errDamagedToken) {
		return "", damaged(path, "not a token", "remove it ("+then+")", err)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	text = rand.Text() + rand.Text()
	return text, store.WriteFile(path, []byte(text+"\n"))
}

// ReadToken reads a file in which a node has left a token.
func ReadToken(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("token: %w", err)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxToken+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return "", fmt.Errorf("token: %w", err)
	}
	text := strings.TrimSpace(string(b))
	if len(b) > maxToken || len(text) < secretSize || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("token: %s %w (%d bytes)", path, errDamagedToken, len(b))
	}
	return text, nil
}

var errDamagedToken = errors.New("is damaged")

// maxToken is more than the file of a token has, in bytes.
const maxToken = 256

// AccessFile is the file in a data directory with the token for commands and other programs.
func AccessFile(dir string) string { return filepath.Join(dir, accessFile) }

// AccessCopy is the file in which a node that serves readers at an address leaves its token a second
// time, below a folder of its user, for commands that know the address and not the data directory.
func AccessCopy(folder, address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return filepath.Join(folder, "none.token")
	}
	ip, err := netip.ParseAddr(host)
	if host == "" || strings.EqualFold(host, "localhost") || err == nil && ip.IsUnspecified() {
		host = "127.0.0.1" // where a node listens everywhere, it is there too
	}
	return filepath.Join(folder, url.PathEscape(strings.ReplaceAll(host, ":", "-"))+"_"+url.PathEscape(port)+".token")
}

// leaveAccess leaves the token a second time, where the node serves readers. A node of a user
// without a folder to write to works all the same: commands then need its data directory.
func (d *Daemon) leaveAccess() {
	if d.config.Access == "" || d.http == nil {
		return
	}
	path := AccessCopy(d.config.Access, d.http.Addr().String())
	err := os.MkdirAll(d.config.Access, 0o700)
	if err == nil {
		err = store.WriteFile(path, []byte(d.home.access+"\n"))
	}
	if err != nil {
		d.log.Warn("token for commands could not be stored, so commands need --data", "err", err)
	}
}

// takeAccess removes what leaveAccess has left, unless another node serves there by now.
func (d *Daemon) takeAccess() {
	if d.config.Access == "" || d.http == nil {
		return
	}
	path := AccessCopy(d.config.Access, d.http.Addr().String())
	if text, err := ReadToken(path); err == nil && text == d.home.access {
		_ = os.Remove(path) // a copy that stays does no harm
	}
}

func newIdentity(path string) (ed25519.PrivateKey, error) {
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return key, store.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: pemType, Bytes: der}))
}

func readIdentity(path string) (ed25519.PrivateKey, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 && runtime.GOOS != "windows" {
		return nil, dataFault(filepath.Dir(path), fmt.Sprintf("other users may read %s (mode %04o), and could impersonate this node", filepath.Base(path), mode),
			fmt.Sprintf("run chmod 600 %s, or remove the file to get a new identity", path), nil)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(b)
	if block == nil || block.Type != pemType {
		return nil, damaged(path, "no private key in PEM", newIdentityRemedy, nil)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, damaged(path, err.Error(), newIdentityRemedy, err)
	}
	key, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, damaged(path, fmt.Sprintf("a key of type %T", parsed), newIdentityRemedy, nil)
	}
	return key, nil
}

const newIdentityRemedy = "restore it from a backup, or remove it to get a new identity"

// damaged says that a file of a data directory cannot be read, why, and what to do.
func damaged(path, why, do string, cause error) error {
	return dataFault(filepath.Dir(path), fmt.Sprintf("%s is damaged (%s)", filepath.Base(path), why), do, cause)
}

// HasNetwork says whether a data directory, which may not exist, belongs to a network
// already.
func HasNetwork(dir string) (bool, error) {
	_, err := os.Stat(filepath.Join(dir, networkFile))
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	}
	return false, fileFault(dir, err)
}

// readNetwork reads where the node belongs; a new one belongs nowhere.
func (h *home) readNetwork() error {
	path := h.config.path(networkFile)
	b, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("network: %w", err)
	}
	err = json.Unmarshal(b, &h.membership)
	if err == nil {
		h.network, err = wire.ParseDescriptor(h.Descriptor)
	}
	if err != nil {
		return damaged(path, err.Error(), "remove it and join again", err)
	}
	return nil
}

// settle remembers where the node belongs.
func (h *home) settle(descriptor []byte, founder bool) error {
	n, err := wire.ParseDescriptor(descriptor)
	if err != nil {
		return err
	}
	m := membership{descriptor, founder}
	b, err := json.Marshal(m)
	if err == nil {
		err = store.WriteFile(h.config.path(networkFile), append(b, '\n'))
	}
	if err != nil {
		return fmt.Errorf("network: %w", err)
	}
	h.network, h.membership = n, m
	return nil
}

// differing names the settings that were given and are not those of the network, where they stand, and both values.
func (h *home) differing() string {
	mine, its := h.config.Found.Settings(), h.network.Settings()
	mine["network"], its["network"] = h.config.Found.Name, h.network.Name
	var of []string
	for _, name := range slices.Sorted(maps.Keys(h.config.Given)) {
		if mine[name] != its[name] {
			of = append(of, fmt.Sprintf("%s is %s (%s) and %s in the network", name, mine[name], h.config.Given[name], its[name]))
		}
	}
	return strings.Join(of, "; ")
}

// agrees says whether the wishes given are those of the network the node belongs
// to.
func (h *home) agrees() error {
	c, name := h.config, h.network.Name
	belongs := fmt.Sprintf("it belongs to network %q", name)
	switch {
	case c.Found != nil && c.Given == nil && !bytes.Equal(c.Found.Descriptor(), h.Descriptor):
		return dataFault(c.Dir, belongs+", whose settings never change, and the flags differ: "+c.Found.Differences("flags", h.network, "network"),
			"leave the flags out, or "+elsewhere, nil)
	case c.Found != nil:
		if differ := h.differing(); differ != "" {
			return dataFault(c.Dir, belongs+", whose settings never change: "+differ, "leave them out, or "+elsewhere, nil)
		}
	case c.Network != "" && c.Network != name:
		return dataFault(c.Dir, fmt.Sprintf("%s, not %q", belongs, c.Network), elsewhere, nil)
	}
	return nil
}
