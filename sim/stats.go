package sim

// Traffic counts frames and their bytes, without the overhead of encryption, streams and packets.
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
	RefusedCommits         uint64 // commits that a disk fault refused

	Sent, Received [2]Traffic // by env.Class; sent frames may be lost, received ones duplicated

	TopicSent Traffic // frames of topics, counted per receiver; they may be lost

	Undeliverable uint64 // frames for which no link could be opened
	Lost          uint64 // sent frames that were lost at random or in a partition
	Duplicated    uint64 // sent frames that were delivered twice
	Reordered     uint64 // sent frames that were delayed past later ones
	Undelivered   uint64 // sent frames that found the peer dead or the link cut

	BadFrames uint64 // received frames that violated the protocol
	LinksCut  uint64 // links cut because the peer sent too many bad frames
}

// Add adds the counters of another host.
func (s *Stats) Add(t Stats) {
	for c := range s.Sent {
		s.Sent[c].Frames += t.Sent[c].Frames
		s.Sent[c].Bytes += t.Sent[c].Bytes
		s.Received[c].Frames += t.Received[c].Frames
		s.Received[c].Bytes += t.Received[c].Bytes
	}
	s.TopicSent.Frames += t.TopicSent.Frames
	s.TopicSent.Bytes += t.TopicSent.Bytes
	s.Undeliverable += t.Undeliverable
	s.Lost += t.Lost
	s.Duplicated += t.Duplicated
	s.Reordered += t.Reordered
	s.Undelivered += t.Undelivered
	s.BadFrames += t.BadFrames
	s.LinksCut += t.LinksCut
	s.Runs += t.Runs
	s.Fetches += t.Fetches
	s.Commits += t.Commits
	s.RefusedCommits += t.RefusedCommits
}
