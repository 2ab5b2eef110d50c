package sim

import (
	"math"
	"time"
)

// King is a topology with the round-trip times of the King data set: those between 1,740 name
// servers all over the world, measured by the method of Gummadi, Saroiu and Gribble (King:
// estimating latency between arbitrary Internet end hosts, IMW 2002). Dabek, Cox, Kaashoek and
// Morris evaluated Vivaldi on it (SIGCOMM 2004). The laboratory and the fault scenarios use this
// topology.
//
// Published facts that the model uses: two coordinates and a height, which is each host's own
// access delay, predict the times with a median error of 11 % (Vivaldi, abstract and §5); the
// median is 159 ms (Vivaldi, §3); no time is above 800 ms, where the measurement ended (Ledlie,
// Gardner and Seltzer, Network coordinates in the wild, NSDI 2007, §3); and more than 99 % of the
// pairs are below 500 ms (of PlanetLab: Valadão and others, RBRCSD 3, 2010).
//
// Fitted to match these: three clusters with 45 %, 30 % and 25 % of the hosts, about as far apart
// as America, Europe and Asia; and lognormal heights, few of which are large. Hosts within one city
// are missing: no pair is closer than some milliseconds.
func King(seed uint64) Topology {
	return func(a, b int) time.Duration {
		ax, ay, ah := kingCoordinates(seed, a)
		bx, by, bh := kingCoordinates(seed, b)
		rtt := math.Hypot(ax-bx, ay-by) + ah + bh
		return time.Duration(min(rtt, kingMaxRTT) * float64(time.Millisecond) / 2)
	}
}

// KingPlace returns where a host is in the plane of King, in milliseconds of round-trip time.
func KingPlace(seed uint64, host int) (x, y float64) {
	x, y, _ = kingCoordinates(seed, host)
	return x, y
}

// Parameters of the model, in milliseconds of round-trip time.
const (
	kingMaxRTT = 800
	kingScale  = 1.17 // scales the clusters' positions and width
	kingWidth  = 22   // standard deviation of a cluster along each axis
	kingHeight = 12   // median
	kingSigma  = 1.1  // standard deviation of the logarithm of the height
)

// kingClouds are the clusters: the cumulative share of hosts, and the centre.
var kingClouds = []struct{ upTo, x, y float64 }{{0.45, 0, 0}, {0.75, 90, 0}, {1, -150, 60}}

// kingCoordinates returns a host's coordinates and height.
func kingCoordinates(seed uint64, host int) (x, y, height float64) {
	s := mix64(seed ^ mix64(uint64(host)))
	draw := func() float64 {
		s = mix64(s)
		return toUnit(s)
	}
	normal := func() float64 { // Box–Muller transform
		return math.Sqrt(-2*math.Log(1-draw())) * math.Cos(2*math.Pi*draw())
	}
	part := draw()
	for _, c := range kingClouds {
		if part < c.upTo {
			x, y = kingScale*(c.x+kingWidth*normal()), kingScale*(c.y+kingWidth*normal())
			break
		}
	}
	return x, y, kingHeight * math.Exp(kingSigma*normal())
}
