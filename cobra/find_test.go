package cobra

import (
	"errors"
	"fmt"
	"slices"
	"strings"
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

// A list of subscriptions may begin at any number, ends when its reader says so, and lacks those that have ended.
func TestSubscriptionsAreListedFromANumberOn(t *testing.T) {
	d := newDisk()
	r := open(t, d, Config{})
	var want []SubscriptionID
	for i := range 2*blockSubscriptions + 9 {
		n := subscribe(t, r, d, fmt.Sprint("word", i))
		if i%7 != 3 {
			want = append(want, n)
			continue
		}
		r.Unsubscribe(n, func(err error) {
			if err != nil {
				t.Error(err)
			}
		})
		d.write(1)
	}
	for _, from := range []SubscriptionID{0, 1, 3, blockSubscriptions - 1, blockSubscriptions, blockSubscriptions + 1, 2*blockSubscriptions + 8, 2*blockSubscriptions + 9, 1 << 31} {
		var rest []SubscriptionID
		for _, n := range want {
			if n >= from {
				rest = append(rest, n)
			}
		}
		for _, most := range []int{1, 300, 1000} {
			var got []SubscriptionID
			if err := Subscriptions(d, from, func(n SubscriptionID, s Subscription) bool {
				if text := s.Query; text != fmt.Sprint("word", n) {
					t.Errorf("subscription %d is %s", n, text)
				}
				got = append(got, n)
				return len(got) < most
			}); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, rest[:min(most, len(rest))]) {
				t.Errorf("%d from %d on: %v", most, from, got)
			}
		}
	}
}

// The limit is a setting. Subscriptions that exist stay when it is lowered, and there is room again when enough of them
// have ended.
func TestLimitOfSubscriptions(t *testing.T) {
	d := newDisk()
	r := open(t, d, Config{MaxSubscriptions: 3})
	refused := func(r *Reflector) (err error) {
		r.Subscribe(0, "more", nil, func(_ SubscriptionID, e error) { err = e })
		d.write(10)
		return err
	}
	for _, text := range []string{"one", "two", "three"} {
		subscribe(t, r, d, text)
	}
	if err := refused(r); !errors.Is(err, ErrFull) || r.Stats().Subscriptions != 3 || r.Stats().Nodes != 3 {
		t.Errorf("the fourth: %v, with %+v", err, r.Stats())
	}
	r = open(t, d, Config{MaxSubscriptions: 2})
	for n := range SubscriptionID(2) {
		if err := refused(r); !errors.Is(err, ErrFull) || !r.Active(n) {
			t.Errorf("with a lower limit: %v, subscription %d lasts: %v", err, n, r.Active(n))
		}
		r.Unsubscribe(n, func(error) {})
		d.write(10)
	}
	if err := refused(r); err != nil {
		t.Error(err)
	}
}

// Queries of frequent words only are accepted like others, and match.
func TestGeneralQueriesAreNotRefused(t *testing.T) {
	f := NewFilter(Config{}, index.New())
	words := strings.Fields("the of and to in is was he for it with as his on be at by had not are")
	a := &Article{HTML: strings.Join(words, " ")}
	for range 50 {
		f.Match(a) // from now on these words are frequent
	}
	n := SubscriptionID(0)
	for i := range words {
		for j := range i {
			for k := range j {
				c, err := query.Clauses(words[i] + " " + words[j] + " " + words[k])
				if err == nil {
					err = f.Add(n, c, func(index.ClauseID) {})
				}
				if err != nil {
					t.Fatal(err)
				}
				n++
			}
		}
	}
	if hits := f.Match(a); len(hits) != int(n) {
		t.Errorf("an article with all words matches %d of %d", len(hits), n)
	}
	if hits := f.Match(&Article{HTML: "the of and to"}); len(hits) != 4 {
		t.Errorf("an article with four words matches %d, want 4", len(hits))
	}
}
