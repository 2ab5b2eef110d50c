package owner

import (
	"testing"
	"time"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay/owner/ownerpb"
)

// A pull over a slow line gets the largest body in the end, although each chunk takes longer than an answer may take at
// first, and repeated requests fill the line. A line that is slower than the floor is given up in bounded time.
func TestAPullOverASlowLineEnds(t *testing.T) {
	for _, c := range []struct {
		rate   int // of the line, in bytes a second
		within time.Duration
		ok     bool
	}{
		{1 << 20, 10 * time.Second, true},
		{16 << 10, 3 * time.Minute, true},
		{4 << 10, 12 * time.Minute, true},
		{2 << 10, 12 * time.Minute, false},
	} {
		b := newBench(t)
		u, ended := b.puller(), []bool(nil)
		u.finish = func(s *replica) { u.end(s, true) }
		body := make([]byte, MaxBody)
		e := b.next(nil, 0)
		e.Body, e.Size = HashOf(body), len(body)
		e.sign(signer(3))
		from := env.Peer{ID: signer(1).PeerID()}
		type frame struct {
			at   time.Time // when it is here
			take func() error
		}
		var (
			line      []frame
			lineFree  time.Time
			nextPull  = b.now
			seen      int
			deliver   func(m *ownerpb.Message, take func() error)
			succeeded time.Duration
			longest   time.Duration
		)
		deliver = func(m *ownerpb.Message, take func() error) {
			if lineFree.Before(b.now) {
				lineFree = b.now
			}
			lineFree = lineFree.Add(time.Duration(len(wire.Encode(m))) * time.Second / time.Duration(c.rate))
			line = append(line, frame{lineFree, take})
		}
		for b.now.Sub(began) < c.within && succeeded == 0 {
			if b.s.pull == nil && !b.now.Before(nextPull) { // as a repair does
				since := b.now
				u.start(b.s, from, func(ok bool) {
					longest = max(longest, b.now.Sub(since))
					if ended = append(ended, ok); ok {
						succeeded = b.now.Sub(began)
					}
					nextPull = b.now.Add(2 * time.Second)
				})
			}
			for ; seen < len(b.sent); seen++ {
				switch q := b.sent[seen].Message; {
				case q.GetPull() != nil:
					m := &ownerpb.Entries{Key: q.GetPull().Key, Nonce: q.GetPull().Nonce, Epoch: b.s.epoch.proto(), Committed: true, Entries: []*ownerpb.LogEntry{{Entry: e.Raw()}}}
					deliver(&ownerpb.Message{Body: &ownerpb.Message_Entries{Entries: m}}, func() error { return u.onEntries(from.ID, m) })
				case q.GetChunkRequest() != nil:
					r := q.GetChunkRequest()
					m := &ownerpb.Chunk{Key: r.Key, Hash: r.Hash, Offset: r.Offset, Bytes: body[r.Offset:min(int(r.Offset)+maxInline, len(body))]}
					deliver(&ownerpb.Message{Body: &ownerpb.Message_Chunk{Chunk: m}}, func() error { return u.onChunk(from.ID, m) })
				}
			}
			b.now = b.now.Add(100 * time.Millisecond)
			for len(line) > 0 && !b.now.Before(line[0].at) {
				if err := line[0].take(); err != nil {
					t.Fatal(err)
				}
				line = line[1:]
			}
			for task, _, due := b.cal.Pop(b.now); due; task, _, due = b.cal.Pop(b.now) {
				if task.kind == taskRetryPull {
					u.retry(b.s, b.now)
				}
			}
		}
		t.Logf("%d bytes a second: %d pulls, %v", c.rate, len(ended), succeeded)
		if (succeeded > 0) != c.ok {
			t.Errorf("at %d bytes a second the body is here after %v, after %d pulls", c.rate, succeeded, len(ended))
		}
		if longest > maxPullTime+time.Duration(MaxBody)*time.Second/minPullRate+time.Minute {
			t.Errorf("a pull at %d bytes a second took %v", c.rate, longest)
		}
	}
}

// A peer that answers late gets more time, up to a bound, and one that answers at once again gets less. An answer that takes a good
// part of the time that it may take changes nothing.
func TestPatienceFollowsTheLine(t *testing.T) {
	u, peer := newBench(t).puller(), signer(1).PeerID()
	for range 10 {
		u.late(peer)
	}
	if got := u.patienceWith(peer); got != maxPullPatience {
		t.Errorf("patience with a slow peer is %v, want %v", got, maxPullPatience)
	}
	u.answered(peer, maxPullPatience/2)
	if got := u.patienceWith(peer); got != maxPullPatience {
		t.Errorf("patience with a peer that is as slow as before is %v, want %v", got, maxPullPatience)
	}
	for range 10 {
		u.answered(peer, 100*time.Millisecond)
	}
	if got := u.patienceWith(peer); got != pullTime || len(u.patience) != 0 {
		t.Errorf("patience with a fast peer is %v, want %v", got, pullTime)
	}
}

// A request is repeated when it was planned, also if the patience with its peer has grown meanwhile. It used to be forgotten then, and
// the pull never ended (seed 48 of sim faults).
func TestARequestIsRepeatedAlthoughPatienceGrows(t *testing.T) {
	b := newBench(t)
	u, from := b.puller(), env.Peer{ID: signer(1).PeerID()}
	u.start(b.s, from, func(bool) {})
	u.late(from.ID) // an answer to another pull
	requests := func() (n int) {
		for _, m := range b.sent {
			if m.GetPull() != nil {
				n++
			}
		}
		return n
	}
	b.now = b.now.Add(pullTime)
	for task, _, due := b.cal.Pop(b.now); due; task, _, due = b.cal.Pop(b.now) {
		if task.kind == taskRetryPull {
			u.retry(b.s, b.now)
		}
	}
	if got := requests(); got != 2 {
		t.Errorf("the request was sent %d times, want 2", got)
	}
}
