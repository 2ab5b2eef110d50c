package proxy

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"tidings/internal/feed"
)

// Candidates is the interface of a hosting centre's crawler for the feeds that it has found and its list lacks. It is safe for
// concurrent use. The error is ErrNoCandidate if the node is no crawler.
type Candidates interface {
	// Candidates returns the feeds that are proposed, the best first.
	Candidates(ctx context.Context) (CandidatesResponse, error)
	// DismissCandidate lets a feed not be proposed any more, and returns when that is durable. The error is ErrNoCandidate if
	// it is not proposed.
	DismissCandidate(ctx context.Context, url string) error
}

// ErrNoCandidate is the error for an address that no candidate has.
var ErrNoCandidate = errors.New("there is no such candidate")

// A Candidate is a feed that a crawler has found and its list lacks.
type Candidate struct {
	URL    string    `json:"url"`
	Title  string    `json:"title"`  // may be empty
	Format string    `json:"format"` // rss, rdf, atom or json; "": the feed has not been read
	Sites  int       `json:"sites"`  // other sites whose articles link to the host where it was found
	Times  uint64    `json:"times"`  // how many articles do
	First  time.Time `json:"first"`  // when the first of them was seen
	Last   time.Time `json:"last"`   // when the last was
}

// Discovery says how a crawler looks for feeds.
type Discovery struct {
	Candidates int    `json:"candidates"` // feeds that it proposes
	Hosts      int    `json:"hosts"`      // hosts that articles have named, looked at or not
	Requests   uint64 `json:"requests"`   // what looking has cost since the start
	Budget     int    `json:"budget"`     // requests an hour that it may cost; 0: the crawler does not look
}

// CandidatesResponse is the answer of candidates and of candidates/dismiss.
type CandidatesResponse struct {
	Candidates []Candidate `json:"candidates"` // of candidates/dismiss: none
	Discovery  Discovery   `json:"discovery"`
}

// maxCandidates bounds the candidates of an answer.
const maxCandidates = 10_000

// apiCandidates lists the candidates.
func (s *Server) apiCandidates(_ http.ResponseWriter, r *http.Request) (any, error) {
	q := r.URL.Query()
	limit, err := limitOf(q, maxCandidates)
	if err != nil {
		return nil, err
	}
	least, err := leastOf(q)
	if err != nil {
		return nil, err
	}
	all, err := s.config.Candidates.Candidates(r.Context())
	shown := []Candidate{}
	for _, c := range all.Candidates {
		if c.Sites >= least && len(shown) < limit {
			shown = append(shown, c)
		}
	}
	all.Candidates = shown
	return all, err
}

// leastOf reads how many sites a candidate needs at least.
func leastOf(q url.Values) (int, error) {
	text := q.Get("least")
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, refuse(http.StatusBadRequest, "least %s: give a number of sites", oneLine(text))
	}
	return n, nil
}

// apiDismissCandidate lets a candidate not be proposed any more.
func (s *Server) apiDismissCandidate(w http.ResponseWriter, r *http.Request) (any, error) {
	q, err := decodeRequest[AddressRequest](w, r)
	if err != nil {
		return nil, err
	}
	address, err := feed.Canonical(q.URL)
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "%v", err)
	}
	if err := s.config.Candidates.DismissCandidate(r.Context(), address); err != nil {
		return nil, err
	}
	answer, err := s.config.Candidates.Candidates(r.Context())
	answer.Candidates = []Candidate{}
	return answer, err
}
