package sim

import (
	"math/rand/v2"
	"time"

	"tidings/overlay"
)

// ControlTraffic is what the overlays of all nodes have sent to maintain the network: all messages
// except those that carry payloads.
type ControlTraffic struct {
	Messages, Bytes uint64
}

// JoinStats counts nodes that joined, and members that left or died.
type JoinStats struct {
	Joined      int
	TotalTime   time.Duration // sum of the times from boot to membership
	Slowest     time.Duration
	Frames      uint64 // sum of the frames that joining nodes sent and received
	Departed    int    // members that were killed or left
	DiedJoining int    // nodes that were killed before they were members
}

// A joinTracker keeps counters of nodes that no longer exist, and watches joining nodes.
type joinTracker struct {
	pastTraffic ControlTraffic
	stats       JoinStats
	joining     []*Peer // started, not members yet
	polling     bool
}

// ControlTraffic returns what was sent so far, also by nodes that no longer exist.
func (s *Swarm) ControlTraffic() ControlTraffic {
	sum := s.joins.pastTraffic
	for _, p := range s.members {
		if p.Up() {
			sum.add(p)
		}
	}
	return sum
}

func (s *ControlTraffic) add(p *Peer) {
	st := p.node.Overlay.Stats()
	s.Messages += st.Sent - st.Carrying
	s.Bytes += st.Bytes - st.CarryingBytes
}

// TakeJoinStats returns the counters since its last call.
func (s *Swarm) TakeJoinStats() JoinStats {
	j := s.joins.stats
	s.joins.stats = JoinStats{}
	return j
}

// joinPollInterval is the time between two checks of the nodes that are joining.
const joinPollInterval = 100 * time.Millisecond

// started adds a peer that was just started.
func (t *joinTracker) started(p *Peer) {
	p.framesBefore = p.frames()
	t.joining = append(t.joining, p)
	if !t.polling {
		t.polling = true
		p.swarm.After(joinPollInterval, func() { t.poll(p.swarm) })
	}
}

func (t *joinTracker) poll(s *Swarm) {
	left := t.joining[:0]
	for _, p := range t.joining {
		switch {
		case !p.Up():
		case p.Active():
			took := s.Now().Sub(p.startedAt)
			t.stats.Joined++
			t.stats.TotalTime += took
			t.stats.Slowest = max(t.stats.Slowest, took)
			t.stats.Frames += p.frames() - p.framesBefore
		default:
			left = append(left, p)
		}
	}
	t.joining = left
	if t.polling = len(left) > 0; t.polling {
		s.After(joinPollInterval, func() { t.poll(s) })
	}
}

// frames returns the number of frames that a peer has sent and received in all its lives.
func (p *Peer) frames() (n uint64) {
	st := p.Host.Stats()
	for class := range st.Sent {
		n += st.Sent[class].Frames + st.Received[class].Frames
	}
	return n
}

// ended counts a peer that is about to end.
func (t *joinTracker) ended(p *Peer) {
	t.pastTraffic.add(p)
	if state := p.node.Overlay.State(); state == overlay.Active || state == overlay.Left {
		t.stats.Departed++
	} else {
		t.stats.DiedJoining++
	}
}

// RandomMember returns a random live member; nil if hardly any peer is live.
func (s *Swarm) RandomMember(rng *rand.Rand) *Peer {
	for range 100 * len(s.members) {
		if p := s.members[rng.IntN(len(s.members))]; p.Active() {
			return p
		}
	}
	return nil
}
