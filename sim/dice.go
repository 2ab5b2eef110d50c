package sim

import "math/rand/v2"

// What a stream of dice is for. A new purpose goes to the end, so that the
// others keep their streams.
const (
	forKey   = iota // the host's identity
	forLinks        // delays and faults of the frames the host sends
	forDoors        // delays of its disk, worker and fetcher
	forNode         // env.Rand, one stream for each life
)

// dice returns the stream of one purpose of one host.
func dice(seed uint64, purpose, host int, life uint32) *rand.Rand {
	a := scatter(seed ^ scatter(uint64(purpose)<<32|uint64(life)))
	return rand.New(rand.NewPCG(a, scatter(a^uint64(host))))
}

// scatter is the finaliser of SplitMix64: near numbers come out far apart.
func scatter(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
