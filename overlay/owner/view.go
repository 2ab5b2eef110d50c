package owner

import "tidings/overlay"

// Stats counts what an Owners has done since it started.
type Stats struct {
	Replicas        int    // keys whose log the node has a part in
	Owned           int    // keys that the node is an owner of
	Led             int    // keys that the node is the sequencer of
	Entries         int    // entries kept in logs
	Appended        uint64 // entries appended as the sequencer
	Committed       uint64 // appended entries that a quorum committed
	Replicated      uint64 // entries kept for other sequencers
	Candidacies     uint64 // attempts to begin an epoch
	Epochs          uint64 // attempts to begin an epoch that succeeded
	ForcedReconfigs uint64 // branches begun after a quorum was lost
	Merged          uint64 // branches that ended in another one
	Pulls           uint64 // logs pulled from other nodes
	Truncated       uint64 // entries dropped because they were not committed
	StoreErrors     uint64 // commits that the disk refused
	Damaged         uint64 // records that could not be read
	Lost            uint64 // bodies that could not be read
	Repaired        uint64 // unreadable bodies that came back from another node
	Garbage         uint64 // messages that broke the protocol
	Control         uint64 // messages sent
	Lookups         uint64 // checked lookups of the nodes near a key
	Barred          uint64 // times that an owner was kept from leading a key because of proof against it
	DatedAhead      uint64 // entries refused because they are dated too far ahead of most clocks
	LeftOut         uint64 // owners left out because they did not do their part
	Untrusted       uint64 // entries and epochs signed by a node without the right to
}

// Log returns the kept entries of a key's log, oldest first. The slice must not be modified.
func (o *Owners) Log(key overlay.ID) []*Entry { return o.replicas.log(key).chain }

// Visible returns the entries of a key's log that readers may see, oldest first. The slice must not be modified.
func (o *Owners) Visible(key overlay.ID) []*Entry { return o.replicas.log(key).visible }

// HeardFromSequencer records a sign of life of a key's sequencer that another layer received.
func (o *Owners) HeardFromSequencer(key overlay.ID) {
	if s := o.replicas.byKey[key]; s != nil {
		o.liveness.heard(s)
	}
}

// MarkCommitted records that an entry is committed, as the sequencer has told another layer.
func (o *Owners) MarkCommitted(key overlay.ID, h Hash) {
	if s := o.replicas.byKey[key]; s != nil {
		o.markCommitted(s, h)
	}
}

// Has reports whether an entry is in the kept part of a key's log.
func (o *Owners) Has(key overlay.ID, h Hash) bool { return o.replicas.log(key).find(h) >= 0 }

// A View describes what a node knows of a key.
type View struct {
	URL     string
	Epoch   *Epoch // epoch in force; nil: none known
	Leads   bool   // this node is the sequencer
	Owns    bool   // this node is an owner
	Follows bool   // this node follows the key
	Weight  int    // clients of the key's tree, as the sequencer was told; at other nodes not current
}

// View returns what is known of a key; ok is false if nothing is known.
func (o *Owners) View(key overlay.ID) (v View, ok bool) {
	s := o.replicas.byKey[key]
	if s == nil {
		return v, false
	}
	return View{
		URL: s.url, Epoch: s.epoch, Leads: s.leader != nil, Owns: s.owned, Follows: s.follow, Weight: s.readers.weight,
	}, true
}

// Keys returns the keys of all replicas, sorted.
func (o *Owners) Keys() []overlay.ID {
	var of []overlay.ID
	for _, s := range o.replicas.all() {
		of = append(of, s.key)
	}
	return of
}

// Stats returns the counters.
func (o *Owners) Stats() Stats {
	st := o.stats
	st.Replicas = len(o.replicas.byKey)
	for _, s := range o.replicas.byKey {
		st.Entries += len(s.log.chain)
		if s.owned {
			st.Owned++
		}
		if s.leader != nil {
			st.Led++
		}
	}
	return st
}

// Note returns a key's note; nil if there is none, or if the log here lacks the entry that the note refers to, as it may
// after a forced reconfiguration. Note searches the entries that were added since the note was set.
func (o *Owners) Note(key overlay.ID) []byte {
	s := o.replicas.byKey[key]
	if s == nil || len(s.note) < len(Hash{}) {
		return nil
	}
	if after := Hash(s.note[:len(Hash{})]); after != (Hash{}) && s.log.find(after) < 0 {
		return nil
	}
	return s.note[len(Hash{}):]
}
