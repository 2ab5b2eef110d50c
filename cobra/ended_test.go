package cobra

import (
	"slices"
	"testing"
)

// What cannot be ended for want of a disk goes on, and can be ended later.
func TestASubscriptionThatTheDiskKeepsGoesOn(t *testing.T) {
	d := newDisk()
	r := open(t, d, DefaultConfig())
	sun := subscribe(t, r, d, "sun")
	r.Take(named(0, "sun"), func() {})
	d.write(100)
	d.full = true
	var failed error
	r.Unsubscribe(sun, func(err error) { failed = err })
	d.write(100)
	if failed == nil {
		t.Fatal("it is said to be ended")
	}
	d.full = false
	r.Take(named(1, "sun"), func() {})
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
