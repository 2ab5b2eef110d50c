package churn

import (
	"math/rand/v2"
	"time"

	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/sim"
)

// lookupLayer is the layer of the lookups made here. No protocol uses it.
const lookupLayer wire.Layer = 254

// ackTimeout is the time within which an acknowledgement must arrive. Opening two links over the
// slowest paths of sim.King takes more than three seconds; after ten the lookup counts as lost.
const ackTimeout = 10 * time.Second

// A lookupSeries is lookups at a steady rate. A lookup is right if the live member nearest to the
// key acknowledged its first attempt.
type lookupSeries struct {
	w     *world
	rng   *rand.Rand
	began time.Time
	sent  []int // by second since the start
	right []int
}

// startLookups makes rate lookups per second for some time, each from a random live member for a
// random key.
func (w *world) startLookups(rate int, d time.Duration, rng *rand.Rand) *lookupSeries {
	l := &lookupSeries{w: w, rng: rng, began: w.Now(), sent: make([]int, int(d/time.Second)), right: make([]int, int(d/time.Second))}
	for i := range rate * int(d/time.Second) {
		w.After(time.Duration(i)*time.Second/time.Duration(rate), func() { l.lookup(i / rate) })
	}
	return l
}

func (l *lookupSeries) lookup(second int) {
	from, key := l.w.RandomMember(l.rng), randomKey(l.rng)
	root := l.w.Root(key)
	l.sent[second]++
	l.w.route(from, key, func(of overlay.Receipt, took time.Duration) {
		if of.Root == root.OverlayID() && of.Try == 0 && took <= ackTimeout {
			l.right[second]++
		}
	})
}

// route routes a message and passes on the receipt if one comes.
func (w *world) route(from *sim.Peer, key overlay.ID, then func(of overlay.Receipt, took time.Duration)) {
	sent := w.Now()
	from.Do(func() {
		from.Layers().Overlay.Route(lookupLayer, key, nil, func(of overlay.Receipt, ok bool) {
			if ok {
				then(of, w.Now().Sub(sent))
			}
		})
	})
}

// rightAfter returns the number of seconds after which no second had more than a share of its
// lookups wrong.
func (l *lookupSeries) rightAfter(part float64) float64 {
	last := 0
	for i := range l.sent {
		if float64(l.sent[i]-l.right[i]) > part*float64(l.sent[i]) {
			last = i + 1
		}
	}
	return float64(last)
}

// rightShares returns the share of right lookups, by second.
func (l *lookupSeries) rightShares() []float64 {
	of := make([]float64, len(l.sent))
	for i := range of {
		of[i] = float64(l.right[i]) / float64(max(l.sent[i], 1))
	}
	return of
}
