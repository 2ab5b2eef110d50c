package daemon

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"tidings/feedtree"
	"tidings/overlay"
)

// logged returns the lines that f logs, each with its level and message.
func logged(f func(*journal)) string {
	var out bytes.Buffer
	f(&journal{log: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))})
	return out.String()
}

func TestJoiningAndLosingTheNetworkIsLoggedOnce(t *testing.T) {
	alone := Contact{Network: "n", State: overlay.Active, Size: 1}
	member := Contact{Network: "n", State: overlay.Active, Size: 3}
	client := Contact{Network: "n", State: overlay.Attached} // a client does not know the size
	joining := Contact{Network: "n", Size: 3}
	cut := Contact{Network: "n", State: overlay.Attached, CutOff: &feedtree.CutOff{}}
	const (
		joined = "level=INFO msg=\"the node has joined other nodes\" network=n members=3\n"
		lost   = "level=WARN msg=\"no other node of the network answers; the node polls by itself\"\n"
		again  = "level=INFO msg=\"the node is in its network again\" members=3\n"
	)
	ofClient := func(lines string) string {
		return strings.ReplaceAll(lines, "members=3", "members=\"unknown to a client\"")
	}
	for _, c := range []struct {
		name string
		seen []Contact
		want string
	}{
		{"alone", []Contact{alone, alone}, ""},
		{"joins", []Contact{joining, member, member}, joined},
		{"gets company", []Contact{alone, client}, ofClient(joined)},
		{"becomes a client", []Contact{member, client, client, member}, joined},
		{"finds nobody", []Contact{joining, cut, cut}, lost},
		{"is cut off for a while", []Contact{client, cut, joining, client}, ofClient(joined) + lost + ofClient(again)},
		{"all others die", []Contact{member, alone, alone, member}, joined + lost + again},
	} {
		got := logged(func(j *journal) {
			for _, s := range c.seen {
				j.network(s)
			}
		})
		if got != c.want {
			t.Errorf("%s:\n%swant:\n%s", c.name, got, c.want)
		}
	}
}

func TestFullDiskIsLoggedSeldom(t *testing.T) {
	got := logged(func(j *journal) {
		now := time.Unix(0, 0)
		for _, c := range []struct {
			after  time.Duration
			failed uint64
			why    string
		}{
			{0, 0, ""},
			{journalEvery, 3, "disk full"},
			{journalEvery, 9, "disk full"},
			{journalEvery, 9, ""}, // a small record succeeded
			{failureEvery, 12, "disk full"},
			{journalEvery, 12, ""},
			{recoveredAfter, 12, ""},
			{journalEvery, 12, ""},
		} {
			now = now.Add(c.after)
			j.stores(c.failed, c.why, now)
		}
	})
	want := "level=ERROR msg=\"the store cannot be written\" err=\"disk full\" do=\"free space on the disk, or check its health\" failed_writes=3\n" +
		"level=ERROR msg=\"the store cannot be written\" err=\"disk full\" do=\"free space on the disk, or check its health\" failed_writes=9\n" +
		"level=INFO msg=\"the store can be written again\" failed_writes=0\n"
	if got != want {
		t.Errorf("%s\nwant:\n%s", got, want)
	}
}
