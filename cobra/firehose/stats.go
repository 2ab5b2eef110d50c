package firehose

// Stats counts the events since the node started.
type Stats struct {
	Reported     uint64 // entries to report as the sequencer
	NoListener   uint64 // entries not reported because no filter listens
	Unreported   uint64 // entries not reported because no owners were reached, or too many entries waited
	Carried      uint64 // reports accepted as the owner of a shard
	Broadcast    uint64 // reports broadcast to filters
	Rescued      uint64 // reports broadcast because another owner did not
	Digests      uint64 // digests broadcast
	Heard        uint64 // entries received as a filter, each counted once
	Lacked       uint64 // entries that the filter had to ask for
	Missed       uint64 // entries that the filter could not get
	Refused      uint64 // times that the filter had no space for an entry
	Gaps         uint64 // times that owners no longer had the entries a filter missed
	Strange      uint64 // broadcasts from a node that is not known to own the shard
	Garbage      uint64 // messages that broke the protocol
	Forged       uint64 // reports not from the sequencer of a feed, and epochs without a signature
	Listeners    int    // filters known as the owner of a shard
	Served       int    // shards that the node owns
	SilentShards int    // shards that the filter has received no digest of for some minutes
	Kept         int    // entries kept for filters as an owner
}

// Add adds the counters of another node.
func (st *Stats) Add(t Stats) {
	st.Reported += t.Reported
	st.NoListener += t.NoListener
	st.Unreported += t.Unreported
	st.Carried += t.Carried
	st.Broadcast += t.Broadcast
	st.Rescued += t.Rescued
	st.Digests += t.Digests
	st.Heard += t.Heard
	st.Lacked += t.Lacked
	st.Missed += t.Missed
	st.Refused += t.Refused
	st.Gaps += t.Gaps
	st.Strange += t.Strange
	st.Garbage += t.Garbage
	st.Forged += t.Forged
	st.Listeners += t.Listeners
	st.Served += t.Served
	st.SilentShards += t.SilentShards
	st.Kept += t.Kept
}
