package daemon

import (
	"context"
	"errors"
	"fmt"

	"tidings/cobra/provision"
	"tidings/cobra/tiers"
	"tidings/proxy"
)

var errNoCrawler = kindError{proxy.ErrNoCandidate, errors.New("this node is no crawler of a hosting centre: ask one that is")}

// Candidates returns the feeds that a crawler has found and its list lacks; see proxy.Candidates.
func (h *hosting) Candidates(ctx context.Context) (answer proxy.CandidatesResponse, err error) {
	var state tiers.State
	var found []tiers.Candidate
	if err = h.do(ctx, func() { state, found = h.node.Tiers.State(), h.node.Tiers.Candidates() }); err != nil {
		return answer, err
	}
	discovery := h.discovery(state)
	if discovery == nil {
		return answer, errNoCrawler
	}
	answer.Discovery = *discovery
	for _, c := range tiers.BestFirst(found) {
		answer.Candidates = append(answer.Candidates, proxy.Candidate(c))
	}
	return answer, nil
}

// discovery says how the node looks for feeds; nil if it is no crawler.
func (h *hosting) discovery(s tiers.State) *proxy.Discovery {
	if s.Role != provision.Crawler {
		return nil
	}
	return &proxy.Discovery{Candidates: s.Stats.Candidates, Hosts: s.Stats.Hosts, Requests: s.Stats.Looks, Budget: h.config.Discover}
}

// DismissCandidate lets a feed not be proposed any more; see proxy.Candidates.
func (h *hosting) DismissCandidate(ctx context.Context, url string) error {
	type answer struct {
		found bool
		err   error
	}
	a, err := ask(ctx, h, func(say func(answer)) {
		h.node.Tiers.Dismiss(url, func(found bool, err error) { say(answer{found, err}) })
	})
	switch {
	case err != nil:
		return err
	case a.err != nil:
		return fmt.Errorf("dismiss %s: %w", url, a.err)
	case !a.found:
		return kindError{proxy.ErrNoCandidate, fmt.Errorf("this node does not propose %s: tidings candidates list shows what it does", url)}
	}
	return nil
}
