package nodes

import (
	"slices"
	"strings"
	"testing"

	"tidings/overlay"
)

// rightTables returns the right tables of four members at depth 1, two on each side.
func rightTables() []NodeState {
	id := func(first byte) (id overlay.ID) { id[0] = first; return id }
	ids := []overlay.ID{id(0x10), id(0x20), id(0x80), id(0xf0)}
	var all []NodeState
	for i, self := range ids {
		l := NodeState{ID: self, Member: true, Depth: 1, Leaf: slices.Clone(ids[i/2*2 : i/2*2+2]), Counts: []int{4, 2}}
		for col := range 16 {
			if col>>3 == self.Digit(0)>>3 {
				continue // in the leaf
			}
			s := overlay.Slot{Row: 0, Column: col}
			for _, other := range ids {
				if other.Digit(0) == col {
					s.Contact = other
				}
			}
			l.Slots = append(l.Slots, s)
		}
		all = append(all, l)
	}
	return all
}

func TestTables(t *testing.T) {
	if wrong := wrongTables(rightTables()); len(wrong) > 0 {
		t.Fatalf("right tables are wrong: %q", wrong)
	}
	stranger := overlay.ID{0x30}
	slot := func(l *NodeState, column int) *overlay.Slot {
		return &l.Slots[slices.IndexFunc(l.Slots, func(s overlay.Slot) bool { return s.Column == column })]
	}
	for _, c := range []struct {
		what   string
		change func(all []NodeState)
		says   string
	}{
		{"a node still joins", func(all []NodeState) { all[1].Member = false }, "is not a member"},
		{"a leaf lacks one", func(all []NodeState) { all[0].Leaf = all[0].Leaf[:1] }, "knows 1 members of its leaf, which has 2"},
		{"a leaf has a dead member", func(all []NodeState) { all[0].Leaf = append(all[0].Leaf, stranger) }, "knows 3 members"},
		{"a leaf has a dead one in place of a live one", func(all []NodeState) { all[0].Leaf[1] = stranger }, "knows 2 members"},
		{"a leaf has another depth", func(all []NodeState) { all[1].Depth = 2 }, "its leaf has depth"},
		{"a slot is empty", func(all []NodeState) { slot(&all[0], 8).Contact = overlay.ID{} }, "no live member in slot (0, 8)"},
		{"a slot's contact is dead", func(all []NodeState) { slot(&all[0], 8).Contact = overlay.ID{0x81} }, "no live member in slot (0, 8)"},
		{"a slot's contact belongs elsewhere", func(all []NodeState) { slot(&all[0], 8).Contact = all[3].ID }, "no live member in slot (0, 8)"},
		{"a dead contact in a slot without live members", func(all []NodeState) { slot(&all[0], 9).Contact = overlay.ID{0x91} }, ""},
		{"a count is a little off", func(all []NodeState) { all[0].Counts[0] = 6 }, ""},
		{"a count is too high", func(all []NodeState) { all[0].Counts[0] = 7 }, "counts 7 members below 0 bits, which is 75 % off"},
		{"a count is too low", func(all []NodeState) { all[2].Counts[0] = 1 }, "counts 1 members below 0 bits, which is 75 % off"},
	} {
		all := rightTables()
		c.change(all)
		wrong := strings.Join(wrongTables(all), "; ")
		if c.says == "" && wrong != "" || !strings.Contains(wrong, c.says) {
			t.Errorf("%s: %q", c.what, wrong)
		}
	}
}

func TestTheRootIsTheNearest(t *testing.T) {
	all := rightTables()
	for key, want := range map[byte]byte{0x11: 0x10, 0x30: 0x20, 0x9f: 0x80, 0xc0: 0xf0} {
		if got := root(overlay.ID{key}, all); got[0] != want {
			t.Errorf("root of %x is %x, want %x", key, got[0], want)
		}
	}
}

func TestJudge(t *testing.T) {
	ends := func(way string, s ...float64) []SequencerExit {
		of := []SequencerExit{{Mode: Leave}, {Mode: Closed}, {Mode: Silent}}
		for _, s := range s {
			of = append(of, SequencerExit{Mode: way, SequencerS: s})
		}
		return of
	}
	for _, c := range []struct {
		what   string
		result Result
		missed string
	}{
		{"all is well", Result{Phase: Join, RightS: 20, Busy: &Cost{RSSBytes: 12e6}, Idle: &Cost{RSSBytes: 12e6}}, ""},
		{"slow joins", Result{Phase: Join, RightS: 20.1}, "tables right after the last start"},
		{"large nodes", Result{Phase: Join, Idle: &Cost{RSSBytes: 13e6}}, "resident memory per node, rested"},
		{"deaths are mended", Result{Phase: Silent, RightS: 60}, ""},
		{"deaths are mended slowly", Result{Phase: Closed, RightS: 61}, "tables right after the death"},
		{"one of several ends is slow", Result{Phase: Sequencer, Transport: TCP, SequencerExits: ends(Leave, 1, 16, 2)}, "new sequencer, mode leave"},
		{"TCP tells of a death", Result{Phase: Sequencer, Transport: TCP, SequencerExits: ends(Closed, 16)}, "new sequencer, mode closed"},
		{"QUIC does not", Result{Phase: Sequencer, Transport: QUIC, SequencerExits: ends(Closed, 45)}, ""},
		{"silence", Result{Phase: Sequencer, Transport: TCP, SequencerExits: ends(Silent, 46)}, "new sequencer, mode silent"},
		{"a way that was not measured", Result{Phase: Sequencer, Transport: TCP, SequencerExits: []SequencerExit{{Mode: Leave}, {Mode: Silent}}}, "new sequencer, mode closed"},
	} {
		var missed []string
		for _, m := range Judge(c.result) {
			if m.Missed() {
				missed = append(missed, m.Figure)
			}
		}
		if got := strings.Join(missed, "; "); got != c.missed {
			t.Errorf("%s: missed %q, want %q", c.what, got, c.missed)
		}
	}
}

func TestDefaultRuns(t *testing.T) {
	for transport, want := range map[string]string{
		Both: "join/both silent/both closed/both sequencer/quic sequencer/tcp",
		TCP:  "join/tcp silent/tcp closed/tcp sequencer/tcp",
	} {
		var got []string
		for _, c := range Default(60, 20, transport, 0, 0) {
			got = append(got, c.Phase+"/"+c.Transport)
			if c.Phase == Sequencer && c.Nodes-3*c.Killed < 5 {
				t.Errorf("%d nodes are too few for %d ends in each way", c.Nodes, c.Killed)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", transport, got, want)
		}
	}
}
