package owner

import (
	"tidings/internal/env"
	"tidings/overlay"
	"tidings/overlay/owner/ownerpb"
)

// Note returns a key's note; nil if there is none. It searches the entries that were added since the note was set.
func (o *Owners) Note(key overlay.ID) []byte {
	if s := o.replicas.byKey[key]; s != nil {
		return s.currentNote()
	}
	return nil
}

// currentNote returns the note without the hash; nil if there is none, or if the log here lacks the entry that it refers
// to, as it may after a forced reconfiguration.
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

// onNote handles the sequencer's note.
func (o *Owners) onNote(from env.PeerID, m *ownerpb.Note) {
	s := o.replicas.of(m.Key)
	if s == nil || s.epoch == nil || from != s.epoch.Sequencer || m.Branch != s.epoch.Branch || m.Number != s.epoch.Number {
		return
	}
	o.heard(s)
	o.takeNote(s, m.Note, m.Version, from)
}

// takeNote stores a note that is newer than the one here. The sequencer's note is always taken, because the note of
// another branch may have a higher version.
func (o *Owners) takeNote(s *replica, note []byte, version uint64, from env.PeerID) {
	if s.leader != nil || version == s.version || version < s.version && from != s.epoch.Sequencer || len(note) > MaxNote {
		return
	}
	s.note, s.version = note, version
	o.save(s, nil)
}
