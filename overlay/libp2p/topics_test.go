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
type ear struct {
	mu    sync.Mutex
	heard map[string]int
	judge func(frame string) env.Verdict
}

func (e *ear) hear(_ context.Context, _ env.PeerID, frame []byte) env.Verdict {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.heard == nil {
		e.heard = map[string]int{}
	}
	e.heard[string(frame)]++
	if e.judge != nil {
		return e.judge(string(frame))
	}
	return env.Accept
}

func (e *ear) count(frame string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.heard[frame]
}

// began says whether a frame that begins so was heard.
func (e *ear) began(with string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for frame := range e.heard {
		if strings.HasPrefix(frame, with) {
			return true
		}
	}
	return false
}

// What is published reaches all who take part, each once, by way of one whom all of them know, and who
// passes on what is right.
func TestATopicReachesAllWhoTakePart(t *testing.T) {
	hub, others := running(t, nil), []*tester{}
	ears := []*ear{{}}
	hub.Topics().Join("news", nil, ears[0].hear)
	for range 5 {
		h := running(t, nil)
		e := &ear{}
		h.Topics().Join("news", []env.Peer{hub.Peer()}, e.hear)
		others, ears = append(others, h), append(ears, e)
	}
	bystander := running(t, nil) // is connected, and takes no part
	bystander.Send(hub.Peer(), env.Control, []byte("hello"))

	// GossipSub says nothing of when it knows who takes part: publish until all have heard something.
	n := 0
	wait(t, "the first frame to be heard by all", func() bool {
		n++
		others[0].Topics().Publish("news", fmt.Appendf(nil, "beginning %d", n))
		for _, e := range append(ears[:1:1], ears[2:]...) {
			e.mu.Lock()
			heard := len(e.heard)
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
	hub := running(t, nil)
	gate := &ear{judge: func(frame string) env.Verdict {
		switch frame[0] {
		case 'd':
			return env.Ignore
		case 'b':
			return env.Reject
		}
		return env.Accept
	}}
	hub.Topics().Join("news", nil, gate.hear)
	a, b := running(t, nil), running(t, nil)
	behind := &ear{}
	a.Topics().Join("news", []env.Peer{hub.Peer()}, (&ear{}).hear)
	b.Topics().Join("news", []env.Peer{hub.Peer()}, behind.hear)
	n := 0
	wait(t, "a right frame to pass", func() bool {
		n++
		a.Topics().Publish("news", fmt.Appendf(nil, "right %d", n))
		behind.mu.Lock()
		defer behind.mu.Unlock()
		return len(behind.heard) > 0
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
	hub, h := running(t, nil), running(t, nil)
	e := &ear{}
	hub.Topics().Join("news", nil, (&ear{}).hear)
	for round := range 3 {
		h.Topics().Join("news", []env.Peer{hub.Peer()}, e.hear)
		n := 0
		wait(t, "something to be heard", func() bool {
			n++
			hub.Topics().Publish("news", fmt.Appendf(nil, "round %d, %d", round, n))
			return e.began(fmt.Sprintf("round %d,", round))
		})
		h.Topics().Leave("news")
		h.Topics().Publish("news", []byte("of no topic"))
	}
}
