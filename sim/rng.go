package sim

import "math/rand/v2"

// What a stream of dice is for. A new purpose goes to the end, so that the
// others keep their streams.
const (
	forKey    = iota // the host's identity
	forLinks         // delays and faults of the frames the host sends
	forDoors         // delays of its disk, worker and fetcher
	forNode          // env.Rand, one stream for each life
	forTopics        // delays and ways of the frames of topics
)

// dice returns the stream of one purpose of one host.
func dice(seed uint64, purpose, host int, life uint32) (p rand.PCG) {
	a := scatter(seed ^ scatter(uint64(purpose)<<32|uint64(life)))
	p.Seed(a, scatter(a^uint64(host)))
	return p
}

// throw is a number from 0 up to 1.
func throw(p *rand.PCG) float64 { return unit(p.Uint64()) }

// unit is x as a number from 0 up to 1.
func unit(x uint64) float64 { return float64(x>>11) / (1 << 53) }

// scatter is the finaliser of SplitMix64: near numbers come out far apart.
func scatter(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
