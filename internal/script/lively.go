package script

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"time"
)

// Format is the format of a feed.
type Format int

// The formats of a lively feed.
const (
	RSS Format = iota
	Atom
	JSON
)

// Config holds the parameters of a lively feed. Zero values select the defaults.
type Config struct {
	Seed    uint64
	Format  Format
	Link    string        // of the site; default http://lively.example/
	Epoch   time.Time     // date at which the script begins; default 1 January 2026
	Items   int           // number of items at the beginning; default 5, negative: none
	Window  int           // maximum number of items in the document, of which older ones drop out; default 20
	Every   time.Duration // mean time between two new items; default 1 min
	Limit   int           // number of new items; 0: unlimited
	Rebuild time.Duration // time between two builds, each of which changes a date in the document; 0: only items change it
}

// A Lively feed gains an item now and then. Items are numbered from 0, beginning with those of the
// start.
type Lively struct{ config Config }

var _ Script = (*Lively)(nil)

// An Item is an item of a lively feed.
type Item struct {
	ID    string
	Link  string
	Title string
	HTML  string
	At    time.Duration // time of its arrival; negative for items of the start
}

// NewLively returns a lively feed. Equal configs give equal feeds.
func NewLively(c Config) *Lively {
	c.Link = cmp.Or(c.Link, "http://lively.example/")
	c.Epoch = cmp.Or(c.Epoch, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	c.Items = cmp.Or(c.Items, 5)
	c.Window = cmp.Or(c.Window, 20)
	c.Every = cmp.Or(c.Every, time.Minute)
	c.Items = max(0, c.Items)
	return &Lively{c}
}

// Published returns the number of items that have arrived by t, including those of the start.
func (l *Lively) Published(t time.Duration) int {
	n := l.config.Items
	if t < 0 {
		return n
	}
	arrived := int(t / l.config.Every) // one in each interval that is over
	if l.arrival(arrived) <= t {
		arrived++
	}
	if l.config.Limit > 0 {
		arrived = min(arrived, l.config.Limit)
	}
	return n + arrived
}

// arrival returns when the k-th new item arrives: at a random time in the k-th interval.
func (l *Lively) arrival(k int) time.Duration {
	within := l.rng(uint64(k), 1).Int64N(int64(l.config.Every))
	return time.Duration(k)*l.config.Every + time.Duration(within)
}

// rng returns the random source of one purpose for one item.
func (l *Lively) rng(item, purpose uint64) *rand.Rand {
	return rand.New(rand.NewPCG(l.config.Seed, item<<8|purpose))
}

// Item returns the n-th item.
func (l *Lively) Item(n int) Item {
	r := l.rng(uint64(n), 2)
	i := Item{
		ID:    fmt.Sprintf("tag:lively.example,2026:%d/%d", l.config.Seed, n),
		Link:  fmt.Sprintf("%sitems/%d", l.config.Link, n),
		Title: fmt.Sprintf("%s (%d)", title(r), n),
		HTML:  text(r),
		At:    time.Duration(n-l.config.Items) * l.config.Every,
	}
	if n >= l.config.Items {
		i.At = l.arrival(n - l.config.Items)
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
		at, ok = l.arrival(n), true
	}
	if every := l.config.Rebuild; every > 0 {
		if next := (max(t, 0)/every + 1) * every; !ok || next < at {
			at, ok = next, true
		}
	}
	return at, ok
}
