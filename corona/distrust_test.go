package corona

import (
	"testing"
	"time"

	"tidings/difference"
	"tidings/internal/env"
	"tidings/internal/feed"
)

// A poller is blamed for the items that it reported last, for a day, and not for those of which nobody remembers the
// poller.
func TestPollersOfContestedItemsAreNotBelieved(t *testing.T) {
	now := time.Unix(1000, 0)
	in := &intake{base: &base{clock: &fixedTime{now}}}
	l := new(leaderState)
	version := func(id ...byte) (v difference.Version) {
		copy(v.ID[:], id)
		return v
	}
	l.note(version(1), "forgotten")
	for i := range maxReported - 2 {
		l.note(version(2, byte(i)), "honest")
	}
	l.note(difference.Version{ID: feed.ID{3}, Hash: feed.Hash{1}}, "honest") // before the liar forged an edit
	l.note(version(3), "liar")
	in.contested(l, []difference.Version{version(1), version(3)})
	for poller, want := range map[env.PeerID]bool{"forgotten": false, "honest": false, "liar": true} {
		if l.distrusts(poller, now) != want {
			t.Errorf("%s: %v", poller, !want)
		}
	}
	if in.contested(l, []difference.Version{version(3)}); in.stats.Distrusted != 1 {
		t.Errorf("%d pollers", in.stats.Distrusted)
	}
	if l.distrusts("liar", now.Add(distrustTime)) {
		t.Error("not believed after a day")
	}
	if len(l.reported) != maxReported {
		t.Errorf("%d items are remembered", len(l.reported))
	}
}

type fixedTime struct{ at time.Time }

func (c *fixedTime) Now() time.Time { return c.at }
