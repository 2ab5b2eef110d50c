package daemon

import (
	"context"
	"errors"

	"golang.org/x/time/rate"

	"tidings/proxy"
)

// A searchToken is a token, and a [proxy.Searcher].
type searchToken struct {
	tokenRecord
	all  *searchTokens
	pace *rate.Limiter
}

// record returns what the file says about the token now.
func (s *searchToken) record() tokenRecord {
	s.all.mu.Lock()
	defer s.all.mu.Unlock()
	return s.tokenRecord
}

// Allow implements [proxy.Searcher].
func (s *searchToken) Allow() bool { return s.pace.AllowN(s.all.now(), 1) }

// Searches returns the searches of the token; see proxy.Searcher.
func (s *searchToken) Searches(ctx context.Context) (proxy.SearchToken, []proxy.Watch, error) {
	numbers, err := s.all.watches.owned(ctx, ownerOf(s.ID))
	all := []proxy.Watch{}
	for _, n := range numbers {
		var w proxy.Watch
		if err == nil {
			w, err = s.all.watches.LookUp(ctx, uint32(n))
		}
		switch {
		case errors.Is(err, proxy.ErrNoSubscription): // it has just ended, or is not on the disk yet
			err = nil
		case err == nil:
			all = append(all, w)
		}
	}
	return s.record().shown(len(numbers)), all, err
}

// Watch makes a search; see proxy.Searcher.
func (s *searchToken) Watch(ctx context.Context, text string) (proxy.Watch, error) {
	owner := ownerOf(s.ID)
	return s.all.watches.watchFor(ctx, text, owner, func() error {
		record := s.record()
		owned, err := s.all.watches.owned(ctx, owner)
		switch {
		case !record.isValid(s.all.now()):
			return proxy.ErrNoToken
		case err == nil && len(owned) >= record.Searches:
			return proxy.ErrQuota
		}
		return err
	})
}

// Unwatch ends a search; see proxy.Searcher.
func (s *searchToken) Unwatch(ctx context.Context, number uint32) error {
	w, err := s.all.watches.LookUp(ctx, number)
	if err == nil && w.Token != s.ID {
		err = proxy.ErrNoSubscription
	}
	if err != nil {
		return err
	}
	return s.all.watches.Unwatch(ctx, number)
}

var _ proxy.Searcher = (*searchToken)(nil)
