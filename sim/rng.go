package sim

import "math/rand/v2"

// Purposes of random streams. Add new purposes at the end, so that the existing streams do not
// change.
const (
	forKey    = iota // the host's identity
	forLinks         // delays and faults of frames that the host sends
	forIO            // delays of its disk, worker and fetcher
	forNode          // env.Rand, one stream per life
	forTopics        // delays and paths of topic frames
)

// newRNG returns the random stream of one purpose of one host.
func newRNG(seed uint64, purpose, host int, life uint32) (p rand.PCG) {
	a := mix64(seed ^ mix64(uint64(purpose)<<32|uint64(life)))
	p.Seed(a, mix64(a^uint64(host)))
	return p
}

// randFloat returns a random number in [0, 1).
func randFloat(p *rand.PCG) float64 { return toUnit(p.Uint64()) }

// toUnit maps x to [0, 1).
func toUnit(x uint64) float64 { return float64(x>>11) / (1 << 53) }

// mix64 is the finaliser of SplitMix64: close inputs give unrelated outputs.
func mix64(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
