package sim

import (
	"math"
	"time"
)

// A Topology says how long a frame travels, one way and without jitter, between
// two hosts, given by their indices. It is asked with the lower index first,
// when a link opens.
type Topology func(a, b int) time.Duration

// Uniform is the topology in which all hosts are equally far apart.
func Uniform(delay time.Duration) Topology {
	return func(int, int) time.Duration { return delay }
}

// The plane's bounds and shape, chosen for a median of 40 ms between hosts: a
// small part are neighbours, the far ones an ocean apart.
const (
	planeNearest = 5 * time.Millisecond
	planeWidth   = 52 * time.Millisecond // along one side of the square
	planeAccess  = 6 * time.Millisecond  // mean of each host's way to the backbone
	planeFurther = 150 * time.Millisecond
)

// Plane is the default topology: hosts are scattered over a square, and each
// has a way of its own to the backbone, mostly short. Delays lie between 5 and
// 150 ms, half of them above 40 ms.
func Plane(seed uint64) Topology {
	place := func(host int) (x, y, access float64) {
		a := scatter(seed ^ scatter(uint64(host)))
		b := scatter(a)
		c := scatter(b)
		return unit(a), unit(b), -math.Log(1 - unit(c))
	}
	return func(a, b int) time.Duration {
		ax, ay, ah := place(a)
		bx, by, bh := place(b)
		d := math.Hypot(ax-bx, ay-by)*float64(planeWidth) + (ah+bh)*float64(planeAccess)
		return min(max(time.Duration(d), planeNearest), planeFurther)
	}
}
