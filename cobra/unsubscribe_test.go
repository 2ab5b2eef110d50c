package cobra

import (
	"slices"
	"testing"
)

// A subscription that cannot be removed because the disk is full continues, and can be removed
// later.
func TestFailedUnsubscribeKeepsTheSubscription(t *testing.T) {
	d := newDisk()
	r := open(t, d, Config{})
	sun := subscribe(t, r, d, "sun")
	r.Receive(distinctArticle(0, "sun"), func() {})
	d.write(100)
	d.full = true
	var failed error
	r.Unsubscribe(sun, func(err error) { failed = err })
	d.write(100)
	if failed == nil {
		t.Fatal("Unsubscribe reports success on a full disk")
	}
	d.full = false
	r.Receive(distinctArticle(1, "sun"), func() {})
	d.write(100)
	if got := titlesOf(t, r, d, sun); !slices.Equal(got, []string{"Article 1", "Article 0"}) {
		t.Errorf("it has %q", got)
	}
	r.Unsubscribe(sun, func(err error) { failed = err })
	d.write(100)
	if failed != nil {
		t.Error(failed)
	}
}

// An article that the disk refused has a number that another article may get after a crash. No
// ring contains that number.
func TestReusedArticleNumberIsInNoRing(t *testing.T) {
	d := newDisk()
	r := open(t, d, Config{})
	sun, moon := subscribe(t, r, d, "sun"), subscribe(t, r, d, "moon")
	d.full = true
	r.Receive(distinctArticle(0, "sun"), func() {})
	d.write(100)
	d.full = false
	d.now = r.Run(d.now)
	for range 3 {
		d.now = r.Run(d.now)
	}
	d.write(100) // writes the page of rings
	r = open(t, d, Config{})
	r.Receive(distinctArticle(1, "moon"), func() {})
	d.write(100)
	if got := titlesOf(t, r, d, sun); len(got) != 0 {
		t.Errorf("sun has %q", got)
	}
	if got := titlesOf(t, r, d, moon); len(got) != 1 {
		t.Errorf("moon has %q", got)
	}
}
