package owner

import (
	"tidings/internal/env"
	"tidings/overlay"
	"tidings/overlay/owner/ownerpb"
)

// SetNote replaces the small record that goes with a key, at its sequencer, and
// sends it to the owners. Who misses it gets it with the next comparison.
func (o *Owners) SetNote(key overlay.ID, note []byte) error {
	s := o.replicas[key]
	if s == nil || s.leader == nil {
		return ErrNotLeading
	}
	if len(note) > MaxNote-len(Hash{}) {
		return ErrEntry
	}
	// It says what is so when all up to that entry is in the log.
	var after Hash
	if e := o.LastCommitted(key); e != nil {
		after = e.Hash
	}
	s.note = append(after[:], note...)
	s.version++
	o.saveReplica(s, nil)
	m := &ownerpb.Message{Body: &ownerpb.Message_Note{Note: &ownerpb.Note{
		Key: s.key[:], Branch: s.epoch.Branch, Number: s.epoch.Number, Version: s.version, Note: s.note,
	}}}
	for _, to := range s.epoch.Owners {
		if to != o.self {
			o.send(to, m)
		}
	}
	return nil
}

// Note returns the small record that goes with a key, nil if there is none here. It looks through the
// entries that were added since the record was set.
func (o *Owners) Note(key overlay.ID) []byte {
	if s := o.replicas[key]; s != nil {
		return s.currentNote()
	}
	return nil
}

// noted is the record, nil if there is none, or if it is of a log that is longer than
// the one here: after a jump there may be less.
func (s *replica) currentNote() []byte {
	if len(s.note) < len(Hash{}) {
		return nil
	}
	after := Hash(s.note[:len(Hash{})])
	if after != (Hash{}) && s.log.find(after) < 0 {
		return nil
	}
	return s.note[len(Hash{}):]
}

// onNote takes the sequencer's record.
func (o *Owners) onNote(from env.PeerID, m *ownerpb.Note) {
	s := o.replicaOf(m.Key)
	if s == nil || s.epoch == nil || from != s.epoch.Sequencer || m.Branch != s.epoch.Branch || m.Number != s.epoch.Number {
		return
	}
	s.lastHeard = o.clock.Now()
	o.takeNote(s, m.Note, m.Version, from)
}

// takeNote takes a record that is later than the one here; the sequencer's own is
// always right: that of another lineage may have counted farther.
func (o *Owners) takeNote(s *replica, note []byte, version uint64, from env.PeerID) {
	if s.leader != nil || version == s.version || version < s.version && from != s.epoch.Sequencer || len(note) > MaxNote {
		return
	}
	s.note, s.version = note, version
	o.saveReplica(s, nil)
}
