package daemon

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
)

// A page shows the icon of a feed's site, which the node has asked once. A site of a feed that is not followed is not asked,
// and none is with --no-icons.
func TestIconsOfSites(t *testing.T) {
	t.Parallel()
	feed := newFerryFeed(t)
	feed.add("Pier 1")
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/favicon.ico":
			asked.Add(1)
			_, _ = w.Write([]byte("\x00\x00\x01\x00icon"))
		case strings.HasSuffix(r.URL.Path, ".xml"):
			feed.Config.Handler.ServeHTTP(w, r)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	c := founding(t, "icons")
	c.HTTP, c.AllowPrivateOrigins = "127.0.0.1:0", true
	m := running(t, c)
	m.awaitMembers(t, 1)
	address := server.URL + "/news.xml"
	m.post(t, "subscribe", fmt.Sprintf(`{"url":%q}`, address), &struct{}{})
	m.await(t, address, "Pier 1")
	icon := "/site-icon?url=" + url.QueryEscape(address)
	if home := m.get(t, "/"); !strings.Contains(home, `src="`+icon+`"`) {
		t.Errorf("the start page shows no icon: %s", home)
	}
	within(t, awaitTimeout, "the icon", func() error {
		status, body := m.api(t, http.MethodGet, icon, "")
		if status != http.StatusOK || body != "\x00\x00\x01\x00icon" {
			return fmt.Errorf("%d %q", status, body)
		}
		return nil
	})
	if status, _ := m.api(t, http.MethodGet, "/site-icon?url="+url.QueryEscape(server.URL+"/other.xml"), ""); status != http.StatusNotFound || asked.Load() != 1 {
		t.Errorf("status %d; the site was asked %d times", status, asked.Load())
	}
	m.stop(t)
	c.Found, c.NoIcons = nil, true
	m = running(t, c)
	m.await(t, address, "Pier 1")
	if home := m.get(t, "/"); strings.Contains(home, "/site-icon") {
		t.Errorf("the start page shows icons: %s", home)
	}
	if status, _ := m.api(t, http.MethodGet, icon, ""); status != http.StatusNotFound {
		t.Errorf("status %d", status)
	}
}
