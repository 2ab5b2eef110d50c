// Package authority keeps the directory of an authority: the key that admits members of a network of certificates, and a
// file for each member that it has admitted.
//
// The directory is the whole state. "tidings network" changes it, and a node that runs with it reads it: the node renews
// certificates, and gives out the list of the members that were revoked (overlay.Authority). So the two need no
// connection, and no lock: each change is one file that is replaced as a whole.
//
//	authority.key   the private key, in PEM, readable by its owner only
//	network         the descriptor of the network that was created here, in base64; missing in the directory of a further authority
//	members/        a file in JSON for each member, named after its peer id
//
// Package overlay defines certificates and lists, and verifies them.
package authority

import (
	"cmp"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"tidings/internal/env"
	"tidings/internal/store"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/libp2p"
)

const (
	keyFile       = "authority.key"
	networkFile   = "network"
	membersFolder = "members"
	pemType       = "PRIVATE KEY"

	// Lifetime is how long a certificate is valid. Members renew theirs after two thirds of it, so an authority may be
	// offline for a month. A shorter one lets a network forget its authority sooner, and keeps the list of revocations
	// shorter.
	Lifetime = 90 * 24 * time.Hour
	// maxName bounds the name that an operator gives to a member, in bytes.
	maxName = 200
)

// A Dir is the directory of an authority.
type Dir struct {
	path string
	key  ed25519.PrivateKey
}

// A Member is a node that was admitted.
type Member struct {
	Peer     env.PeerID
	Name     string     // for the operator; may be empty
	ID       overlay.ID // drawn at random when the node was admitted
	Admitted time.Time  // zero: another authority may have admitted it
	Revoked  time.Time  // zero: not revoked
	Signs    bool       // a node that ran with the directory
	// Damaged says that the node's file cannot be read. Then nobody knows whether the node was revoked, so it counts as
	// revoked since the file was last changed.
	Damaged bool
}

// memberFile is the content of a member's file.
type memberFile struct {
	Name     string    `json:"name,omitempty"`
	ID       string    `json:"id"`
	Admitted time.Time `json:"admitted,omitzero"`
	Revoked  time.Time `json:"revoked,omitzero"`
	Signs    bool      `json:"signs,omitempty"`
}

// Create makes the directory of a new authority, with a new key.
func Create(path string) (*Dir, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make an authority: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("make an authority: %w", err)
	}
	if err := os.MkdirAll(filepath.Join(path, membersFolder), 0o700); err != nil {
		return nil, fmt.Errorf("make an authority: %w", err)
	}
	file := filepath.Join(path, keyFile)
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("make an authority: %s has one already; choose another directory", path)
	}
	if err != nil {
		return nil, fmt.Errorf("make an authority: %w", err)
	}
	err = pem.Encode(f, &pem.Block{Type: pemType, Bytes: der})
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return nil, fmt.Errorf("make an authority: %w", errors.Join(err, os.Remove(file)))
	}
	return &Dir{path, key}, nil
}

// Open opens the directory of an authority.
func Open(path string) (*Dir, error) {
	file := filepath.Join(path, keyFile)
	info, err := os.Stat(file)
	if err == nil && info.Mode().Perm()&0o077 != 0 && runtime.GOOS != "windows" {
		return nil, fmt.Errorf("open authority: other users may read %s (mode %04o), and could admit members: run chmod 600 %[1]s", file, info.Mode().Perm())
	}
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("open authority %s: it has no file %s; create a network with tidings network create, or an authority with tidings network key", path, keyFile)
	}
	if err != nil {
		return nil, fmt.Errorf("open authority: %w", err)
	}
	damaged := fmt.Errorf("open authority: %s is damaged: it is not an Ed25519 key in PEM; restore it from a backup", file)
	block, _ := pem.Decode(b)
	if block == nil || block.Type != pemType {
		return nil, damaged
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	key, ok := parsed.(ed25519.PrivateKey)
	if err != nil || !ok {
		return nil, damaged
	}
	return &Dir{path, key}, nil
}

// OpenOrCreate opens the directory of an authority, and makes it if there is none.
func OpenOrCreate(path string) (*Dir, error) {
	if _, err := os.Stat(filepath.Join(path, keyFile)); errors.Is(err, fs.ErrNotExist) {
		return Create(path)
	}
	return Open(path)
}

// Public returns the authority's public key.
func (d *Dir) Public() ed25519.PublicKey { return d.key.Public().(ed25519.PublicKey) }

// SaveNetwork stores the network that was created with this authority.
func (d *Dir) SaveNetwork(n wire.Network) error {
	text := base64.StdEncoding.EncodeToString(n.Descriptor()) + "\n"
	if err := store.WriteFile(filepath.Join(d.path, networkFile), []byte(text)); err != nil {
		return fmt.Errorf("save network: %w", err)
	}
	return nil
}

// Network returns the network that was created with this authority; ok is false if it belongs to one that was created
// elsewhere.
func (d *Dir) Network() (n wire.Network, ok bool, err error) {
	file := filepath.Join(d.path, networkFile)
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return n, false, nil
	}
	if err == nil {
		b, err = base64.StdEncoding.DecodeString(strings.TrimSpace(string(b)))
	}
	if err == nil {
		n, err = wire.ParseDescriptor(b)
	}
	if err == nil {
		err = d.checkMember(n)
	}
	if err != nil {
		return n, false, fmt.Errorf("network of authority: %s: %w; restore it from a backup", file, err)
	}
	return n, true, nil
}

// checkMember returns an error if the authority is none of a network.
func (d *Dir) checkMember(n wire.Network) error {
	keys, err := n.AuthorityKeys()
	if err == nil && !slices.ContainsFunc(keys, func(k ed25519.PublicKey) bool { return k.Equal(d.Public()) }) {
		err = fmt.Errorf("the authority in %s is none of network %q, whose members it cannot admit", d.path, n.Name)
	}
	return err
}

// Admit admits a node under a new random id, also one that was revoked. It returns false if the node is a member already.
func (d *Dir) Admit(peer env.PeerID, name string, now time.Time) (bool, error) {
	if len(name) > maxName {
		return false, fmt.Errorf("admit: the name has %d bytes; give at most %d", len(name), maxName)
	}
	if m, err := d.member(peer); err != nil || m != nil && m.Revoked.IsZero() {
		return false, err
	}
	m := Member{Peer: peer, Name: name, Admitted: now}
	if _, err := rand.Read(m.ID[:]); err != nil {
		return false, fmt.Errorf("admit: %w", err)
	}
	return true, d.save(m)
}

// Revoke revokes a node, also one that another authority has admitted. It returns what was known of the node, and false if it
// was revoked already.
func (d *Dir) Revoke(peer env.PeerID, now time.Time) (Member, bool, error) {
	was := Member{Peer: peer}
	m, err := d.member(peer)
	if m != nil {
		was = *m
	}
	if err != nil || !was.Revoked.IsZero() && !was.Damaged {
		return was, false, err
	}
	all, err := d.Members()
	if err != nil {
		return was, false, err
	}
	if n := len(listed(all, now)); n >= overlay.MaxRevoked {
		return was, false, fmt.Errorf("revoke: %d members were revoked within the last %d days, and a list has room for %d; wait until certificates expire", n, Lifetime/(24*time.Hour), overlay.MaxRevoked)
	}
	revoked := was
	revoked.Revoked = now
	return was, true, d.save(revoked)
}

// Members returns the members in the order in which they were admitted, also those that were revoked.
func (d *Dir) Members() ([]Member, error) {
	entries, err := os.ReadDir(filepath.Join(d.path, membersFolder))
	if err != nil {
		return nil, fmt.Errorf("members: %w", err)
	}
	var members []Member
	for _, e := range entries {
		peer, err := libp2p.ParsePeerID(e.Name())
		if err != nil {
			continue // a temporary file, or a note of the operator
		}
		m, err := d.member(peer)
		if err != nil {
			return nil, err
		}
		if m != nil {
			members = append(members, *m)
		}
	}
	slices.SortStableFunc(members, func(a, b Member) int { return a.Admitted.Compare(b.Admitted) })
	return members, nil
}

// Check returns an error if files of members cannot be read.
func (d *Dir) Check() error {
	members, err := d.Members()
	return cmp.Or(err, d.damaged(members))
}

// damaged returns an error that names a member whose file is damaged; nil if there is none.
func (d *Dir) damaged(members []Member) error {
	i := slices.IndexFunc(members, func(m Member) bool { return m.Damaged })
	if i < 0 {
		return nil
	}
	return fmt.Errorf("members: %s is damaged, so its node counts as revoked; restore it from a backup, or admit or revoke the node again", d.file(members[i].Peer))
}

func (d *Dir) file(peer env.PeerID) string {
	return filepath.Join(d.path, membersFolder, libp2p.PeerIDString(peer))
}

// member returns a member, nil if the node was never one.
func (d *Dir) member(peer env.PeerID) (*Member, error) {
	b, err := os.ReadFile(d.file(peer))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("members: %w", err)
	}
	var f memberFile
	err = json.Unmarshal(b, &f)
	id, hexErr := hex.DecodeString(f.ID)
	if err = errors.Join(err, hexErr); err != nil || len(id) != len(overlay.ID{}) {
		info, err := os.Stat(d.file(peer))
		if err != nil {
			return nil, fmt.Errorf("members: %w", err)
		}
		return &Member{Peer: peer, Revoked: info.ModTime(), Damaged: true}, nil
	}
	return &Member{Peer: peer, Name: f.Name, ID: overlay.ID(id), Admitted: f.Admitted, Revoked: f.Revoked, Signs: f.Signs}, nil
}

func (d *Dir) save(m Member) error {
	b, err := json.Marshal(memberFile{m.Name, m.ID.String(), m.Admitted.UTC(), m.Revoked.UTC(), m.Signs})
	if err == nil {
		err = store.WriteFile(d.file(m.Peer), append(b, '\n'))
	}
	if err != nil {
		return fmt.Errorf("members: %w", err)
	}
	return nil
}

// listed returns the revoked members whose certificates may not have expired.
func listed(members []Member, now time.Time) (revoked []Member) {
	for _, m := range members {
		if !m.Revoked.IsZero() && now.Sub(m.Revoked) < Lifetime {
			revoked = append(revoked, m)
		}
	}
	return revoked
}
