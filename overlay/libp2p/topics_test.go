package libp2p

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"tidings/internal/env"
)

// A topicRecorder records the frames of a topic, and answers with a verdict.
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
	return env.Accept
}

func (e *topicRecorder) count(frame string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.frames[frame]
}

// hasPrefix reports whether a frame with a prefix was received.
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

// A published frame reaches all members exactly once, through a hub to which all of them are connected and which
// forwards valid frames.
func TestATopicReachesAllMembers(t *testing.T) {
	hub, others := startTestHost(t, nil), []*testHost{}
	ears := []*topicRecorder{{}}
	hub.Topics().Join("news", nil, ears[0].validate)
	for range 5 {
		h := startTestHost(t, nil)
		e := &topicRecorder{}
		h.Topics().Join("news", []env.Peer{hub.Peer()}, e.validate)
		others, ears = append(others, h), append(ears, e)
	}
	bystander := startTestHost(t, nil) // connected, but not a member of the topic
	bystander.Send(hub.Peer(), env.Control, []byte("hello"))

	// GossipSub does not report when it knows the members: publish until all have received something.
	n := 0
	wait(t, "the first frame to reach all", func() bool {
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
		wait(t, frame+" to reach all others", func() bool {
			for j, e := range ears {
				if j != i+1 && e.count(frame) != 1 {
					return false
				}
			}
			return true
		})
		if ears[i+1].count(frame) != 0 {
			t.Errorf("%d validated its own frame", i)
		}
	}
}

// A frame that the node drops is not forwarded, and a peer that forwards an invalid frame is blamed.
func TestFramesOfATopicAreValidated(t *testing.T) {
	hub := startTestHost(t, nil)
	gate := &topicRecorder{verdict: func(frame string) env.Verdict {
		switch frame[0] {
		case 'd':
			return env.Ignore
		case 'b':
			return env.Reject
		}
		return env.Accept
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
	wait(t, "the verdicts", func() bool { return gate.count("dropped") == 1 && gate.count("blamed") == 1 })
	if behind.count("dropped")+behind.count("blamed") > 0 {
		t.Error("an invalid frame was forwarded")
	}
	wait(t, "the blame", func() bool { return hub.Stats().BadFrames == 1 })
}

// A host that has left a topic receives nothing more from it, and can join it again.
func TestATopicCanBeLeftAndJoinedAgain(t *testing.T) {
	t.Parallel()
	hub, h := startTestHost(t, nil), startTestHost(t, nil)
	e := &topicRecorder{}
	hub.Topics().Join("news", nil, (&topicRecorder{}).validate)
	for round := range 3 {
		h.Topics().Join("news", []env.Peer{hub.Peer()}, e.validate)
		n := 0
		wait(t, "a frame", func() bool {
			n++
			hub.Topics().Publish("news", fmt.Appendf(nil, "round %d, %d", round, n))
			return e.hasPrefix(fmt.Sprintf("round %d,", round))
		})
		h.Topics().Leave("news")
		h.Topics().Publish("news", []byte("of no topic"))
	}
}
