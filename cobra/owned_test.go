package cobra

import (
	"slices"
	"testing"
)

// Searches of several owners for the same words are different searches, and one that ends leaves the others. Whose they are
// survives a restart.
func TestSearchesHaveOwners(t *testing.T) {
	d := newDisk()
	r := open(t, d, Config{})
	begin := func(owner uint32, text string) (number SubscriptionID) {
		t.Helper()
		r.Subscribe(owner, text, nil, func(n SubscriptionID, err error) {
			if number = n; err != nil {
				t.Error(err)
			}
		})
		d.write(100)
		return number
	}
	own, first, second, third := begin(0, "sun"), begin(7, "sun"), begin(9, "sun"), begin(7, "moon")
	check := func(when string, want map[uint32][]SubscriptionID) {
		t.Helper()
		total := 0
		for owner, numbers := range want {
			if got := r.Owned(owner); !slices.Equal(got, numbers) {
				t.Errorf("%s: owner %d has %v, want %v", when, owner, got, numbers)
			}
			for _, n := range numbers {
				if s, err := Query(d, n); err != nil || s.Owner != owner {
					t.Errorf("%s: search %d is of %d, %v", when, n, s.Owner, err)
				}
			}
			total += len(numbers)
		}
		if n := r.Stats().Owned; n != total {
			t.Errorf("%s: %d searches have owners, want %d", when, n, total)
		}
	}
	check("made", map[uint32][]SubscriptionID{7: {first, third}, 9: {second}})
	r = open(t, d, Config{})
	check("after a restart", map[uint32][]SubscriptionID{7: {first, third}, 9: {second}})
	r.Unsubscribe(first, func(err error) {
		if err != nil {
			t.Error(err)
		}
	})
	d.write(100)
	check("one has ended", map[uint32][]SubscriptionID{7: {third}, 9: {second}})
	r.Receive(distinctArticle(0, "sun"), func() {})
	d.write(100)
	for _, n := range []SubscriptionID{own, second} {
		if got := titlesOf(t, r, d, n); len(got) != 1 {
			t.Errorf("search %d has %q", n, got)
		}
	}
	if _, ok := r.Feed(first); ok {
		t.Error("a search that has ended has a feed")
	}
	d.full = true
	r.Subscribe(9, "stars", nil, func(_ SubscriptionID, err error) {
		if err == nil {
			t.Error("a full disk takes a search")
		}
	})
	d.write(100)
	check("after a search that failed", map[uint32][]SubscriptionID{7: {third}, 9: {second}})
	if got := r.Owners(); !slices.Equal(got, []uint32{7, 9}) {
		t.Errorf("owners are %v", got)
	}
}
