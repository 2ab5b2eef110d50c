package churn

import (
	"math/rand/v2"
	"time"
)

const (
	// joiners come to a calm network, one every joinPause, to be measured.
	joiners      = 32
	joinInterval = 10 * time.Second
)

// joins has n nodes that were never here before come, one every pause.
func (w *world) addJoiners(n int, pause time.Duration, rng *rand.Rand) {
	for i := range n {
		w.After(time.Duration(i)*pause, func() { w.Add(true, w.RandomMember(rng)).Start() })
	}
}
