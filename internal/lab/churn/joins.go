package churn

import (
	"math/rand/v2"
	"time"

	"tidings/sim"
)

const (
	// joiners come to a calm network, one every joinPause, to be measured.
	joiners   = 32
	joinPause = 10 * time.Second
	// joinLook is the time between two looks at whether one has become a member.
	joinLook = 100 * time.Millisecond
)

// joins has n nodes that were never here before come, one every pause, and counts their
// messages until they are members: those they send, and those that come to them.
func (w *world) joins(n int, pause time.Duration, dice *rand.Rand, r *Result) {
	msgs, joined := uint64(0), 0
	for i := range n {
		w.After(time.Duration(i)*pause, func() {
			p := w.Add(true, w.Someone(dice))
			p.Start()
			w.until(p.Active, func() {
				msgs += frames(p)
				joined++
				r.JoinMsgs = float64(msgs) / float64(joined)
			})
		})
	}
}

// until calls then as soon as cond is seen to hold.
func (w *world) until(cond func() bool, then func()) {
	w.After(joinLook, func() {
		if cond() {
			then()
		} else {
			w.until(cond, then)
		}
	})
}

// frames is how many messages a host has sent and received so far.
func frames(p *sim.Peer) (n uint64) {
	st := p.Host.Stats()
	for class := range st.Sent {
		n += st.Sent[class].Frames + st.Received[class].Frames
	}
	return n
}
