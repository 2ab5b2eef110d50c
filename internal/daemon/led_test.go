package daemon

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"tidings/overlay"
)

// One of two nodes leads a feed and names both nodes as owners. Its snapshot shows the network.
func TestLedFeedsNameTheirOwners(t *testing.T) {
	t.Parallel()
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, `<rss version="2.0"><channel><title>T</title><item><guid>1</guid></item></channel></rss>`)
	}))
	defer origin.Close()
	founder := founding(t, "led")
	founder.AllowPrivateOrigins = true
	a := running(t, founder)
	b := running(t, Config{Dir: t.TempDir(), Bootstrap: a.awaitMembers(t, 1).Addrs, AllowPrivateOrigins: true})
	s := b.awaitMembers(t, 2)
	if s.Depth != 0 || !slices.Equal(s.Counts, []int{2}) || len(s.Slots) != 0 {
		t.Errorf("of two nodes one knows depth %d, counts %v, slots %v", s.Depth, s.Counts, s.Slots)
	}
	a.awaitMembers(t, 2)
	url := origin.URL + "/feed"
	if err := b.Subscribe(t.Context(), url, false); err != nil {
		t.Fatal(err)
	}
	key := overlay.Key("led", url)
	within(t, awaitTimeout, "one sequencer and two owners", func() error {
		var led []LedFeed
		for _, m := range []*member{a, b} {
			of, err := m.LedFeeds(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			led = append(led, of...)
		}
		if len(led) != 1 || led[0].URL != url || led[0].Key != key || len(led[0].Owners) != 2 {
			return fmt.Errorf("led are %+v", led)
		}
		for _, m := range []*member{a, b} {
			if id := m.status(t).ID; !slices.Contains(led[0].Owners, id) {
				t.Errorf("%s is no owner of %+v", id.Short(), led[0])
			}
		}
		return nil
	})
}
