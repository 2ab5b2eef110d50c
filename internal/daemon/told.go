package daemon

import (
	"slices"
	"time"

	"tidings/cobra"
	"tidings/cobra/query"
)

// toldSearches finds the searches whose news the journal records. An article may match thousands of a million searches,
// and the journal would then hold nothing else. From maxToldSearches on it therefore records only those searches which a
// target of notifications, a contact of the messenger or a subscriber of the hub has named. Feeds of searches are complete
// in any case. The fields are owned by the keyword loop.
type toldSearches struct {
	named   func() []string // queries that somebody has named; any goroutine may call it
	numbers map[string]cobra.SubscriptionID
	readAt  time.Time
}

const (
	// maxToldSearches is the number of searches up to which the journal records the news of all.
	maxToldSearches = 10_000
	// toldInterval is the time between two looks at the named queries. An article that matches a search in this time after
	// it was named is told with the next one that matches.
	toldInterval = 10 * time.Second
	// maxToldLookups bounds the named queries that one look searches for, each of which takes half a millisecond for a
	// million searches. The others are searched for by the next looks.
	maxToldLookups = 100
)

// matched returns the searches that an article has matched, as far as the journal records them.
func (t *toldSearches) matched(r *cobra.Reflector, now time.Time) []cobra.SubscriptionID {
	if r.Stats().Subscriptions <= maxToldSearches {
		return r.Matched()
	}
	t.update(r, now)
	numbers := make([]cobra.SubscriptionID, 0, len(t.numbers))
	for _, n := range t.numbers {
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	return r.MatchedOf(numbers)
}

// update looks at the named queries, if that is due.
func (t *toldSearches) update(r *cobra.Reflector, now time.Time) {
	if wait := now.Sub(t.readAt); wait >= 0 && wait < toldInterval {
		return
	}
	t.readAt = now
	before := t.numbers
	t.numbers = map[string]cobra.SubscriptionID{}
	lookups := 0
	for _, text := range t.named() {
		if n, known := before[text]; known && r.Active(n) {
			t.numbers[text] = n
			continue
		}
		if lookups++; lookups > maxToldLookups {
			continue
		}
		clauses, err := query.Clauses(text)
		if err != nil {
			continue // an earlier version accepted it, and no article matches it any more
		}
		if same := r.Find(clauses); len(same) > 0 {
			t.numbers[text] = same[0]
		}
	}
}

// namedSearches returns the queries that somebody who is told of news has named.
func (o *outlets) namedSearches() (queries []string) {
	queries = append(o.notifications.namedSearches(), o.hub.namedSearches()...)
	if o.messenger != nil {
		queries = append(queries, o.messenger.namedSearches()...)
	}
	slices.Sort(queries)
	return slices.Compact(queries)
}

func (n *notifications) namedSearches() (queries []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, t := range n.targets {
		queries = append(queries, t.Queries...)
	}
	return queries
}

func (h *hub) namedSearches() (queries []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.byID {
		if s.Query != "" {
			queries = append(queries, s.Query)
		}
	}
	return queries
}

func (m *messenger) namedSearches() (queries []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.contacts {
		queries = append(queries, c.Queries...)
	}
	return queries
}
