package daemon

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"tidings/overlay"
)

// The doctor warns of a false network with all reasons. It does not warn a node that has a single entry point, but says
// what that means, and says nothing to a founder.
func TestEntryPointsFinding(t *testing.T) {
	checked := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name         string
		points       overlay.EntryPoints
		level        string // "": no finding
		what, remedy string
	}{
		{"founder", overlay.EntryPoints{CheckedAt: checked}, "", "", ""},
		{"not checked yet", overlay.EntryPoints{Known: 3}, "", "", ""},
		{"one known", overlay.EntryPoints{Known: 1}, levelOK, "knows one node only", "second --bootstrap"},
		{"one answers", overlay.EntryPoints{Known: 9, Answering: 1, CheckedAt: checked}, levelOK, "knows one node only", "second --bootstrap"},
		{"none answers", overlay.EntryPoints{Known: 9, CheckedAt: checked}, "", "", ""},
		{"two agree", overlay.EntryPoints{Known: 2, Answering: 2, CheckedAt: checked}, levelOK, "the 2 nodes asked", ""},
		{"one of two lies", overlay.EntryPoints{Known: 2, Answering: 2, Apart: 1, Bootstrap: true, CheckedAt: checked}, levelNote, "of the 2 nodes asked through which this node can join, 1 did not find", "second --bootstrap"},
		{"one of four members lies", overlay.EntryPoints{Known: 9, Answering: 4, Apart: 1, CheckedAt: checked}, levelOK, "of the 4 nodes asked through which this node can join, 1 did not find", ""},
		{"half of them lie", overlay.EntryPoints{Known: 9, Answering: 4, Apart: 2, CheckedAt: checked}, levelNote, "2 did not find", "second --bootstrap"},
		{"the network hides", overlay.EntryPoints{Known: 2, Network: true, CheckedAt: checked}, levelNote, "members of the network did not find", "second --bootstrap"},
		{"forgotten", overlay.EntryPoints{Known: 9, Forgotten: true, CheckedAt: checked}, levelNote, "remembers from its last run", "second --bootstrap"},
		{"no place", overlay.EntryPoints{Known: 1, NoPlace: true, CheckedAt: checked}, levelNote, "its place in the network", "second --bootstrap"},
		{"claims", overlay.EntryPoints{Known: 1, Claimed: 768, Likely: 26, CheckedAt: checked}, levelNote, "about 768 members, but those that answer are as far apart as in a network of 26", "second --bootstrap"},
	} {
		f, ok := entryPointsFinding(c.points)
		if ok != (c.level != "") || f.Level != c.level || !strings.Contains(f.What.String(), c.what) || !strings.Contains(f.Do.String(), c.remedy) {
			t.Errorf("%s: %+v", c.name, f)
		}
		if is := entryPointsStatus(c.points).Doubtful; is != (c.level == levelNote) {
			t.Errorf("%s: doubtful is %v in the status", c.name, is)
		}
	}
}

// A node with two bootstrap addresses joins through both. Here they belong to networks that had never met.
func TestANodeJoinsThroughAllItsEntryPoints(t *testing.T) {
	t.Parallel()
	a, b := running(t, founding(t, "two")), running(t, founding(t, "two"))
	bootstrap := append(a.awaitMembers(t, 1).Addrs, b.awaitMembers(t, 1).Addrs...)
	newcomer := running(t, Config{Dir: t.TempDir(), Bootstrap: bootstrap})
	for _, m := range []*member{a, b, newcomer} {
		m.awaitMembers(t, 3)
	}
	if s, err := newcomer.Status(t.Context()); err != nil || s.EntryPoints.Known != 2 || s.EntryPoints.Doubtful {
		t.Errorf("%+v %v", s.EntryPoints, err)
	}
}

// A node whose bootstrap addresses belong to networks with other settings joins one of them, and is told of the other.
func TestEntryPointsOfAnotherNetworkAreNamed(t *testing.T) {
	t.Parallel()
	other := founding(t, "two")
	other.Found.PollInterval *= 2
	a, b := running(t, founding(t, "two")), running(t, other)
	bootstrap := append(a.awaitMembers(t, 1).Addrs, b.awaitMembers(t, 1).Addrs...)
	newcomer := running(t, Config{Dir: t.TempDir(), Bootstrap: bootstrap})
	newcomer.awaitMembers(t, 2)
	within(t, awaitTimeout, "a warning", func() error {
		s, err := newcomer.Status(t.Context())
		if err == nil && !strings.Contains(fmt.Sprint(s.Warnings), "a node at --bootstrap, is in another network than this node") {
			err = fmt.Errorf("%q", s.Warnings)
		}
		return err
	})
}
