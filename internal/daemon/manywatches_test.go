package daemon

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tidings/cobra"
	"tidings/feedtree"
	"tidings/proxy"
)

// watchLists reads the list of searches from the API, part by part.
func (m *member) watchLists(t *testing.T, query string) (parts []proxy.WatchResponse) {
	t.Helper()
	for path := "watches?" + query; path != ""; {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+m.HTTPAddr().String()+"/api/v1/"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Tidings", "1")
		r.Header.Set("Tidings-Token", m.dataDir.apiToken)
		var part proxy.WatchResponse
		if err := json.Unmarshal(doRequest(t, r), &part); err != nil {
			t.Fatal(err)
		}
		parts = append(parts, part)
		path = ""
		if part.Next > 0 {
			path = fmt.Sprintf("watches?%s&from=%d", query, part.Next)
		}
	}
	return parts
}

// A node with more searches than one answer has lists all of them, finds each by its query and by the address of its feed,
// and ends it. It takes as many as its setting says, and its journal records those that somebody has named.
func TestMoreSearchesThanAnAnswerHas(t *testing.T) {
	t.Parallel()
	const searches = 10_050
	c := founding(t, "many")
	c.HTTP, c.MaxSearches = "127.0.0.1:0", searches
	m := running(t, c)
	m.awaitMembers(t, 1)
	numbers := make([]cobra.SubscriptionID, searches)
	var all sync.WaitGroup
	const at1 = 150
	for w := range at1 {
		all.Go(func() {
			for i := w; i < searches; i += at1 {
				var err error
				if numbers[i], err = m.keywords.subscribe(t.Context(), 0, fmt.Sprintf("common word%d", i), noArticles); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	if t.Failed() {
		return
	}
	if _, err := m.Watch(t.Context(), "one more"); !errors.Is(err, proxy.ErrFull) || !strings.Contains(err.Error(), "--max-searches") {
		t.Errorf("one search more than the setting allows: %v", err)
	}
	if w, err := m.Watch(t.Context(), "WORD10049 AND common"); err != nil || w.Number != uint32(numbers[10_049]) {
		t.Errorf("a query that the node has is number %d, want %d: %v", w.Number, numbers[10_049], err)
	}
	parts := m.watchLists(t, "")
	if len(parts) != 2 || len(parts[0].Watches) != 10_000 || len(parts[1].Watches) != 50 || parts[0].Total != searches {
		t.Fatalf("%d parts, the first of %d of %d", len(parts), len(parts[0].Watches), parts[0].Total)
	}
	found := m.watchLists(t, "filter=WORD1004&limit=4")
	if len(found) != 3 || len(found[0].Watches) != 4 || len(found[1].Watches) != 4 || len(found[2].Watches) != 3 {
		t.Errorf("11 searches contain a text, and the list has %d parts: %+v", len(found), found)
	}

	var ended proxy.WatchResponse
	last := parts[1].Watches[slices.IndexFunc(parts[1].Watches, func(w proxy.Watch) bool {
		return !slices.Contains([]string{"common word10000", "common word10020"}, w.Query)
	})]
	m.post(t, "unwatch", `{"query":"`+last.ReadURL+`"}`, &ended)
	if len(ended.Watches) != 1 || ended.Watches[0].Query != last.Query || ended.Total != searches-1 {
		t.Errorf("unwatch ends %+v of %d", ended.Watches, ended.Total)
	}
	m.post(t, "unwatch", `{"query":"word10000 common"}`, &ended)
	if len(ended.Watches) != 1 || ended.Watches[0].Query != "common word10000" {
		t.Errorf("unwatch ends %+v", ended.Watches)
	}
	if page := m.get(t, "/watch"); !strings.Contains(page, "10,048 searches") && !strings.Contains(page, "10048 searches") || strings.Count(page, `action="/unwatch"`) != 100 || !strings.Contains(page, "from=") {
		t.Error("the page has other searches, or does not say how many there are, or has no link to further ones")
	}
	if page := m.get(t, "/watch?filter=word10020"); strings.Count(page, `action="/unwatch"`) != 1 {
		t.Error("the page does not show the search that contains a text")
	}

	matched := make(chan uint32, searches)
	if err := m.keywords.do(t.Context(), func() {
		m.keywords.told.named = func() []string { return []string{"common word10020", "common word10000", "nobody has this"} }
		m.keywords.matched = func(number uint32, _ *cobra.Article) { matched <- number }
	}); err != nil {
		t.Fatal(err)
	}
	m.keywords.addItems(feedtree.Subscription{URL: "https://example.org/f"}, items(t, 0, 1, "common word10000 word10020 word10021 word3"))
	select {
	case n := <-matched:
		if n != uint32(numbers[10_020]) {
			t.Errorf("search %d is told, want %d", n, numbers[10_020])
		}
	case <-time.After(awaitTimeout):
		t.Fatal("nobody is told of a search that somebody named")
	}
	if err := m.keywords.do(t.Context(), func() {}); err != nil || len(matched) > 0 {
		t.Errorf("%d searches that nobody named are told, %v", len(matched), err)
	}
}
