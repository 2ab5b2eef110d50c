package daemon

import (
	"strings"
	"testing"

	"tidings/corona/coronapb"
	"tidings/internal/feed"
)

func TestReadersFindingShowsAReachableAddress(t *testing.T) {
	for _, c := range []struct {
		address, base, want string
		refuses             bool // readers on other machines
	}{
		{"127.0.0.1:8190", "", "http://127.0.0.1:8190/", false},
		{"[::1]:8190", "", "http://[::1]:8190/", false},
		{"[::]:8190", "", "http://127.0.0.1:8190/", true},
		{"0.0.0.0:8190", "", "http://127.0.0.1:8190/", true},
		{"10.0.0.7:8190", "", "http://10.0.0.7:8190/", true},
		{"[::]:8190", "http://nas.example:8190", "http://nas.example:8190/", false},
	} {
		f := readersFinding(c.address, c.base)
		if f.What != "feed readers are served at "+c.want || strings.Contains(f.Do, "--base-url") != c.refuses {
			t.Errorf("%+v", f)
		}
	}
}

// The remedy names the command to stop following a feed, unless waiting helps.
func TestRemedyNamesTheWayToStopFollowing(t *testing.T) {
	const url = "https://x.example/feed"
	for kind, stops := range map[coronapb.State_Kind]bool{
		coronapb.State_GONE: true, coronapb.State_MISSING: true, coronapb.State_NOT_A_FEED: true, coronapb.State_BROKEN: true,
		coronapb.State_TOO_LARGE: true, coronapb.State_REFUSED: true, coronapb.State_LIMITED: false, coronapb.State_UNREACHABLE: false, coronapb.State_FAILING: false,
	} {
		for _, private := range []bool{false, true} {
			for _, channel := range []string{url, feed.Page(url)} {
				do := remedy(channel, kindName(kind), private)
				if strings.HasSuffix(do, "; or stop following it: tidings unsubscribe "+channel) != stops {
					t.Errorf("%v: %s", kind, do)
				}
			}
		}
	}
}
