package owner

import "tidings/overlay"

// An Event says what became of a key. Owners reports it to Application.Emit.
type Event interface{ isEvent() }

type (
	// VisibleChanged: the result of Visible has changed.
	VisibleChanged struct{ Key overlay.ID }

	// Wanted, at the root of a key: another node looked up its owners, and asked that it have some.
	Wanted struct{ Key overlay.ID }

	// Doubted, at an owner: another owner wants another sequencer, and this one knows no reason. The layers above may look
	// for one, and report it by Missing.
	Doubted struct{ Key overlay.ID }

	// BecameSequencer: this node has become the sequencer of a key. It has all committed entries, unless its disk
	// refused some: it pulls these before it appends.
	BecameSequencer struct{ Key overlay.ID }

	// CeasedSequencer: this node no longer is the sequencer of a key.
	CeasedSequencer struct{ Key overlay.ID }

	// Committed, at the sequencer: an entry of its log is committed and may be sent down the tree. Epoch is the one in
	// force. After a change of sequencer some entries are reported again.
	Committed struct {
		URL   string
		Epoch *Epoch
		Entry *Entry
		Body  []byte
	}

	// Appended: what Append was given is committed or given up, and Done is to be called with OK.
	Appended struct {
		Done func(ok bool)
		OK   bool
	}

	// Absorb, at the sequencer: what is new in a body of another branch is to be appended.
	Absorb struct {
		Key  overlay.ID
		Body []byte
	}

	// BranchMerged, at the sequencer: another branch has ended in its own. Followers of the other branch may not know
	// yet.
	BranchMerged struct{ Key overlay.ID }
)

func (VisibleChanged) isEvent()  {}
func (Wanted) isEvent()          {}
func (Doubted) isEvent()         {}
func (BecameSequencer) isEvent() {}
func (CeasedSequencer) isEvent() {}
func (Committed) isEvent()       {}
func (Appended) isEvent()        {}
func (Absorb) isEvent()          {}
func (BranchMerged) isEvent()    {}

// An Application is what Owners needs of the layers above.
type Application interface {
	// Emit takes an event. It is called in the middle of other calls, so it must not call Owners itself: the node
	// handles the events when the call has ended, in their order.
	Emit(Event)

	// Absorbing reports whether something of an Absorb event is still to be appended.
	Absorbing(key overlay.ID) bool

	// Weight returns the number of clients in a key's tree; ok is false if this node is not the tree's root.
	Weight(key overlay.ID) (weight int, ok bool)

	// Siblings returns followers of a key that this node knows.
	Siblings(key overlay.ID) []*overlay.Contact
}
