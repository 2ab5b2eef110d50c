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

// An article that the disk refused has a number that another one may get after a crash: no ring has that.
func TestANumberThatWasLostIsInNoRing(t *testing.T) {
	d := newDisk()
	r := open(t, d, DefaultConfig())
	sun, moon := subscribe(t, r, d, "sun"), subscribe(t, r, d, "moon")
	d.full = true
	r.Take(named(0, "sun"), func() {})
	d.write(100)
	d.full = false
	d.now = r.Run(d.now)
	for range 3 {
		d.now = r.Run(d.now)
	}
	d.write(100) // the page
	r = open(t, d, DefaultConfig())
	r.Take(named(1, "moon"), func() {})
	d.write(100)
	if got := titlesOf(t, r, d, sun); len(got) != 0 {
		t.Errorf("sun has %q", got)
	}
	if got := titlesOf(t, r, d, moon); len(got) != 1 {
		t.Errorf("moon has %q", got)
	}
}
