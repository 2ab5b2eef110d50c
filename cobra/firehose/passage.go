package firehose

import (
	"time"

	"tidings/cobra/firehose/firehosepb"
	"tidings/internal/env"
	"tidings/overlay/owner"
)

// A passage is a report on its way between two nodes.
type passage struct {
	peer   env.PeerID
	report owner.Hash // of the whole
}

// going is the sender's side.
type going struct {
	shard int
	to    env.Peer
	blob  []byte
	off   int
	tries int // since the last acknowledgement
	due   time.Time
	done  func(answer)
}

// coming is the receiver's side.
type coming struct {
	blob []byte // as far as it came
	size int
	at   time.Time // of the last part
}

const (
	// partSize fits a frame with room for what stands around it.
	partSize = 48 << 10
	// maxReport is the size of the largest report: an entry's body, and its evidence.
	maxReport = owner.MaxBody + 64<<10
	// maxPassages and maxPassing bound the reports under way in both directions, and
	// their bytes. Further ones are not begun; who sends tries again.
	// One peer's share of what comes is maxPeer.
	maxPassages = 4096
	maxPassing  = 64 << 20
	maxPeer     = 8 << 20
	// partAgain is waited for an acknowledgement, so much longer after each try.
	partAgain = time.Second
	partTries = 6
	// comingFor is how long a part is waited for.
	comingFor = time.Minute
)

// pass sends a report to a peer. done is called with what becomes of it: once.
func (f *Firehose) pass(s *shard, to env.Peer, blob []byte, done func(answer)) {
	p := passage{to.ID, owner.HashOf(blob)}
	if f.going[p] != nil {
		return // it is on its way
	}
	if len(f.going) >= maxPassages || f.held+len(blob) > maxPassing {
		done(answer{})
		return
	}
	f.held += len(blob)
	f.going[p] = &going{shard: s.n, to: to, blob: blob, done: done}
	f.sendPart(p, f.going[p])
}

func (f *Firehose) sendPart(p passage, g *going) {
	end := min(g.off+partSize, len(g.blob))
	f.send(g.to, env.Bulk, &firehosepb.Message{Body: &firehosepb.Message_Part{Part: &firehosepb.Part{
		Shard: uint32(g.shard), Report: p.report[:], Size: uint32(len(g.blob)), Offset: uint32(g.off), Bytes: g.blob[g.off:end],
	}}})
	g.tries++
	wait := time.Duration(g.tries) * partAgain
	g.due = f.clock.Now().Add(wait)
	f.after(wait, task{kind: taskPart, to: p.peer, entry: p.report})
}

// urgePart sends a part again that was not acknowledged.
func (f *Firehose) urgePart(p passage, now time.Time) {
	g := f.going[p]
	switch {
	case g == nil || now.Before(g.due):
	case g.tries >= partTries:
		f.passed(p, g, answer{})
	default:
		f.sendPart(p, g)
	}
}

func (f *Firehose) passed(p passage, g *going, a answer) {
	delete(f.going, p)
	f.held -= len(g.blob)
	g.done(a)
}

// onGot goes on with what was acknowledged.
func (f *Firehose) onGot(from env.PeerID, m *firehosepb.Got) {
	p := passage{from, owner.Hash(m.Report)}
	g := f.going[p]
	if g == nil || int(m.Have) > len(g.blob) {
		return
	}
	switch {
	case m.Refused:
		f.passed(p, g, answer{})
	case int(m.Have) == len(g.blob):
		f.passed(p, g, answer{took: true, idle: m.Idle})
	case int(m.Have) > g.off:
		g.off, g.tries = int(m.Have), 0
		f.sendPart(p, g)
	}
}

// onPart takes a part. What is whole is a report for an owner of the shard, or an entry
// that a filter has asked for.
func (f *Firehose) onPart(from env.PeerID, m *firehosepb.Part) {
	s := f.shards[m.Shard]
	p := passage{from, owner.Hash(m.Report)}
	now := f.clock.Now()
	got := &firehosepb.Got{Shard: m.Shard, Report: m.Report}
	defer func() {
		f.send(f.peer(from), env.Control, &firehosepb.Message{Body: &firehosepb.Message_Got{Got: got}})
	}()
	if !s.owned && len(s.lacks) == 0 {
		got.Refused = true
		return
	}
	c := f.coming[p]
	if c == nil {
		if m.Offset == 0 && int(m.Size) == len(m.Bytes) {
			f.whole(s, from, p.report, m.Bytes, got, now)
			return
		}
		if m.Offset > 0 || len(f.coming) >= maxPassages || f.held+int(m.Size) > maxPassing || f.from[from]+int(m.Size) > maxPeer {
			return // Have is 0: it begins anew, later
		}
		c = &coming{size: int(m.Size)}
		f.coming[p] = c
		f.held += c.size
		f.from[from] += c.size
	}
	if c.at = now; int(m.Size) == c.size && int(m.Offset) == len(c.blob) && len(c.blob)+len(m.Bytes) <= c.size {
		c.blob = append(c.blob, m.Bytes...)
	}
	if got.Have = uint32(len(c.blob)); len(c.blob) < c.size {
		return
	}
	f.drop(p, c)
	f.whole(s, from, p.report, c.blob, got, now)
}

// whole takes a report, and says so.
func (f *Firehose) whole(s *shard, from env.PeerID, hash owner.Hash, blob []byte, got *firehosepb.Got, now time.Time) {
	if owner.HashOf(blob) != hash || !f.carry(s, blob, from, now) {
		f.stats.Garbage++
		got.Refused = true
		return
	}
	got.Have, got.Idle = uint32(len(blob)), f.idles(s, now)
}

func (f *Firehose) drop(p passage, c *coming) {
	delete(f.coming, p)
	f.held -= c.size
	if f.from[p.peer] -= c.size; f.from[p.peer] == 0 {
		delete(f.from, p.peer)
	}
}

// tidyPassages forgets what goes on no longer.
func (f *Firehose) tidyPassages(now time.Time) {
	for p, c := range f.coming {
		if now.Sub(c.at) > comingFor {
			f.drop(p, c)
		}
	}
}
