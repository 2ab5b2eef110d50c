package sim

import (
	"math"
	"time"
)

// King is a topology with the round trip times of the King data set: those between
// 1,740 name servers all over the world, measured by the method of Gummadi, Saroiu and
// Gribble (King: estimating latency between arbitrary Internet end hosts, IMW 2002),
// on which Dabek, Cox, Kaashoek and Morris evaluated Vivaldi (SIGCOMM 2004). It is the
// topology of the laboratory and of random troubles.
//
// Taken from them: that two coordinates and a height, which is each host's own way to
// the core, predict these times with a median error of 11 % (Vivaldi, abstract and §5);
// their median of 159 ms (Vivaldi, §3); that none is above 800 ms, where the measurement
// ended (Ledlie, Gardner and Seltzer, Network coordinates in the wild, NSDI 2007, §3);
// and that more than 99 % of
// the pairs stay below 500 ms (of PlanetLab: Valadão and others, RBRCSD 3, 2010).
//
// Fitted, so that the sum is that: three clouds of hosts with nine twentieths, three and
// five of them, as far apart as America, Europe and Asia are for light in glass and the
// detours of its way; and heights of which few are large (lognormal). Hosts of one city
// are missing: nobody is nearer than some milliseconds.
func King(seed uint64) Topology {
	return func(a, b int) time.Duration {
		ax, ay, ah := kingPlace(seed, a)
		bx, by, bh := kingPlace(seed, b)
		rtt := math.Hypot(ax-bx, ay-by) + ah + bh
		return time.Duration(min(rtt, kingMost) * float64(time.Millisecond) / 2)
	}
}

// The model's figures, in milliseconds of a round trip.
const (
	kingMost   = 800
	kingScale  = 1.17 // of the clouds' places and width
	kingWidth  = 22   // standard deviation of a cloud along each axis
	kingHeight = 12   // median
	kingSlant  = 1.1  // of the logarithm of heights: its standard deviation
)

// kingClouds are where hosts are, and what part of them up to there.
var kingClouds = []struct{ upTo, x, y float64 }{{0.45, 0, 0}, {0.75, 90, 0}, {1, -150, 60}}

// kingPlace is where a host is, and its height.
func kingPlace(seed uint64, host int) (x, y, height float64) {
	s := scatter(seed ^ scatter(uint64(host)))
	draw := func() float64 {
		s = scatter(s)
		return unit(s)
	}
	normal := func() float64 { // Box and Muller
		return math.Sqrt(-2*math.Log(1-draw())) * math.Cos(2*math.Pi*draw())
	}
	part := draw()
	for _, c := range kingClouds {
		if part < c.upTo {
			x, y = kingScale*(c.x+kingWidth*normal()), kingScale*(c.y+kingWidth*normal())
			break
		}
	}
	return x, y, kingHeight * math.Exp(kingSlant*normal())
}
