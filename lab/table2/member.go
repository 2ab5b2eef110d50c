package table2

import (
	"fmt"
	"time"

	"tidings/difference"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/internal/node"
	"tidings/internal/wire"
	"tidings/overlay"
)

// A Member is a node whose readers are not simulated: in place of feedtree, which would keep logs, windows and
// heartbeats for them, it has a layer that takes reported changes as committed at once.
type Member struct {
	*node.Node

	index int
	polls []pendingPoll
	lane  *lane
}

// A pendingPoll is a poll that must be answered.
type pendingPoll struct {
	handle env.Handle
	env.Request
}

func newMember(e env.Env, signer *wire.Signer, verify wire.Verifier, cfg node.Config, index int, l *lane) *Member {
	m := &Member{lane: l, index: index}
	e.Fetcher, e.Worker, e.Store = m, parallelWorker{e.Worker}, emptyStore{e.Store}
	cfg.FeedLayer = noReaders{}
	cfg.Corona.Witnesses = false // as in the paper
	var err error
	if m.Node, err = node.New(e, signer, verify, cfg, noApplication{}); err != nil {
		panic(fmt.Sprintf("table2: a member with an empty disk: %v", err))
	}
	return m
}

// Run runs the node, and answers all polls.
func (m *Member) Run(now time.Time) time.Time {
	for {
		next := m.Node.Run(now)
		if len(m.polls) == 0 {
			return next
		}
		m.answer(now)
	}
}

// Fetch implements env.Fetcher. Origins answer as soon as the layers have run.
func (m *Member) Fetch(h env.Handle, r env.Request) { m.polls = append(m.polls, pendingPoll{h, r}) }

// answer answers the pending polls; no polls are added meanwhile.
func (m *Member) answer(now time.Time) {
	for _, q := range m.polls {
		m.Answered(q.handle, m.lane.answer(&q.Request, m.index, now.UnixNano()))
	}
	clear(m.polls)
	m.polls = m.polls[:0]
}

// noReaders takes the place of feedtree. What it does not implement is never called without readers.
type noReaders struct{ node.FeedLayer }

func (noReaders) Next() time.Time         { return time.Time{} }
func (noReaders) Run(time.Time) time.Time { return time.Time{} }

func (noReaders) Lead(_ overlay.ID, on bool, ready func(*difference.Known)) {
	if on {
		ready(new(difference.Known))
	}
}

func (noReaders) Append(_ overlay.ID, _ difference.Delta, _ *feed.Feed, done func(ok bool)) bool {
	done(true)
	return true
}

func (noReaders) AppendAbsorbed(overlay.ID)                    {}
func (noReaders) VisibleChanged(overlay.ID)                    {}
func (noReaders) Absorb(overlay.ID, []byte)                    {}
func (noReaders) Absorbing(overlay.ID) bool                    { return false }
func (noReaders) BranchMerged(overlay.ID)                      {}
func (noReaders) Doubted(overlay.ID)                           {}
func (noReaders) Fetched(overlay.ID, string, *feed.Feed, bool) {}
func (noReaders) SetState(overlay.ID, []byte, bool, bool)      {}
func (noReaders) Fading(overlay.ID, int) []feed.ID             { return nil }

// noApplication is told nothing but what its node fetches, because nobody reads.
type noApplication struct{ node.Application }

func (noApplication) Saw(overlay.ID, *feed.Feed) {}

// A parallelWorker computes on another goroutine while the world goes on, and waits for the result when the node is to
// be called.
type parallelWorker struct{ env.Worker }

func (w parallelWorker) Do(pure, done func()) {
	computed := make(chan struct{})
	go func() {
		defer close(computed)
		pure()
	}()
	w.Worker.Do(func() {}, func() {
		<-computed
		done()
	})
}

// An emptyStore keeps nothing, because members do not restart. The only records that they would read are bodies of
// entries, and there are no entries.
type emptyStore struct{ env.Store }

func (s emptyStore) Commit(_ []env.Op, done func(error)) { s.Store.Commit(nil, done) }
