package daemon

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"tidings/internal/longtest"
	"tidings/overlay"
	"tidings/proxy"
)

// TestLongListDoesNotLookLikeAFlood subscribes at once to more feeds than most users have, and restarts with
// them. A busy node is neither blocked nor declared dead.
func TestLongListDoesNotLookLikeAFlood(t *testing.T) {
	t.Parallel()
	feeds := longtest.Pick(600, 3000)
	origin := httptest.NewServer(http.NotFoundHandler())
	defer origin.Close()
	founder := founding(t, "load")
	founder.AllowPrivateOrigins = true
	a := running(t, founder)
	joining := Config{Dir: t.TempDir(), Bootstrap: a.awaitMembers(t, 1).Addrs, HTTP: "127.0.0.1:0", AllowPrivateOrigins: true}
	b := running(t, joining)
	joining.Listen = b.awaitMembers(t, 2).Listens
	a.awaitMembers(t, 2)

	if result := importList(t, b, origin.URL, feeds); result.Subscribed != feeds {
		t.Fatalf("%d subscribed, %d failed", result.Subscribed, len(result.Failed))
	}
	watchMembers(t, longtest.Pick(6*time.Second, 20*time.Second), a, b)
	b.stop(t)
	b = running(t, joining)
	b.awaitMembers(t, 2)
	watchMembers(t, longtest.Pick(4*time.Second, 8*time.Second), a, b)
	b.stop(t)
	a.stop(t)
}

// watchMembers checks for some time that two members of a network of two stay connected.
func watchMembers(t *testing.T, long time.Duration, members ...*member) {
	t.Helper()
	look := time.NewTicker(250 * time.Millisecond)
	defer look.Stop()
	for begun, end := time.Now(), time.After(long); ; {
		select {
		case <-end:
			return
		case <-look.C:
		}
		for i, m := range members {
			if s := m.status(t); s.State != overlay.Active || len(s.Leaf) != 2 || s.Overlay.Deaths > 0 || s.Transport.Gated > 0 {
				t.Fatalf("after %v, node %d is %v, knows %d, has seen %d deaths, and cut off %d: %+v",
					time.Since(begun), i, s.State, len(s.Leaf), s.Overlay.Deaths, s.Transport.Gated, s.Transport.Control)
			}
		}
	}
}

// importList subscribes to a number of feeds of an origin by an OPML list.
func importList(t *testing.T, m *member, origin string, feeds int) (result proxy.Imported) {
	t.Helper()
	var list strings.Builder
	list.WriteString(`<opml version="2.0"><head><title>x</title></head><body>`)
	for i := range feeds {
		fmt.Fprintf(&list, `<outline type="rss" xmlUrl="%s/%d"/>`, origin, i)
	}
	list.WriteString(`</body></opml>`)
	m.post(t, "opml", list.String(), &result)
	return result
}
