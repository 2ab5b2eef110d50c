package fetch

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
)

// Callbacks lead to the addresses that the caller allows besides public ones, never to a metadata service, and nowhere else by
// a redirect.
func TestCallbacks(t *testing.T) {
	private := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/moved" {
			http.Redirect(w, r, "/", http.StatusFound)
		}
	}))
	defer private.Close()
	all := func(netip.Addr) bool { return true }
	none := func(netip.Addr) bool { return false }
	for _, test := range []struct {
		allow   func(netip.Addr) bool
		address string
		status  int // 0: refused
	}{
		{all, private.URL, 200},
		{all, private.URL + "/moved", 302},
		{none, private.URL, 0},
		{none, strings.Replace(private.URL, "127.0.0.1", "localhost", 1), 0},
		{none, strings.Replace(private.URL, "127.0.0.1", "[::ffff:127.0.0.1]", 1), 0},
		{all, "http://169.254.169.254/", 0},
		{all, "http://[fd00:ec2::254]/", 0},
	} {
		answer, err := Callbacks(test.allow).Get(test.address)
		if err != nil {
			if test.status != 0 || !IsRefused(err) {
				t.Errorf("%s: %v", test.address, err)
			}
			continue
		}
		_ = answer.Body.Close()
		if answer.StatusCode != test.status {
			t.Errorf("%s: status %d, want %d", test.address, answer.StatusCode, test.status)
		}
	}
}
