package proxy

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"
)

// SearchTokens is the node's interface for the tokens with which people who are not its user make searches. It is safe for
// concurrent use.
type SearchTokens interface {
	// CreateToken makes a token with a name, a number of searches and a time at which it expires, each of which may be zero.
	// It returns the token with its text when it is durable. The error is ErrToken or ErrFull.
	CreateToken(ctx context.Context, t SearchToken) (SearchToken, error)
	// ChangeToken changes the limits of a token. If the token has more searches than it may have from then on, it keeps them. It
	// returns the token when that is durable. The error is ErrNoToken or ErrToken.
	ChangeToken(ctx context.Context, l TokenLimits) (SearchToken, error)
	// RevokeToken ends the token with an id or a name, and its searches, and returns when that is durable. Searches in the
	// answer says how many have ended. The error is ErrNoToken if there is none.
	RevokeToken(ctx context.Context, name string) (SearchToken, error)
	// Tokens returns the valid tokens, the oldest first.
	Tokens(ctx context.Context) ([]SearchToken, error)
	// HasTokens reports whether there is a token.
	HasTokens() bool
	// Searcher returns the valid token with a text, or nil.
	Searcher(text string) Searcher
}

// A Searcher makes searches with a token. It is safe for concurrent use.
type Searcher interface {
	// Allow reports whether the token may be used now; it may not if it was used too often.
	Allow() bool
	// Searches returns the token and its searches, the oldest first.
	Searches(ctx context.Context) (SearchToken, []Watch, error)
	// Watch makes a search, as that of [Keywords] does, or returns the one that the token has. The error may also be ErrQuota,
	// or ErrNoToken if the token was revoked meanwhile.
	Watch(ctx context.Context, query string) (Watch, error)
	// Unwatch ends a search of the token. The error is ErrNoSubscription if it has none with this number.
	Unwatch(ctx context.Context, number uint32) error
}

// A SearchToken is a token with which somebody makes searches.
type SearchToken struct {
	ID          string     `json:"id"`
	Name        string     `json:"name"`
	Searches    int        `json:"searches"`     // that it has; in the answer of tokens/revoke, those that have ended
	MaxSearches int        `json:"max_searches"` // that it may have
	Made        time.Time  `json:"made,omitzero"`
	Expires     *time.Time `json:"expires,omitempty"` // nil: never
	// Token is the text that opens the page of searches. It is shown once, in the answer of tokens.
	Token string `json:"token,omitempty"`
}

// TokenLimits is the request of tokens/change.
type TokenLimits struct {
	ID           string     `json:"id"`                     // or its name
	MaxSearches  *int       `json:"max_searches,omitempty"` // nil: as before
	Expires      *time.Time `json:"expires,omitempty"`      // nil: as before, unless NeverExpires is true
	NeverExpires bool       `json:"never_expires,omitempty"`
}

// TokensResponse is the answer of tokens, tokens/change and tokens/revoke. The latter two, and tokens with POST, list the token
// that they were about.
type TokensResponse struct {
	Tokens []SearchToken `json:"tokens"`
}

// TokenCounts counts tokens and their searches.
type TokenCounts struct {
	Tokens   int `json:"tokens"`
	Searches int `json:"searches"`
}

var (
	// ErrToken is the error for a token that cannot be made, or cannot be changed in this way.
	ErrToken = errors.New("token not accepted")
	// ErrNoToken is the error for a token that does not exist, or is not valid any more.
	ErrNoToken = errors.New("there is no such token")
	// ErrQuota is the error for a search that a token may not have besides the others.
	ErrQuota = errors.New("the token has all the searches that it may have")
)

// apiTokens lists the tokens, or makes one.
func (s *Server) apiTokens(w http.ResponseWriter, r *http.Request) (any, error) {
	if r.Method != http.MethodPost {
		all, err := s.config.Tokens.Tokens(r.Context())
		return TokensResponse{append([]SearchToken{}, all...)}, err
	}
	q, err := decodeStrictly[SearchToken](w, r, maxRequest)
	if err != nil {
		return nil, err
	}
	q.Name = strings.TrimSpace(q.Name)
	made, err := s.config.Tokens.CreateToken(r.Context(), q)
	return TokensResponse{[]SearchToken{made}}, err
}

// apiChangeToken changes the limits of a token.
func (s *Server) apiChangeToken(w http.ResponseWriter, r *http.Request) (any, error) {
	q, err := decodeStrictly[TokenLimits](w, r, maxRequest)
	if err != nil {
		return nil, err
	}
	if q.MaxSearches == nil && q.Expires == nil && !q.NeverExpires {
		return nil, refuse(http.StatusBadRequest, "nothing to change: give max_searches, expires or never_expires")
	}
	q.ID = strings.TrimSpace(q.ID)
	changed, err := s.config.Tokens.ChangeToken(r.Context(), q)
	return TokensResponse{[]SearchToken{changed}}, err
}

// apiRevokeToken ends a token and its searches.
func (s *Server) apiRevokeToken(w http.ResponseWriter, r *http.Request) (any, error) {
	q, err := decodeStrictly[SearchToken](w, r, maxRequest)
	if err != nil {
		return nil, err
	}
	revoked, err := s.config.Tokens.RevokeToken(r.Context(), strings.TrimSpace(q.ID))
	return TokensResponse{[]SearchToken{revoked}}, err
}
