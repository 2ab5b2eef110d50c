package libp2p

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"tidings/internal/env"
)

// An ear notes what it hears by a topic, and judges it.
type topicRecorder struct {
	mu      sync.Mutex
	frames  map[string]int
	verdict func(frame string) env.Verdict
}

func (e *topicRecorder) validate(_ context.Context, _ env.PeerID, frame []byte) env.Verdict {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.frames == nil {
		e.frames = map[string]int{}
	}
	e.frames[string(frame)]++
	if e.verdict != nil {
		return e.verdict(string(frame))
	}
	return env.Pass
}

func (e *topicRecorder) count(frame string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.frames[frame]
}

// began says whether a frame that begins so was heard.
func (e *topicRecorder) hasPrefix(with string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for frame := range e.frames {
		if strings.HasPrefix(frame, with) {
			return true
		}
	}
	return false
}

// What is published reaches all who take part, each once, by way of one whom all of them know, and who
// passes on what is right.
func TestATopicReachesAllWhoTakePart(t *testing.T) {
	hub, others := startTestHost(t, nil), []*testHost{}
	ears := []*topicRecorder{{}}
	hub.Topics().Join("news", nil, ears[0].validate)
	for range 5 {
		h := startTestHost(t, nil)
		e := &topicRecorder{}
		h.Topics().Join("news", []env.Peer{hub.Peer()}, e.validate)
		others, ears = append(others, h), append(ears, e)
	}
	bystander := startTestHost(t, nil) // is connected, and takes no part
	bystander.Send(hub.Peer(), env.Control, []byte("hello"))

	// GossipSub says nothing of when it knows who takes part: publish until all have heard something.
	n := 0
	wait(t, "the first frame to be heard by all", func() bool {
		n++
		others[0].Topics().Publish("news", fmt.Appendf(nil, "beginning %d", n))
		for _, e := range append(ears[:1:1], ears[2:]...) {
			e.mu.Lock()
			heard := len(e.frames)
			e.mu.Unlock()
			if heard == 0 {
				return false
			}
		}
		return true
	})
	for i, h := range others {
		frame := fmt.Sprintf("from %d", i)
		h.Topics().Publish("news", []byte(frame))
		wait(t, frame+" to be heard by all others", func() bool {
			for j, e := range ears {
				if j != i+1 && e.count(frame) != 1 {
					return false
				}
			}
			return true
		})
		if ears[i+1].count(frame) != 0 {
			t.Errorf("%d judged its own frame", i)
		}
	}
}

// What the node drops goes no further, and who passes on what can never be right is blamed.
func TestAFrameOfATopicIsJudged(t *testing.T) {
	hub := startTestHost(t, nil)
	gate := &topicRecorder{verdict: func(frame string) env.Verdict {
		switch frame[0] {
		case 'd':
			return env.Drop
		case 'b':
			return env.Blame
		}
		return env.Pass
	}}
	hub.Topics().Join("news", nil, gate.validate)
	a, b := startTestHost(t, nil), startTestHost(t, nil)
	behind := &topicRecorder{}
	a.Topics().Join("news", []env.Peer{hub.Peer()}, (&topicRecorder{}).validate)
	b.Topics().Join("news", []env.Peer{hub.Peer()}, behind.validate)
	n := 0
	wait(t, "a right frame to pass", func() bool {
		n++
		a.Topics().Publish("news", fmt.Appendf(nil, "right %d", n))
		behind.mu.Lock()
		defer behind.mu.Unlock()
		return len(behind.frames) > 0
	})
	a.Topics().Publish("news", []byte("dropped"))
	a.Topics().Publish("news", []byte("blamed"))
	a.Topics().Publish("news", []byte("right at last"))
	wait(t, "the last frame", func() bool { return behind.count("right at last") == 1 })
	wait(t, "the judgement", func() bool { return gate.count("dropped") == 1 && gate.count("blamed") == 1 })
	if behind.count("dropped")+behind.count("blamed") > 0 {
		t.Error("a frame went on that was not to")
	}
	wait(t, "the blame", func() bool { return hub.Stats().BadFrames == 1 })
}

// Who has left a topic hears no more of it, and can join it again.
func TestATopicIsLeft(t *testing.T) {
	t.Parallel()
	hub, h := startTestHost(t, nil), startTestHost(t, nil)
	e := &topicRecorder{}
	hub.Topics().Join("news", nil, (&topicRecorder{}).validate)
	for round := range 3 {
		h.Topics().Join("news", []env.Peer{hub.Peer()}, e.validate)
		n := 0
		wait(t, "something to be heard", func() bool {
			n++
			hub.Topics().Publish("news", fmt.Appendf(nil, "round %d, %d", round, n))
			return e.hasPrefix(fmt.Sprintf("round %d,", round))
		})
		h.Topics().Leave("news")
		h.Topics().Publish("news", []byte("of no topic"))
	}
}
