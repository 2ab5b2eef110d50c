package proxy

import (
	"context"
	"slices"
	"sync"
)

// memoryTokens implements SearchTokens in memory, with one token, whose text is memoryToken.
type memoryTokens struct {
	mu       sync.Mutex
	token    *SearchToken
	keywords memoryKeywords
}

const memoryToken = "SECRETSECRETSECRETSECRET42"

func (m *memoryTokens) CreateToken(_ context.Context, q SearchToken) (SearchToken, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	q.ID, m.token = "0000002a", &q
	made := q
	made.Token = memoryToken
	return made, nil
}

func (m *memoryTokens) ChangeToken(_ context.Context, q TokenLimits) (SearchToken, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.token == nil || q.ID != m.token.ID && q.ID != m.token.Name {
		return SearchToken{}, ErrNoToken
	}
	if q.MaxSearches != nil {
		m.token.MaxSearches = *q.MaxSearches
	}
	if q.Expires != nil || q.NeverExpires {
		m.token.Expires = q.Expires
	}
	return *m.token, nil
}

func (m *memoryTokens) RevokeToken(_ context.Context, name string) (SearchToken, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.token == nil || name != m.token.ID && name != m.token.Name {
		return SearchToken{}, ErrNoToken
	}
	revoked := *m.token
	m.token = nil
	return revoked, nil
}

func (m *memoryTokens) Tokens(context.Context) (all []SearchToken, _ error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.token != nil {
		all = append(all, *m.token)
	}
	return all, nil
}

func (m *memoryTokens) HasTokens() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.token != nil
}

func (m *memoryTokens) Searcher(text string) Searcher {
	if !m.HasTokens() || text != memoryToken {
		return nil
	}
	return m
}

func (m *memoryTokens) Allow() bool { return true }

func (m *memoryTokens) Searches(context.Context) (SearchToken, []Watch, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	token := *m.token
	token.Searches = m.keywords.CountWatches()
	return token, slices.Clone(m.keywords.watches), nil
}

func (m *memoryTokens) Watch(ctx context.Context, query string) (Watch, error) {
	if m.keywords.CountWatches() >= m.token.MaxSearches {
		return Watch{}, ErrQuota
	}
	return m.keywords.Watch(ctx, query)
}

func (m *memoryTokens) Unwatch(ctx context.Context, number uint32) error {
	return m.keywords.Unwatch(ctx, number)
}
