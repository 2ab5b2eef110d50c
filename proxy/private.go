package proxy

import (
	"context"
	"encoding/hex"
	"net/http"
	"net/url"
	"strings"

	"tidings/internal/feed"
)

// PrivateFeeds is the node's interface for private feeds: the node alone polls them, with a password, a cookie or a
// token that no other node may see. It is safe for concurrent use. In [Subscriptions], the name of a private feed
// stands for its address.
type PrivateFeeds interface {
	// SubscribePrivately subscribes to a feed, or changes the headers or the description of one. It returns when
	// that is durable. It polls a new feed first, and waits for the answer until ctx ends; a feed that cannot be read with these
	// credentials is not subscribed to. ReadURL in the answer is a path of this server.
	SubscribePrivately(ctx context.Context, p PrivateFeed) (SubscribeMessage, error)
	// FindPrivate returns the name of a private feed, for its name, its path at this server, or its own address.
	FindPrivate(address string) (name string, ok bool)
}

// A PrivateFeed is what a user says about a private feed.
type PrivateFeed struct {
	Address     string            // as a person types it, perhaps with a user name and a password
	Headers     map[string]string // sent to the origin with each request
	Description Description
	Later       bool // poll it later, so that the subscription is made whatever the origin answers
}

const (
	// privatePath begins the paths of private feeds at this server.
	privatePath = "/private/"
	// PrivateName begins the names of private feeds.
	PrivateName = "private:"
	// privateTokenBytes is the size of the random token in such a path.
	privateTokenBytes = 16
)

// PrivateReadPath returns the path at which readers find the private feed with a token.
func PrivateReadPath(token string) string { return privatePath + token }

// NewPrivateToken returns the token of random bytes.
func NewPrivateToken(random [privateTokenBytes]byte) string { return hex.EncodeToString(random[:]) }

// findPrivate returns the name of a private feed; see [PrivateFeeds].
func (s *Server) findPrivate(address string) (name string, ok bool) {
	if s.config.Private == nil {
		return "", false
	}
	if u, err := url.Parse(address); err == nil && strings.HasPrefix(u.Path, privatePath) {
		if name, ok = s.config.Private.FindPrivate(u.Path); ok {
			return name, ok
		}
	}
	return s.config.Private.FindPrivate(address)
}

// checkPrivateName returns an error if a person means a private feed, by its name or its path at this server, and there
// is none. raw is not one that findPrivate knows.
func (s *Server) checkPrivateName(r *http.Request, raw string) error {
	rest := raw
	if address, err := feed.Canonical(raw); err == nil {
		if own, ok := s.cutOwn(r, address); ok {
			rest = own
		}
	}
	if s.config.Private != nil && (strings.HasPrefix(raw, PrivateName) || strings.HasPrefix(rest, privatePath)) {
		return refuse(http.StatusNotFound, "no private feed has this name or address, or several have: tidings list shows their names")
	}
	return nil
}

// isPrivate reports whether a request to subscribe asks for a private feed. An address that holds a secret always
// does.
func (s *Server) isPrivate(q SubscribeMessage) bool {
	return q.Private || len(q.Headers) > 0 || s.isPrivateAddress(q.URL)
}

// isPrivateAddress reports whether an address is that of a private feed, or is to become one: it contains a user name
// or a password, or another node gave it to a reader for a private feed.
func (s *Server) isPrivateAddress(raw string) bool {
	raw = strings.TrimSpace(raw)
	if _, known := s.findPrivate(raw); known {
		return true
	}
	u, err := url.Parse(raw)
	token := err == nil && strings.HasPrefix(u.Path, privatePath) && len(u.Path) == len(privatePath)+hex.EncodedLen(privateTokenBytes)
	return s.config.Private != nil && (token || hasCredentials(raw))
}

// hasCredentials reports whether an address contains a user name or a password.
func hasCredentials(raw string) bool { return WithoutPassword(raw) != raw }

// subscribePrivately subscribes to a private feed.
func (s *Server) subscribePrivately(r *http.Request, p PrivateFeed) (SubscribeMessage, error) {
	if s.config.Private == nil {
		return SubscribeMessage{}, refuse(http.StatusNotImplemented, "this node keeps no private feeds")
	}
	p.Address = strings.TrimSpace(p.Address)
	if name, ok := s.findPrivate(p.Address); ok && !hasCredentials(p.Address) {
		p.Address = name
	} else if err := s.checkPrivateName(r, p.Address); err != nil {
		return SubscribeMessage{}, err
	} else if _, isPage := feed.DocumentURL(p.Address); isPage {
		return SubscribeMessage{}, refuse(http.StatusBadRequest, "a page cannot be private, only a feed can")
	} else if !strings.Contains(p.Address, "://") && !isAddress(p.Address) {
		if p.Address = "https://" + p.Address; isLocalAddress(p.Address) {
			p.Address = "http" + strings.TrimPrefix(p.Address, "https")
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), inspectTime)
	defer cancel()
	done, err := s.config.Private.SubscribePrivately(ctx, p)
	if err == nil {
		done.ReadURL = s.base(r) + done.ReadURL
	}
	return done, err
}

// privateTarget parses a path below privatePath.
func (s *Server) privateTarget(r *http.Request, path, query string) (t target, err error) {
	if s.config.Private != nil {
		t.url, t.token = s.config.Private.FindPrivate(path)
	}
	if !t.token {
		return t, refuse(http.StatusNotFound, "not found: the address is not one that this node gave to a reader")
	}
	q, err := url.ParseQuery(query)
	if err != nil {
		return t, refuse(http.StatusBadRequest, "the query of the address is not valid: %v", err)
	}
	t.self = s.base(r) + path + "?"
	err = t.setOptions(q)
	t.self = strings.TrimSuffix(strings.Replace(t.self, "?&", "?", 1), "?")
	return t, err
}
