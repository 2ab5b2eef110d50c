package sim

import (
	"math"
	"time"
)

// A Topology returns how long a frame travels between two hosts, one way and without jitter. It is
// called with the lower index first, when a link opens.
type Topology func(a, b int) time.Duration

// Uniform is the topology in which all hosts are equally far apart.
func Uniform(delay time.Duration) Topology {
	return func(int, int) time.Duration { return delay }
}

// Bounds and shape of the plane, chosen for a median of 40 ms. A small share of the pairs are
// neighbours; the farthest are an ocean apart.
const (
	planeMinDelay = 5 * time.Millisecond
	planeWidth    = 52 * time.Millisecond // side of the square
	planeAccess   = 6 * time.Millisecond  // mean access delay of a host to the backbone
	planeMaxDelay = 150 * time.Millisecond
)

// Plane is the default topology: hosts are scattered over a square, and each has an access delay of
// its own, mostly a short one. Delays are between 5 and 150 ms, with a median of 40 ms.
func Plane(seed uint64) Topology {
	place := func(host int) (x, y, access float64) {
		a := mix64(seed ^ mix64(uint64(host)))
		b := mix64(a)
		c := mix64(b)
		return toUnit(a), toUnit(b), -math.Log(1 - toUnit(c))
	}
	return func(a, b int) time.Duration {
		ax, ay, ah := place(a)
		bx, by, bh := place(b)
		d := math.Hypot(ax-bx, ay-by)*float64(planeWidth) + (ah+bh)*float64(planeAccess)
		return min(max(time.Duration(d), planeMinDelay), planeMaxDelay)
	}
}
