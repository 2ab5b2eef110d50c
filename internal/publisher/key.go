package publisher

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"filippo.io/age"
	armour "filippo.io/age/armor" //nolint:misspell // is what its author calls it

	"tidings/difference"
	"tidings/internal/feed"
	"tidings/internal/store"
)

const (
	pemType    = "TIDINGS PUBLISHER KEY"
	nextSuffix = ".next"
	oldSuffix  = ".old"
	// maxKeyFile bounds the size of a key file, in bytes. Real ones have less than 1,000.
	maxKeyFile = 64 << 10
)

// ErrKey says that a file does not contain a publisher's key.
var ErrKey = errors.New("not a publisher's key")

// A Passphrase asks for the passphrase of a file. It is called only if the file has one.
type Passphrase func(file string) (string, error)

// A Key signs for a publisher.
type Key struct {
	private ed25519.PrivateKey
	next    feed.Hash // hash of the next key
}

// Public returns the key by which readers know the publisher.
func (k *Key) Public() ed25519.PublicKey { return k.private.Public().(ed25519.PublicKey) }

// Next returns the hash of the next key.
func (k *Key) Next() feed.Hash { return k.next }

// Generate makes a key and its next key, in two new files. An empty passphrase leaves them unencrypted.
func Generate(path, passphrase string) (*Key, error) {
	if dir := filepath.Dir(path); !exists(dir) {
		return nil, fmt.Errorf("make a key: the directory %s does not exist: create it first", dir)
	}
	for _, file := range []string{path, path + nextSuffix} {
		if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("make a key: %s exists already: choose another file, or replace the key by its next one with tidings keygen --rotate %s", file, path)
		}
	}
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	return saveWithNext(path, private, passphrase)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// saveWithNext writes a key together with a new next key. The next key is written last: during a rotation its
// file still holds the key itself.
func saveWithNext(path string, private ed25519.PrivateKey, passphrase string) (*Key, error) {
	public, next, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	k := &Key{private, difference.KeyHash(public)}
	if err := k.save(path, passphrase); err != nil {
		return nil, err
	}
	return k, (&Key{private: next}).save(path+nextSuffix, passphrase)
}

// Rotate replaces a key by its next key, and makes another next key. The old key file is kept beside the new
// one.
func Rotate(path string, ask Passphrase) (*Key, error) {
	next := path + nextSuffix
	k, passphrase, err := read(next, ask)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("rotate %s: the next key, %s, is missing: copy it back from where you keep it, then rotate again", path, next)
	}
	if err != nil {
		return nil, fmt.Errorf("rotate %s: %w", path, err)
	}
	old, _, unread := read(path, ask)
	if unread == nil && old.private.Equal(k.private) || errors.Is(unread, fs.ErrNotExist) {
		return saveWithNext(path, k.private, passphrase) // an earlier rotation was interrupted, or the old key is lost
	}
	if _, err := os.Lstat(path + oldSuffix); !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("rotate %s: the former key, %s, is still there: move it to another place or delete it, then rotate again", path, path+oldSuffix)
	}
	if unread == nil && old.next != difference.KeyHash(k.Public()) {
		return nil, fmt.Errorf("rotate %s: %s is not the next key that was made with it: copy the right one there, then rotate again", path, next)
	}
	if err := os.Rename(path, path+oldSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) { // the old key may be lost
		return nil, fmt.Errorf("rotate: %w", err)
	}
	return saveWithNext(path, k.private, passphrase)
}

// scryptWork is the base-2 logarithm of scrypt's N for encrypted keys. The value is age's default and makes
// each guess cost most of a second of processor time. Tests lower it.
var scryptWork = 18

// save writes a key to a file.
func (k *Key) save(path, passphrase string) error {
	seed := append(bytes.Clone(k.private.Seed()), k.next[:]...)
	open := pem.EncodeToMemory(&pem.Block{Type: pemType, Bytes: seed})
	if passphrase == "" {
		return store.WriteFile(path, open)
	}
	to, err := age.NewScryptRecipient(passphrase)
	if err != nil {
		return fmt.Errorf("encrypt %s: %w", path, err)
	}
	to.SetWorkFactor(scryptWork)
	var b bytes.Buffer
	a := armour.NewWriter(&b)
	w, err := age.Encrypt(a, to)
	if err == nil {
		_, err = w.Write(open)
	}
	if err == nil {
		err = errors.Join(w.Close(), a.Close())
	}
	if err != nil {
		return fmt.Errorf("encrypt %s: %w", path, err)
	}
	return store.WriteFile(path, b.Bytes())
}

// read reads a key from its file, and returns it with the passphrase of the file.
func read(path string, ask Passphrase) (*Key, string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, "", fmt.Errorf("publisher's key: %w", err)
	}
	if info.IsDir() {
		return nil, "", fmt.Errorf("%s is a directory: %w", path, ErrKey)
	}
	if err := CheckPrivate(path, info); err != nil {
		return nil, "", err
	}
	if info.Size() > maxKeyFile {
		return nil, "", fmt.Errorf("%s: %w", path, ErrKey)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, "", fmt.Errorf("publisher's key: %w", err)
	}
	passphrase := ""
	if strings.HasPrefix(string(b), armour.Header) {
		if passphrase, err = ask(path); err != nil {
			return nil, "", err
		}
		if b, err = unlock(b, passphrase); err != nil {
			return nil, "", fmt.Errorf("decrypt %s: %w", path, err)
		}
	}
	block, _ := pem.Decode(b)
	if block == nil || block.Type != pemType || len(block.Bytes) != ed25519.SeedSize+len(feed.Hash{}) {
		return nil, "", fmt.Errorf("%s: %w", path, ErrKey)
	}
	return &Key{ed25519.NewKeyFromSeed(block.Bytes[:ed25519.SeedSize]), feed.Hash(block.Bytes[ed25519.SeedSize:])}, passphrase, nil
}

// CheckPrivate returns an error if other users may read the file of a key or a passphrase. Pipes, device
// files, credentials of systemd services and secrets of containers are protected by other means than their
// mode.
func CheckPrivate(path string, info fs.FileInfo) error {
	mode := info.Mode()
	if credentials := os.Getenv("CREDENTIALS_DIRECTORY"); credentials != "" && filepath.Dir(path) == filepath.Clean(credentials) {
		return nil
	}
	if runtime.GOOS == "windows" || !mode.IsRegular() || strings.HasPrefix(path, "/dev/") || strings.HasPrefix(path, "/run/secrets/") || mode.Perm()&0o077 == 0 {
		return nil
	}
	return fmt.Errorf("%s may be read by others (mode %04o), and anybody who reads it can publish in your name: run chmod 600 %[1]s", path, mode.Perm())
}

func unlock(b []byte, passphrase string) ([]byte, error) {
	id, err := age.NewScryptIdentity(passphrase)
	if err != nil {
		return nil, err
	}
	r, err := age.Decrypt(armour.NewReader(bytes.NewReader(b)), id)
	if err != nil {
		return nil, errors.New("wrong passphrase, or a damaged file")
	}
	return io.ReadAll(io.LimitReader(r, maxKeyFile))
}
