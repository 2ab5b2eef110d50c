package corona

import (
	"encoding/binary"
	"testing"
	"time"

	"tidings/corona/coronapb"
	"tidings/internal/env"
	"tidings/overlay"
)

// A channel that enough nodes cannot read, and none can, is unreadable for everybody. A rate limit is over some time,
// so that it does not count.
func TestEnoughNodesFail(t *testing.T) {
	l := leaderState{health: health{failing: map[env.PeerID]failureReport{"limited": {state: State{Kind: coronapb.State_LIMITED}}}}}
	for i := range enoughFailing + 2 {
		if n := l.unreadable(); n != min(i, enoughFailing) {
			t.Errorf("with %d nodes that fail: %d", i, n)
		}
		l.failing[env.PeerID(rune('a'+i))] = failureReport{state: State{Kind: coronapb.State_MISSING}}
	}
	if l.state.Kind = coronapb.State_OK; l.unreadable() != 0 {
		t.Error("unreadable although a node can read it")
	}
}

// A node that is turned away again and again takes ranks of the channel ever more rarely. What it
// remembers is bounded: of one channel too many, another one is forgotten.
func TestExclusionsDoubleAndAreBounded(t *testing.T) {
	x, now := exclusions{}, time.Unix(1e9, 0)
	var k overlay.ID
	for _, want := range []time.Duration{time.Hour, 2 * time.Hour, 4 * time.Hour, 8 * time.Hour, 16 * time.Hour, 24 * time.Hour, 24 * time.Hour} {
		if x.add(k, time.Minute, now); x[k].until.Sub(now) != want {
			t.Errorf("for %v, want %v", x[k].until.Sub(now), want)
		}
	}
	if x.forget(k); len(x) != 0 {
		t.Error("a success does not end the exclusion")
	}
	if x.add(k, 3*time.Hour, now); x[k].pause != 3*time.Hour {
		t.Error("the exclusion is shorter than the pause after the failure")
	}
	for i := range maxExclusions + 1 {
		binary.BigEndian.PutUint64(k[:], uint64(i+1))
		x.add(k, 0, now)
	}
	if _, kept := x[k]; len(x) != maxExclusions || !kept {
		t.Errorf("%d channels are remembered, the last one: %v", len(x), kept)
	}
}
