package fetch

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"tidings/internal/env"
)

// A form reaches the address that it is meant for, or the one to which it is redirected as a form.
func TestFormsAreSentByPost(t *testing.T) {
	for _, c := range []struct {
		path   string
		status int
		class  string
	}{
		{"/hub", 202, ""},
		{"/refuses", 406, ""},
		{"/moved", 0, env.ErrRedirect},
		{"/kept", 202, ""},
		{"/kept-for-good", 202, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			var got []string
			w := web{"hub.example:80": func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				got = append(got, fmt.Sprintf("%s %s %s %s", r.Method, r.URL.Path, r.Header.Get("Content-Type"), body))
				switch r.URL.Path {
				case "/hub":
					w.WriteHeader(202)
				case "/refuses":
					w.WriteHeader(406)
				case "/moved":
					http.Redirect(w, r, "/hub", http.StatusMovedPermanently)
				case "/kept":
					http.Redirect(w, r, "/hub", http.StatusTemporaryRedirect)
				case "/kept-for-good":
					http.Redirect(w, r, "/hub", http.StatusPermanentRedirect)
				}
			}}.open(t, Config{})
			defer w.close()
			a := w.get(env.Request{URL: "http://hub.example" + c.path, Form: "hub.mode=subscribe"})
			if a.Status != c.status || a.Err != c.class {
				t.Errorf("%s: %d %q", c.path, a.Status, a.Err)
			}
			want := []string{"POST " + c.path + " application/x-www-form-urlencoded hub.mode=subscribe"}
			if strings.HasPrefix(c.path, "/kept") {
				want = append(want, "POST /hub application/x-www-form-urlencoded hub.mode=subscribe")
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: the web server got %q, want %q", c.path, got, want)
			}
		})
	}
}
