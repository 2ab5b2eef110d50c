package sim

// Traffic counts frames and their bytes, without what encryption, streams and
// packets add.
type Traffic struct {
	Frames, Bytes uint64
}

func (t *Traffic) add(frame []byte) {
	t.Frames++
	t.Bytes += uint64(len(frame))
}

// Stats are the counters of one host.
type Stats struct {
	Runs, Fetches, Commits uint64
	Unwritten              uint64 // commits that a fault of the disk refused

	Sent, Received [2]Traffic // by env.Class; sent ones may be lost, received ones repeated

	Whispered Traffic // frames of topics, sent to one each; they may be lost

	Undeliverable uint64 // frames for which no link could be opened
	Lost          uint64 // sent frames lost by the dice or a partition
	Repeated      uint64 // sent frames delivered twice by the dice
	Reordered     uint64 // sent frames held back by the dice
	Unheard       uint64 // sent frames that found the peer dead or the link cut

	Refused uint64 // received frames that broke the protocol
	Cut     uint64 // links cut because a peer sent too many of these
}

// Add adds the counters of another host.
func (s *Stats) Add(t Stats) {
	for c := range s.Sent {
		s.Sent[c].Frames += t.Sent[c].Frames
		s.Sent[c].Bytes += t.Sent[c].Bytes
		s.Received[c].Frames += t.Received[c].Frames
		s.Received[c].Bytes += t.Received[c].Bytes
	}
	s.Whispered.Frames += t.Whispered.Frames
	s.Whispered.Bytes += t.Whispered.Bytes
	s.Undeliverable += t.Undeliverable
	s.Lost += t.Lost
	s.Repeated += t.Repeated
	s.Reordered += t.Reordered
	s.Unheard += t.Unheard
	s.Refused += t.Refused
	s.Cut += t.Cut
	s.Runs += t.Runs
	s.Fetches += t.Fetches
	s.Commits += t.Commits
	s.Unwritten += t.Unwritten
}
