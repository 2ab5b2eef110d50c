package daemon

import (
	"strings"
	"testing"

	"tidings/feedtree"
	"tidings/proxy"
)

// A feed of which something is missing is not as good as any other; what keeps it from being polled is said
// first.
func TestWhatIsMissingIsShown(t *testing.T) {
	c := proxy.Channel{URL: "https://a.example/feed", State: proxy.StateOK}
	if lacks(&c, feedtree.Subscription{}); c.State != proxy.StateOK || c.Error != "" {
		t.Errorf("nothing is missing: %+v", c)
	}
	lacks(&c, feedtree.Subscription{Lacks: 3})
	if c.State != stateLacks || c.Missing != 3 || !strings.Contains(c.Error, "leaves out 3") || !strings.Contains(c.Do, c.URL) {
		t.Errorf("three are missing: %+v", c)
	}
	gone := proxy.Channel{URL: "https://a.example/feed", State: "gone", Error: "gone"}
	if lacks(&gone, feedtree.Subscription{Lacks: 3}); gone.State != "gone" || gone.Error != "gone" || gone.Missing != 3 {
		t.Errorf("gone, and three are missing: %+v", gone)
	}
}
