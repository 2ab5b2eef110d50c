package script

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Format is that of a feed.
type Format int

// The formats a lively feed is written in.
const (
	RSS Format = iota
	Atom
	JSON
)

// Config says what a lively feed is like. Zeros are filled with the defaults.
type Config struct {
	Seed    uint64
	Format  Format
	Link    string        // of the site; http://lively.example/
	Epoch   time.Time     // the date at which the script begins; the first of January 2026
	Items   int           // that are there in the beginning; 5, a negative number is none
	Window  int           // most items in the document, older ones roll off; 20
	Every   time.Duration // between two new items, on average; a minute
	Limit   int           // items that come; 0: no end
	Rebuild time.Duration // between two builds, each with its date in the document; 0: only items change it
}

// A Lively feed gains an item now and then. Items are numbered from 0; those
// that are there in the beginning come first.
type Lively struct{ config Config }

var _ Script = (*Lively)(nil)

// An Item is one of a lively feed.
type Item struct {
	ID    string
	Link  string
	Title string
	HTML  string
	At    time.Duration // when it comes; negative if it is there in the beginning
}

// NewLively returns a lively feed. Two with the same config are the same.
func NewLively(c Config) *Lively {
	fill(&c.Link, "http://lively.example/")
	fill(&c.Epoch, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	fill(&c.Items, 5)
	fill(&c.Window, 20)
	fill(&c.Every, time.Minute)
	c.Items = max(0, c.Items)
	return &Lively{c}
}

func fill[T comparable](p *T, value T) {
	var zero T
	if *p == zero {
		*p = value
	}
}

// Published is how many items have come by t, those of the beginning included.
func (l *Lively) Published(t time.Duration) int {
	n := l.config.Items
	if t < 0 {
		return n
	}
	came := int(t / l.config.Every) // one in each stretch that is over
	if l.came(came) <= t {
		came++
	}
	if l.config.Limit > 0 {
		came = min(came, l.config.Limit)
	}
	return n + came
}

// came is when the k-th new item comes: at some time in the k-th stretch.
func (l *Lively) came(k int) time.Duration {
	within := l.dice(uint64(k), 1).Int64N(int64(l.config.Every))
	return time.Duration(k)*l.config.Every + time.Duration(within)
}

// dice are those of one purpose for one item.
func (l *Lively) dice(item, purpose uint64) *rand.Rand {
	return rand.New(rand.NewPCG(l.config.Seed, item<<8|purpose))
}

// Item returns the n-th item.
func (l *Lively) Item(n int) Item {
	r := l.dice(uint64(n), 2)
	i := Item{
		ID:    fmt.Sprintf("tag:lively.example,2026:%d/%d", l.config.Seed, n),
		Link:  fmt.Sprintf("%sitems/%d", l.config.Link, n),
		Title: fmt.Sprintf("%s (%d)", title(r), n),
		HTML:  text(r),
		At:    time.Duration(n-l.config.Items) * l.config.Every,
	}
	if n >= l.config.Items {
		i.At = l.came(n - l.config.Items)
	}
	return i
}

// At implements Script.
func (l *Lively) At(t time.Duration) Version {
	t = max(0, t)
	n := l.Published(t)
	v := Version{Index: n - l.config.Items}
	if v.Index > 0 {
		v.Since = l.Item(n - 1).At
	}
	if l.config.Rebuild > 0 {
		builds := int(t / l.config.Rebuild)
		v.Index += builds
		v.Since = max(v.Since, time.Duration(builds)*l.config.Rebuild)
	}
	d := document{title: fmt.Sprintf("Lively feed %d", l.config.Seed), link: l.config.Link, epoch: l.config.Epoch, built: v.Since}
	for i := n - 1; i >= max(0, n-l.config.Window); i-- {
		d.items = append(d.items, l.Item(i))
	}
	v.Body, v.ContentType = d.write(l.config.Format)
	return v
}

// Next implements Script.
func (l *Lively) Next(t time.Duration) (at time.Duration, ok bool) {
	if n := l.Published(t) - l.config.Items; l.config.Limit == 0 || n < l.config.Limit {
		at, ok = l.came(n), true
	}
	if every := l.config.Rebuild; every > 0 {
		if next := (max(t, 0)/every + 1) * every; !ok || next < at {
			at, ok = next, true
		}
	}
	return at, ok
}
