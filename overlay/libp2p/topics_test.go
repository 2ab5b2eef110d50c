package libp2p

import (
	"context"
	"fmt"
	"slices"
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

// countPrefix counts the receipts of frames with a prefix.
func (e *topicRecorder) countPrefix(prefix string) (n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for frame, times := range e.frames {
		if strings.HasPrefix(frame, prefix) {
			n += times
		}
	}
	return n
}

// publishUntil publishes numbered frames until one of them has been received as asked. A single frame would not do:
// GossipSub sends nothing between the announcement of a peer and the next heartbeat, and does not say when it does.
func publishUntil(t *testing.T, h *testHost, prefix string, received func(frame string) bool) {
	t.Helper()
	var frames []string
	wait(t, "a frame "+prefix+" to be received", func() bool {
		frame := fmt.Sprintf("%s %d", prefix, len(frames))
		frames = append(frames, frame)
		h.Topics().Publish("news", []byte(frame))
		return slices.ContainsFunc(frames, received)
	})
}

// A published frame reaches all members, none of them twice, through a hub to which all of them are connected and
// which forwards valid frames.
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

	for i, h := range others {
		publishUntil(t, h, fmt.Sprintf("from %d", i), func(frame string) bool {
			for j, e := range ears {
				if j != i+1 && e.count(frame) == 0 {
					return false
				}
			}
			return true
		})
		if ears[i+1].countPrefix(fmt.Sprintf("from %d", i)) != 0 {
			t.Errorf("%d validated its own frame", i)
		}
	}
	for j, e := range ears {
		e.mu.Lock()
		for frame, times := range e.frames {
			if times != 1 {
				t.Errorf("member %d received %q %d times", j, frame, times)
			}
		}
		e.mu.Unlock()
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
	publishUntil(t, a, "right", func(frame string) bool { return behind.count(frame) > 0 })
	publishUntil(t, a, "dropped", func(frame string) bool { return gate.count(frame) > 0 })
	publishUntil(t, a, "blamed", func(frame string) bool { return gate.count(frame) > 0 })
	wait(t, "the blame", func() bool { return hub.Stats().BadFrames > 0 })
	publishUntil(t, hub, "right at last", func(frame string) bool { return behind.count(frame) > 0 })
	if behind.countPrefix("dropped")+behind.countPrefix("blamed") > 0 {
		t.Error("an invalid frame was forwarded")
	}
}

// A host that has left a topic receives nothing more from it, and can join it again.
func TestATopicCanBeLeftAndJoinedAgain(t *testing.T) {
	t.Parallel()
	hub, h := startTestHost(t, nil), startTestHost(t, nil)
	e := &topicRecorder{}
	hub.Topics().Join("news", nil, (&topicRecorder{}).validate)
	for round := range 3 {
		h.Topics().Join("news", []env.Peer{hub.Peer()}, e.validate)
		publishUntil(t, hub, fmt.Sprintf("round %d", round), func(frame string) bool { return e.count(frame) > 0 })
		h.Topics().Leave("news")
		h.Topics().Publish("news", []byte("of no topic"))
	}
}
