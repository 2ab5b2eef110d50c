package corona

import (
	"fmt"
	"testing"
	"time"
)

// titles returns the titles that the log has told, without those that came with items.
func (v *channelNetwork) titlesAlone() (titles []string) {
	for _, d := range v.found[1:] {
		if d.Head != nil && len(d.Changes) == 0 {
			titles = append(titles, d.Head.Title)
		}
	}
	return titles
}

func (v *channelNetwork) wantTitles(when string, want ...string) {
	v.t.Helper()
	if got := v.titlesAlone(); fmt.Sprint(got) != fmt.Sprint(want) {
		v.t.Fatalf("%s: the titles %q are told, want %q", when, got, want)
	}
}

// Another title of a feed is in the log after one poll, whoever polls, and is reported by no other poller. A replica that
// lags changes nothing, and a title that is taken back is told when it has stayed for an hour.
func TestAnotherTitleReachesReaders(t *testing.T) {
	for _, items := range []int{2, maxSnapshotItems + 1} {
		old, changed := rss("A", "", numbered(items)...), rss("B", "", numbered(items)...)
		v := newChannelNetwork(t, 3, old)
		v.poll(v.pollers...)
		v.serve(changed)
		v.poll(v.pollers[0])
		v.wantTitles("after a poll", "B")
		reports := v.reports()
		v.poll(v.pollers...)
		v.hand(v.pollers[1])
		v.run(5 * time.Hour)
		v.wantTitles("after another sequencer", "B")
		if v.reports() != reports {
			t.Errorf("%d reports of a title that is in the log", v.reports()-reports)
		}
		v.serve(old)
		v.poll(v.pollers[2])
		v.run(5 * time.Minute)
		v.serve(changed)
		v.run(3 * time.Hour)
		v.wantTitles("after a replica that lags", "B")
		v.serve(old)
		v.run(4 * time.Hour)
		v.wantTitles("after it was taken back", "B", "A")
	}
}

// A title that is another one at each poll is told three times. After that, pollers do not even report it until an item comes.
func TestATitleThatCountsIsNotReported(t *testing.T) {
	n, items := 0, []string{"one"}
	next := func() string {
		n++
		return rss(fmt.Sprintf("%d new", n), "", items...)
	}
	v := newChannelNetwork(t, 3, next())
	for range 5 {
		v.serve(next())
		v.poll(v.pollers[0])
	}
	v.wantTitles("after some polls", "2 new", "3 new", "4 new")
	reports := v.reports()
	for range 5 {
		v.serve(next())
		v.poll(v.pollers...)
	}
	if v.reports() != reports {
		t.Errorf("%d reports of a title that counts", v.reports()-reports)
	}
	v.hand(v.pollers[0])
	for range 5 {
		v.serve(next())
		v.run(20 * time.Minute)
	}
	v.wantTitles("after another sequencer", "2 new", "3 new", "4 new")
	items = []string{"two", "one"}
	v.serve(next())
	v.run(time.Hour)
	if d := v.found[len(v.found)-1]; len(d.Changes) != 1 || d.Head == nil || d.Head.Title != fmt.Sprintf("%d new", n) {
		t.Errorf("the title does not come with the item: %+v", d)
	}
}

// The title of a feed that has no items yet is told, and nothing says that the log has all of it.
func TestTheTitleOfAnEmptyFeed(t *testing.T) {
	v := newChannelNetwork(t, 2, rss("A", ""))
	v.serve(rss("B", ""))
	v.run(2 * time.Hour)
	v.wantTitles("an empty feed", "B")
	if l := v.leader.leaders[v.key]; l.valid != (validators{}) || l.fingerprints != nil {
		t.Errorf("validators %+v of an empty feed", l.valid)
	}
	v.serve(rss("B", "", "one"))
	v.run(time.Hour)
	if titles(v.items) != "one" {
		t.Errorf("items %q", titles(v.items))
	}
}
