package sim

import (
	"math/rand/v2"
	"time"

	"tidings/overlay"
)

// Spent is what the overlays of all nodes have sent to keep the network in order:
// everything but what carries payloads.
type Spent struct {
	Control, ControlBytes uint64
}

// Joins counts how nodes came in, and went.
type Joins struct {
	Joined  int
	Took    time.Duration // from boot to membership, in all
	Slowest time.Duration
	Frames  uint64 // that they sent and were sent until then
	Died    int    // members that were killed or left
	Unborn  int    // killed before they were members
}

// tally keeps what would be lost with nodes that end.
type tally struct {
	spent   Spent
	joins   Joins
	coming  []*Peer // started, and no members yet
	looking bool
}

// Spent returns what was sent so far, by nodes that are gone too.
func (s *Swarm) Spent() Spent {
	sum := s.tally.spent
	for _, p := range s.members {
		if p.Up() {
			sum.add(p)
		}
	}
	return sum
}

func (s *Spent) add(p *Peer) {
	st := p.node.Overlay.Stats()
	s.Control += st.Sent - st.Carrying
	s.ControlBytes += st.Bytes - st.CarryingBytes
}

// TakeJoins returns how nodes came in and went since it was called last.
func (s *Swarm) TakeJoins() Joins {
	j := s.tally.joins
	s.tally.joins = Joins{}
	return j
}

// joinLook is the time between two looks at who has become a member.
const joinLook = 100 * time.Millisecond

// came notes that a peer was started.
func (t *tally) came(p *Peer) {
	p.spoke = p.frames()
	t.coming = append(t.coming, p)
	if !t.looking {
		t.looking = true
		p.swarm.After(joinLook, func() { t.look(p.swarm) })
	}
}

func (t *tally) look(s *Swarm) {
	left := t.coming[:0]
	for _, p := range t.coming {
		switch {
		case !p.Up():
		case p.Active():
			took := s.Now().Sub(p.up)
			t.joins.Joined++
			t.joins.Took += took
			t.joins.Slowest = max(t.joins.Slowest, took)
			t.joins.Frames += p.frames() - p.spoke
		default:
			left = append(left, p)
		}
	}
	t.coming = left
	if t.looking = len(left) > 0; t.looking {
		s.After(joinLook, func() { t.look(s) })
	}
}

// frames is how many frames a peer has sent and received so far, in all its lives.
func (p *Peer) frames() (n uint64) {
	st := p.Host.Stats()
	for class := range st.Sent {
		n += st.Sent[class].Frames + st.Received[class].Frames
	}
	return n
}

// went notes that a peer is about to end.
func (t *tally) went(p *Peer) {
	t.spent.add(p)
	if state := p.node.Overlay.State(); state == overlay.Active || state == overlay.Left {
		t.joins.Died++
	} else {
		t.joins.Unborn++
	}
}

// Someone returns a live member by the dice, nil if there is hardly any.
func (s *Swarm) Someone(dice *rand.Rand) *Peer {
	for range 100 * len(s.members) {
		if p := s.members[dice.IntN(len(s.members))]; p.Active() {
			return p
		}
	}
	return nil
}
