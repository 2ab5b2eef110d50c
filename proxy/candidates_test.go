package proxy

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// memoryCandidates are the candidates of a crawler in memory.
type memoryCandidates struct{ all []Candidate }

// newMemoryCandidates returns four candidates, to which 3, 2, 1 and no other sites link.
func newMemoryCandidates() *memoryCandidates {
	m := &memoryCandidates{}
	for i := range 4 {
		m.all = append(m.all, Candidate{URL: fmt.Sprintf("https://blog%d.example/feed", i), Format: "atom", Sites: 3 - i, Times: 9, First: time.Unix(1e9, 0), Last: time.Unix(1e9, 0)})
	}
	return m
}

func (m *memoryCandidates) Candidates(context.Context) (CandidatesResponse, error) {
	return CandidatesResponse{Candidates: m.all, Discovery: Discovery{Candidates: len(m.all), Budget: 60}}, nil
}

func (m *memoryCandidates) DismissCandidate(_ context.Context, url string) error {
	i := slices.IndexFunc(m.all, func(c Candidate) bool { return c.URL == url })
	if i < 0 {
		return ErrNoCandidate
	}
	m.all = slices.Delete(m.all, i, i+1)
	return nil
}

func TestCandidatesAreListedAndDismissed(t *testing.T) {
	b := newTestServer(t, func(c *Config) { c.Candidates = newMemoryCandidates() })
	for _, c := range []struct {
		method, name, body string
		status             int
		want               string // addresses, and how many candidates there are
	}{
		{"GET", "candidates", "", 200, "blog0 blog1 blog2 blog3 of 4"},
		{"GET", "candidates?least=2", "", 200, "blog0 blog1 of 4"},
		{"GET", "candidates?limit=1", "", 200, "blog0 of 4"},
		{"GET", "candidates?least=many", "", 400, ""},
		{"GET", "candidates?limit=0", "", 400, ""},
		{"POST", "candidates/dismiss", `{"url":"HTTPS://blog1.example/feed"}`, 200, "of 3"},
		{"POST", "candidates/dismiss", `{"url":"https://blog1.example/feed"}`, 404, ""},
		{"POST", "candidates/dismiss", `{"url":"ftp:"}`, 400, ""},
		{"GET", "candidates", "", 200, "blog0 blog2 blog3 of 3"},
	} {
		var answer CandidatesResponse
		status := b.call(c.method, c.name, c.body, &answer)
		got := ""
		if status == 200 {
			for _, f := range answer.Candidates {
				name, _, _ := strings.Cut(strings.TrimPrefix(f.URL, "https://"), ".")
				got += name + " "
			}
			got += fmt.Sprintf("of %d", answer.Discovery.Candidates)
		}
		if status != c.status || got != c.want {
			t.Errorf("%s %s %s: %d %q, want %d %q", c.method, c.name, c.body, status, got, c.status, c.want)
		}
	}
}
