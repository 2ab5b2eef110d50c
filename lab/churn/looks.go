package churn

import (
	"math/rand/v2"
	"time"

	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/sim"
)

// lookLayer is the layer of look-ups whose answer is judged here: none of the protocol's.
const lookupLayer wire.Layer = 254

// receiptLimit is within what time the receipt of a look-up has to be there to count. Two
// links to be opened over the slowest paths of sim.King take over three seconds by
// themselves; one that takes ten is lost.
const ackTimeout = 10 * time.Second

// looks are look-ups made at a steady rate, and how many of each second were right: the
// live member nearest the key acknowledged them, on the first attempt.
type lookupSeries struct {
	w     *world
	rng   *rand.Rand
	began time.Time
	sent  []int // by second since it began
	right []int
}

// look makes rate look-ups a second from now on, for some time, each from a live member
// by the dice, for a key by the dice.
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

// route routes a message, and tells its receipt if it gets one.
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

// since is after how many seconds no second had more than a part of its look-ups wrong.
func (l *lookupSeries) rightAfter(part float64) float64 {
	last := 0
	for i := range l.sent {
		if float64(l.sent[i]-l.right[i]) > part*float64(l.sent[i]) {
			last = i + 1
		}
	}
	return float64(last)
}

// curve is the part of the look-ups of each second that was right.
func (l *lookupSeries) rightShares() []float64 {
	of := make([]float64, len(l.sent))
	for i := range of {
		of[i] = float64(l.right[i]) / float64(max(l.sent[i], 1))
	}
	return of
}
