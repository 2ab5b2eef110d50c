package churn

import (
	"math/rand/v2"
	"time"
)

const (
	// In a calm network, joiners nodes join, one per joinInterval, to be measured.
	joiners      = 32
	joinInterval = 10 * time.Second
)

// addJoiners starts n new nodes, one per pause.
func (w *world) addJoiners(n int, pause time.Duration, rng *rand.Rand) {
	for i := range n {
		w.After(time.Duration(i)*pause, func() { w.Add(true, w.RandomMember(rng)).Start() })
	}
}
