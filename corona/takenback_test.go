package corona

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// texts returns a feed of items one and two with these texts.
func texts(one, two string) string {
	return strings.NewReplacer("of one", one, "of two", two).Replace(rss("A", "", "one", "two"))
}

// latest returns the content of the last item in the log.
func (v *channelNetwork) latest() string {
	m, err := v.items[len(v.items)-1].Meaning("")
	if err != nil {
		v.t.Fatal(err)
	}
	return m.Summary
}

// An edit that is taken back is an entry of the log when the origin has shown only the earlier version for an hour,
// also when the sequencer changes meanwhile, and whether the sequencer polls or not. A replica that lags for minutes
// makes no entry.
func TestAnEditTakenBackReachesReaders(t *testing.T) {
	old, edited := texts("old", "x"), texts("edited", "x")
	v := newChannelNetwork(t, 3, old)
	v.serve(edited)
	v.run(time.Hour)
	if v.latest() != "edited" || len(v.found) != 2 {
		t.Fatalf("the log ends with %q, after %d entries", v.latest(), len(v.found))
	}
	v.serve(old)
	v.poll(v.pollers[0])
	v.run(5 * time.Minute)
	v.serve(edited)
	v.run(3 * time.Hour)
	if len(v.found) != 2 {
		t.Fatalf("the log ends with %q after a replica that lags", v.latest())
	}
	v.serve(old)
	v.run(40 * time.Minute)
	v.hand(v.pollers[0])
	if len(v.found) != 2 {
		t.Fatalf("taken back within an hour")
	}
	v.run(3 * time.Hour)
	if v.latest() != "old" || len(v.found) != 3 {
		t.Fatalf("the log ends with %q, after %d entries", v.latest(), len(v.found))
	}
	v.hand(v.pollers[1])
	v.run(6 * time.Hour)
	if len(v.found) != 3 {
		t.Errorf("%d entries after another sequencer", len(v.found))
	}
}

// Counters in the texts are entries once. After that, pollers do not even report them, under any sequencer.
func TestCountersAreNotReported(t *testing.T) {
	n := 0
	next := func() string {
		n += 7
		return texts(fmt.Sprintf("%d comments", n), fmt.Sprintf("read %d times", 3*n))
	}
	v := newChannelNetwork(t, 3, next())
	for range 2 {
		v.serve(next())
		v.poll(v.pollers...)
		v.run(time.Minute)
	}
	if len(v.found) != 2 {
		t.Fatalf("%d entries", len(v.found))
	}
	reports := v.reports()
	for range 5 {
		v.serve(next())
		v.poll(v.pollers...)
		v.run(time.Minute)
	}
	if len(v.found) != 2 || v.reports() != reports {
		t.Errorf("%d entries, and %d reports of counters", len(v.found), v.reports()-reports)
	}
	v.hand(v.pollers[0])
	for range 3 {
		v.serve(next())
		v.poll(v.pollers[1:]...)
		v.run(20 * time.Minute)
	}
	if len(v.found) != 2 {
		t.Errorf("%d entries after another sequencer", len(v.found))
	}
	v.serve(texts("12 comments, none of them kind", "read 9999 times"))
	v.run(time.Hour)
	if len(v.found) != 3 || v.latest() != "12 comments, none of them kind" {
		t.Errorf("%d entries, the last one %q", len(v.found), v.latest())
	}
}

// An edit may be taken back in a document that also has a new item. "Not modified" for that document must not hide
// that readers have the edit. (Three real nodes kept it for ever.)
func TestAnEditTakenBackBesideNewsReachesReaders(t *testing.T) {
	v := newChannelNetwork(t, 3, texts("old", "x"))
	v.serve(texts("edited", "x"))
	v.run(time.Hour)
	withNews := strings.Replace(texts("old", "x"), "<item>", `<item><guid isPermaLink="false">three</guid><title>three</title><description>new</description></item><item>`, 1)
	v.serve(withNews)
	v.run(3 * time.Hour)
	if v.latest() != "old" || len(v.found) != 4 {
		t.Errorf("the log ends with %q, after %d entries", v.latest(), len(v.found))
	}
}
