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
	identityFile     = "identity.key" // PEM, PKCS #8
	networkFile      = "network"      // JSON, a membership
	secretFile       = "reader.secret"
	storeFile        = "tidings.db"
	keywordsFile     = "keywords.db"
	newsFile         = "news.db"
	targetsFile      = "notify.json"
	contactsFile     = "messenger.json"
	tokensFile       = "tokens.json"
	publishTokenFile = "publish.token"
	apiTokenFile     = "api.token"
)

// pemType is also what openssl calls a private key.
const pemType = "PRIVATE KEY"

// A dataDir holds the files of a data directory beside the store: the identity, the network and the tokens of
// the node.
type dataDir struct {
	config           Config
	key              ed25519.PrivateKey
	identityReplaced bool         // the key is new, because the store was lost
	readerSecret     []byte       // from which the addresses for readers are derived
	publishToken     string       // authorises programs to publish; "": publishing is off
	apiToken         string       // authorises programs to use the API
	network          wire.Network // decoded from Descriptor
	membership
}

// A membership says which network a node belongs to.
type membership struct {
	Descriptor []byte `json:"descriptor"` // as encoded by the founder; nil: not known yet
	Founder    bool   `json:"founder"`
}

// openDataDir reads the data directory, creates an identity if there is none, and founds the network if the
// configuration says so. If the store was lost, the old identity is retired, because the record of what it
// signed is lost, too. A node with subscriptions was in a network before. If its network file is missing,
// openDataDir returns an error rather than found another network.
func openDataDir(c Config, storeLost, hasSubscriptions bool) (*dataDir, error) {
	dir := &dataDir{config: c}
	var err error
	if storeLost {
		old := c.path(identityFile)
		switch err := os.Rename(old, old+".retired"); {
		case err == nil:
			dir.identityReplaced = true
		case !errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("identity: %w", err)
		}
	}
	warning := missingFiles(c, !storeLost, !storeLost || dir.identityReplaced)
	if dir.readerSecret, err = loadSecret(c.path(secretFile)); err != nil {
		return nil, err
	}
	if dir.apiToken, err = loadToken(c.path(apiTokenFile), "the node makes a new one, which commands find by themselves"); err != nil {
		return nil, err
	}
	if c.Signer != nil {
		if dir.publishToken, err = loadToken(c.path(publishTokenFile), "the node makes a new one, which programs that publish need"); err != nil {
			return nil, err
		}
	}
	if dir.key, err = loadIdentity(c.path(identityFile)); err != nil {
		return nil, err
	}
	if warning != "" {
		c.Log.Warn("the node made new files in place of missing ones", "details", warning)
	}
	if err := dir.readNetwork(); err != nil {
		return nil, err
	}
	switch {
	case dir.Descriptor != nil:
		return dir, dir.checkNetwork()
	case c.Found != nil && hasSubscriptions:
		return nil, dataDirError(c.Dir, "the file "+networkFile+" is missing, so the network of the node is not known", "restore the file from a backup, join again with --bootstrap, or "+otherDirectory, nil)
	case c.Found != nil:
		return dir, dir.saveNetwork(c.Found.Descriptor(), true)
	case len(c.Bootstrap) == 0 && !c.MDNS:
		return nil, dataDirError(c.Dir, "it belongs to no network yet", "give --bootstrap to join one", nil)
	}
	return dir, nil
}

// missingFiles says which files of a used data directory are missing, what happens when the node makes new
// ones, and how to undo that; "" if none are missing. hadKey and hadSecret say whether the directory must
// have had an identity and a readers' secret; a new node had neither.
func missingFiles(c Config, hadKey, hadSecret bool) string {
	var what, files []string
	check := func(had bool, file, consequence string) {
		if _, err := os.Stat(c.path(file)); had && errors.Is(err, fs.ErrNotExist) {
			what, files = append(what, file+" was missing: "+consequence), append(files, file)
		}
	}
	check(hadKey, identityFile, "the node has a new identity, and other nodes know it as a newcomer")
	check(hadSecret, secretFile, "the node has a new secret, and the addresses that your feed readers have no longer work")
	if files == nil {
		return ""
	}
	return strings.Join(what, "; ") + "; to undo this, stop the node, restore " + strings.Join(files, " and ") + " from a backup, and start the node again"
}

// loadIdentity reads the private key of the node, or creates it.
func loadIdentity(path string) (ed25519.PrivateKey, error) {
	key, err := readIdentity(path)
	if errors.Is(err, fs.ErrNotExist) {
		key, err = newIdentity(path)
	}
	if err != nil {
		return nil, fmt.Errorf("identity: %w", err)
	}
	return key, nil
}

// secretSize is the size of the readers' secret, in bytes.
const secretSize = 32

// loadSecret reads the readers' secret, or creates it. The secret outlives the identity, so that addresses
// given to readers stay valid.
func loadSecret(path string) ([]byte, error) {
	b, err := os.ReadFile(path)
	if err == nil && len(b) == secretSize {
		return b, nil
	}
	if err == nil {
		return nil, damagedFile(path, fmt.Sprintf("%d bytes", len(b)), "restore it from a backup, or remove it (your readers then need new addresses)", nil)
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

// loadToken reads a token, or creates it. consequence says what happens once a damaged token file is removed.
func loadToken(path, consequence string) (string, error) {
	text, err := ReadToken(path)
	if err == nil {
		return text, nil
	}
	if errors.Is(err, errDamagedToken) {
		return "", damagedFile(path, "not a token", "remove it ("+consequence+")", err)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	text = rand.Text() + rand.Text()
	return text, store.WriteFile(path, []byte(text+"\n"))
}

// ReadToken reads the token in a file that a node has written.
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

// maxToken bounds the size of a token file, in bytes. Real ones have about 50.
const maxToken = 256

// APITokenFile returns the path of the API token in a data directory.
func APITokenFile(dir string) string { return filepath.Join(dir, apiTokenFile) }

// APITokenCopy returns the path of the copy of the API token in a folder. The copy is named after the address
// at which the node serves readers, for commands that know the address but not the data directory.
func APITokenCopy(folder, address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return filepath.Join(folder, "none.token")
	}
	ip, err := netip.ParseAddr(host)
	if host == "" || strings.EqualFold(host, "localhost") || err == nil && ip.IsUnspecified() {
		host = "127.0.0.1" // a node that listens on all interfaces also listens there
	}
	return filepath.Join(folder, url.PathEscape(strings.ReplaceAll(host, ":", "-"))+"_"+url.PathEscape(port)+".token")
}

// saveTokenCopy writes the copy of the API token. A node that cannot write it works without it; commands then
// need to know its data directory.
func (d *Daemon) saveTokenCopy() {
	if d.config.TokenCopyDir == "" || d.http == nil {
		return
	}
	path := APITokenCopy(d.config.TokenCopyDir, d.http.Addr().String())
	err := os.MkdirAll(d.config.TokenCopyDir, 0o700)
	if err == nil {
		err = store.WriteFile(path, []byte(d.dataDir.apiToken+"\n"))
	}
	if err != nil {
		d.log.Warn("token for commands could not be stored, so commands need --data", "err", err)
	}
}

// removeTokenCopy removes the copy of the API token, unless another node has replaced it.
func (d *Daemon) removeTokenCopy() {
	if d.config.TokenCopyDir == "" || d.http == nil {
		return
	}
	path := APITokenCopy(d.config.TokenCopyDir, d.http.Addr().String())
	if text, err := ReadToken(path); err == nil && text == d.dataDir.apiToken {
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
		return nil, dataDirError(filepath.Dir(path), fmt.Sprintf("other users may read %s (mode %04o), and could impersonate this node", filepath.Base(path), mode),
			fmt.Sprintf("run chmod 600 %s, or remove the file to get a new identity", path), nil)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(b)
	if block == nil || block.Type != pemType {
		return nil, damagedFile(path, "no private key in PEM", newIdentityRemedy, nil)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, damagedFile(path, err.Error(), newIdentityRemedy, err)
	}
	key, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, damagedFile(path, fmt.Sprintf("a key of type %T", parsed), newIdentityRemedy, nil)
	}
	return key, nil
}

const newIdentityRemedy = "restore it from a backup, or remove it to get a new identity"

// damagedFile returns an error that says which file is damaged, why, and what to do.
func damagedFile(path, why, do string, cause error) error {
	return dataDirError(filepath.Dir(path), fmt.Sprintf("%s is damaged (%s)", filepath.Base(path), why), do, cause)
}

// HasNetwork reports whether a data directory belongs to a network. The directory need not exist.
func HasNetwork(dir string) (bool, error) {
	_, err := os.Stat(filepath.Join(dir, networkFile))
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	}
	return false, fileError(dir, err)
}

// readNetwork reads which network the node belongs to. A new node has none.
func (dir *dataDir) readNetwork() error {
	path := dir.config.path(networkFile)
	b, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("network: %w", err)
	}
	err = json.Unmarshal(b, &dir.membership)
	if err == nil {
		dir.network, err = wire.ParseDescriptor(dir.Descriptor)
	}
	if err != nil {
		return damagedFile(path, err.Error(), "remove it and join again", err)
	}
	return nil
}

// saveNetwork writes which network the node belongs to.
func (dir *dataDir) saveNetwork(descriptor []byte, founder bool) error {
	n, err := wire.ParseDescriptor(descriptor)
	if err != nil {
		return err
	}
	m := membership{descriptor, founder}
	b, err := json.Marshal(m)
	if err == nil {
		err = store.WriteFile(dir.config.path(networkFile), append(b, '\n'))
	}
	if err != nil {
		return fmt.Errorf("network: %w", err)
	}
	dir.network, dir.membership = n, m
	return nil
}

// settingDifferences lists the given settings that differ from the network's, each with both values and the
// place where it was given.
func (dir *dataDir) settingDifferences() string {
	mine, its := dir.config.Found.Settings(), dir.network.Settings()
	mine["network"], its["network"] = dir.config.Found.Name, dir.network.Name
	var differing []string
	for _, name := range slices.Sorted(maps.Keys(dir.config.SettingSources)) {
		if mine[name] != its[name] {
			differing = append(differing, fmt.Sprintf("%s is %s (%s) and %s in the network", name, mine[name], dir.config.SettingSources[name], its[name]))
		}
	}
	return strings.Join(differing, "; ")
}

// checkNetwork returns an error if the configuration names another network, or other settings than those of
// the node's network.
func (dir *dataDir) checkNetwork() error {
	c, name := dir.config, dir.network.Name
	belongs := fmt.Sprintf("it belongs to network %q", name)
	switch {
	case c.Found != nil && c.Authority != nil && !bytes.Equal(c.Found.Descriptor(), dir.Descriptor):
		return dataDirError(c.Dir, belongs+", whose settings never change, and the file network in the directory of --authority differs: "+c.Found.Differences("file", dir.network, "network"),
			"restore the file from a backup, or "+otherDirectory, nil)
	case c.Found != nil && c.SettingSources == nil && !bytes.Equal(c.Found.Descriptor(), dir.Descriptor):
		return dataDirError(c.Dir, belongs+", whose settings never change, and the flags differ: "+c.Found.Differences("flags", dir.network, "network"),
			"leave the flags out, or "+otherDirectory, nil)
	case c.Found != nil:
		if differ := dir.settingDifferences(); differ != "" {
			return dataDirError(c.Dir, belongs+", whose settings never change: "+differ, "leave them out, or "+otherDirectory, nil)
		}
	case c.Network != "" && c.Network != name:
		return dataDirError(c.Dir, fmt.Sprintf("%s, not %q", belongs, c.Network), otherDirectory, nil)
	}
	return nil
}
