// Package icons gets the icons of web sites, so that pages can show them without a browser asking the sites.
//
//	s := icons.New(folder, get, false, log)
//	go s.Run(ctx)
//	icon, ok := s.Icon(site)
//
// A [Store] keeps the icons in a folder. It asks a site only when somebody has wanted its icon: for the home page, for up to
// three icons that it names, and for /favicon.ico; one request after another, as politely as for documents, and not again
// for a month. What is no small picture is not kept.
package icons

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"tidings/difference/page"
	"tidings/internal/env"
	"tidings/internal/feed"
)

const (
	// maxIcon bounds an icon in bytes. Larger pictures are made for other purposes.
	maxIcon = 64 << 10
	// maxIcons bounds the files in the folder. The oldest go first.
	maxIcons = 4000
	// maxAge is the age at which an icon is looked for again, and retry the same for a site without one.
	maxAge = 30 * 24 * time.Hour
	retry  = 7 * 24 * time.Hour
	// maxWaiting bounds the sites that wait. Those that come while it is reached are looked for when a page wants them again.
	maxWaiting = 256
	// maxNamed bounds the icons that are tried of those that a page names.
	maxNamed = 3
)

// An Icon is a picture.
type Icon struct {
	Body []byte
	Type string // media type
}

// A Store is a folder of icons. Its methods may be called from any goroutine.
type Store struct {
	folder string
	get    func(ctx context.Context, r env.Request) env.Answer
	own    bool // only icons at the site's own host are asked for
	log    *slog.Logger
	wanted chan string // sites

	mu      sync.Mutex
	pending map[string]bool // sites in wanted, and the one that is being asked
}

// New returns the store in a folder, which need not exist. get asks for a document; Run alone calls it. own keeps it to the
// site's own host: get may ask hosts that a page on the Web should not name.
func New(folder string, get func(ctx context.Context, r env.Request) env.Answer, own bool, log *slog.Logger) *Store {
	return &Store{folder: folder, get: get, own: own, log: log, wanted: make(chan string, maxWaiting), pending: map[string]bool{}}
}

// SiteOf returns the address of the site of a feed: the home page that the feed names, if it is at the feed's own host, and
// otherwise the root of that host, so that no feed can name another one to be asked. ok is false if there is none.
func SiteOf(address, home string) (site string, ok bool) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.User != nil {
		return "", false
	}
	if h, err := url.Parse(home); err == nil && h.Host == u.Host && h.User == nil && (h.Scheme == "http" || h.Scheme == "https") {
		h.Fragment = ""
		if site, err := feed.Canonical(h.String()); err == nil {
			return site, true
		}
	}
	return u.Scheme + "://" + u.Host + "/", true
}

// Icon returns the icon of a site. ok is false if the store has none. If it is not known whether the site has one, or has a
// newer one, the site will be asked.
func (s *Store) Icon(site string) (icon Icon, ok bool) {
	path := s.path(site)
	info, err := os.Stat(path)
	if err == nil && info.Size() <= maxIcon {
		icon.Body, err = os.ReadFile(path)
	}
	icon.Type = typeOf(icon.Body)
	ok = err == nil && icon.Type != ""
	life := retry
	if ok {
		life = maxAge
	}
	if err != nil || time.Since(info.ModTime()) > life {
		s.want(site)
	}
	return icon, ok
}

// want has a site asked, if there is room.
func (s *Store) want(site string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pending[site] {
		return
	}
	select {
	case s.wanted <- site:
		s.pending[site] = true
	default:
	}
}

// Run asks sites until ctx ends.
func (s *Store) Run(ctx context.Context) {
	for {
		select {
		case site := <-s.wanted:
			body := s.ask(ctx, site)
			if ctx.Err() != nil {
				return
			}
			if err := s.keep(site, body); err != nil {
				s.log.Warn("an icon cannot be stored", "err", err)
			}
			s.mu.Lock()
			delete(s.pending, site)
			s.mu.Unlock()
		case <-ctx.Done():
			return
		}
	}
}

// ask asks a site for its icon; nil if it has none.
func (s *Store) ask(ctx context.Context, site string) []byte {
	home := s.get(ctx, env.Request{URL: site, Robots: true})
	var addresses []string
	if home.HasDocument() {
		addresses = named(home)
	}
	if root, err := feed.Resolve(cmp.Or(home.FinalURL, site), "/favicon.ico"); err == nil {
		addresses = append(addresses, root)
	}
	for _, address := range addresses {
		if s.own && !sameHost(address, site) {
			continue
		}
		if a := s.get(ctx, env.Request{URL: address, Robots: true}); a.HasDocument() && !a.Cut && len(a.Body) <= maxIcon && typeOf(a.Body) != "" {
			return a.Body
		}
	}
	return nil
}

func sameHost(a, b string) bool {
	u, err := url.Parse(a)
	v, err2 := url.Parse(b)
	return err == nil && err2 == nil && u.Host == v.Host
}

// named returns the addresses of the icons that a page names, the best first.
func named(a env.Answer) (of []string) {
	base, icons := page.Icons(a.Body)
	if resolved, err := feed.Resolve(a.FinalURL, base); err == nil {
		base = resolved
	} else {
		base = a.FinalURL
	}
	for _, target := range icons {
		if address, err := feed.Resolve(base, target); err == nil && len(of) < maxNamed && !slices.Contains(of, address) {
			of = append(of, address)
		}
	}
	return of
}

// keep stores the icon of a site; an empty one means that it has none. An older icon stays then, because the site, or the
// network of this node, may only have failed.
func (s *Store) keep(site string, body []byte) error {
	if err := os.MkdirAll(s.folder, 0o700); err != nil {
		return fmt.Errorf("icons: %w", err)
	}
	if err := s.makeRoom(); err != nil {
		return fmt.Errorf("icons: %w", err)
	}
	path := s.path(site)
	old, err := os.Stat(path)
	if err == nil && old.Size() > 0 && len(body) == 0 {
		err = os.Chtimes(path, time.Time{}, time.Now()) // not looked for again before maxAge
	} else if err = os.WriteFile(path+".new", body, 0o600); err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		return fmt.Errorf("icons: %w", err)
	}
	return nil
}

// makeRoom removes the oldest icons if the folder is full.
func (s *Store) makeRoom() error {
	entries, err := os.ReadDir(s.folder)
	if err != nil || len(entries) < maxIcons {
		return err
	}
	var files []fs.FileInfo
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			files = append(files, info)
		}
	}
	slices.SortFunc(files, func(a, b fs.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	for _, f := range files[:min(len(files), maxIcons/10)] {
		if err := os.Remove(filepath.Join(s.folder, f.Name())); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) path(site string) string {
	sum := sha256.Sum256([]byte(site))
	return filepath.Join(s.folder, hex.EncodeToString(sum[:16]))
}

// typeOf returns the media type of a picture by its first bytes; "" if it is none that browsers show as an icon.
func typeOf(body []byte) string {
	switch kind := http.DetectContentType(body); kind {
	case "image/x-icon", "image/png", "image/gif", "image/jpeg", "image/webp":
		return kind
	}
	start := bytes.TrimLeft(body[:min(len(body), 1024)], "\ufeff \t\r\n")
	if bytes.HasPrefix(start, []byte("<svg")) || (bytes.HasPrefix(start, []byte("<?xml")) || bytes.HasPrefix(start, []byte("<!--"))) && strings.Contains(string(start), "<svg") {
		return "image/svg+xml"
	}
	return ""
}
