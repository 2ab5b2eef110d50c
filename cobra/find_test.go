package cobra

import (
	"slices"
	"testing"

	"tidings/cobra/index"
	"tidings/cobra/query"
)

// Find finds the subscriptions with the same meaning as a query, however it is written, and leaves no trace of queries that
// nobody has.
func TestSubscriptionsAreFoundByTheirMeaning(t *testing.T) {
	f := NewFilter(Config{}, index.New())
	clauses := func(text string) []query.Clause {
		t.Helper()
		c, err := query.Clauses(text)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	texts := []string{"solar", "wind AND solar", "solar OR wind", "solar -moon", `"solar wind"`, "Wind solar", "wind OR solar", "title:solar"}
	for i, text := range texts {
		if err := f.Add(SubscriptionID(2*i), clauses(text), func(index.ClauseID) {}); err != nil { // every other number is not used
			t.Fatal(err)
		}
	}
	f.Remove(0, clauses("solar"))
	before := f.index.Clauses()
	for text, want := range map[string][]SubscriptionID{
		"solar":                   nil,
		"solar wind":              {2, 10},
		"(wind) OR solar OR wind": {4, 12},
		"solar NOT moon":          {6},
		"solar NOT sun":           nil,
		`"solar wind"`:            {8},
		`"wind solar"`:            nil,
		"title:solar":             {14},
		"title:unheard":           nil,
		"wind OR solar OR rain":   nil,
		"wind":                    nil,
	} {
		if got := f.Find(clauses(text)); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
	if _, known := f.index.Lookup(string(query.WordKey(nil, query.Any, []byte("rain")))); known || f.index.Clauses() != before {
		t.Errorf("looking for queries left %d clauses, want %d; the word of one is known: %v", f.index.Clauses(), before, known)
	}
}
