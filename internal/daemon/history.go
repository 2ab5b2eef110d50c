package daemon

import (
	"context"
	"sync"
	"time"

	"tidings/overlay"
	"tidings/proxy"
)

const (
	// historyInterval is the time between two samples of the network's size and load.
	historyInterval = 10 * time.Minute
	// historySize bounds the samples: those of a week. They take about 50 kB. The oldest ones are forgotten first, and all of
	// them when the node stops.
	historySize = int(7 * 24 * time.Hour / historyInterval)
)

// A history remembers how many members the network had, and how much it polled.
type history struct {
	mu      sync.Mutex
	samples []proxy.NetworkSample
	polls   uint64 // of this node until the last sample
}

// add adds a sample. polls counts the polls of this node since its start.
func (h *history) add(s proxy.NetworkSample, polls uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s.OwnPolls, h.polls = int(polls-h.polls), polls
	if len(h.samples) == historySize {
		h.samples = append(h.samples[:0], h.samples[1:]...)
	}
	h.samples = append(h.samples, s)
}

// all returns the samples, the oldest first.
func (h *history) all() []proxy.NetworkSample {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]proxy.NetworkSample(nil), h.samples...)
}

// runHistory takes samples until ctx ends. A client takes none, because it does not know the size of its network.
func (st *status) runHistory(ctx context.Context) {
	tick := time.NewTicker(historyInterval)
	defer tick.Stop()
	for {
		select {
		case at := <-tick.C:
			st.sample(ctx, at)
		case <-ctx.Done():
			return
		}
	}
}

// sample adds a sample to the history if the node is a member.
func (st *status) sample(ctx context.Context, at time.Time) {
	s, polls, member := proxy.NetworkSample{At: at}, uint64(0), false
	err := st.do(ctx, func() {
		member = st.node.Overlay.State() == overlay.Active
		s.Members, polls = st.node.Overlay.Count(0), st.node.Corona.Stats().Polls
		if v, ok := st.node.Corona.Decision(); ok {
			s.Polls, s.Target = v.Polls, v.Target
		}
	})
	if err == nil && member {
		st.history.add(s, polls)
	}
}
