package corona

import (
	"testing"
	"time"
)

// withdrawals counts the items that the log says were withdrawn, and those that it says stand again.
func (v *channelNetwork) withdrawals() (withdrawn, standing int) {
	for _, d := range v.found {
		withdrawn += len(d.Withdrawn)
		standing += len(d.Standing)
	}
	return withdrawn, standing
}

func (v *channelNetwork) wantWithdrawals(when string, withdrawn, standing int) {
	v.t.Helper()
	if w, s := v.withdrawals(); w != withdrawn || s != standing {
		v.t.Fatalf("%s: %d were withdrawn and %d stand again, want %d and %d", when, w, s, withdrawn, standing)
	}
}

// An item that is gone while an older one stays is withdrawn in the log when the origin has shown that for an hour, also when
// the sequencer changes meanwhile, and whether the sequencer polls or not; and so when it is back.
func TestWithdrawalsReachReaders(t *testing.T) {
	whole, without := rss("A", "", "three", "two", "one"), rss("A", "", "three", "one")
	v := newChannelNetwork(t, 3, whole)
	v.serve(without)
	v.poll(v.pollers[0])
	v.run(5 * time.Minute)
	v.serve(whole)
	v.run(3 * time.Hour)
	v.wantWithdrawals("a replica that lags", 0, 0)
	v.serve(without)
	v.run(40 * time.Minute)
	v.hand(v.pollers[0])
	v.wantWithdrawals("within an hour", 0, 0)
	v.run(4 * time.Hour)
	v.wantWithdrawals("after an hour", 1, 0)
	v.hand(v.pollers[1])
	v.run(4 * time.Hour)
	v.wantWithdrawals("after another sequencer", 1, 0)
	reports := v.reports()
	v.run(4 * time.Hour)
	if v.reports() != reports {
		t.Errorf("%d reports of an item that was withdrawn", v.reports()-reports)
	}
	v.serve(whole)
	v.run(4 * time.Hour)
	v.wantWithdrawals("when it is back", 1, 1)
	v.serve(rss("A", "", "five", "four", "three"))
	v.run(4 * time.Hour)
	v.wantWithdrawals("after others rolled off", 1, 1)
}

// When a feed is empty for an hour, all its items were withdrawn. The validators of the document do not hide that.
func TestAnEmptyFeedWithdrawsItsItems(t *testing.T) {
	v := newChannelNetwork(t, 2, rss("A", "", "two", "one"))
	v.serve(rss("A", ""))
	v.run(20 * time.Minute)
	v.wantWithdrawals("within an hour", 0, 0)
	v.run(4 * time.Hour)
	v.wantWithdrawals("after an hour", 2, 0)
}
