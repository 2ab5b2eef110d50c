package fetch

import (
	"net/http"
	"testing"
	"testing/synctest"

	"tidings/internal/env"
)

// Only a caller that can merge it, and names the version that it has, asks for what has changed alone. Only then may the
// answer be partial, and it has to say so.
func TestPartialDocuments(t *testing.T) {
	const part = "<rss/>"
	has := env.Request{ETag: `"1"`, LastModified: "yesterday", Partial: true}
	for _, c := range []struct {
		name    string
		request env.Request
		asks    bool
		status  int
		im      []string
		want    env.Answer
	}{
		{"a part", has, true, 226, []string{"feed"}, env.Answer{Status: 226, ETag: `"2"`, Body: []byte(part)}},
		{"in other letters", has, true, 226, []string{" Feed "}, env.Answer{Status: 226, ETag: `"2"`, Body: []byte(part)}},
		{"the whole", has, true, 200, nil, env.Answer{Status: 200, ETag: `"2"`, Body: []byte(part)}},
		{"nothing new", has, true, 304, nil, env.Answer{Status: 304, ETag: `"2"`, LastModified: "yesterday"}},
		{"of no kind", has, true, 226, nil, env.Answer{Err: env.ErrBroken}},
		{"of another kind", has, true, 226, []string{"vcdiff"}, env.Answer{Err: env.ErrBroken}},
		{"of two kinds", has, true, 226, []string{"feed, gzip"}, env.Answer{Err: env.ErrBroken}},
		{"of two kinds in two headers", has, true, 226, []string{"feed", "gzip"}, env.Answer{Err: env.ErrBroken}},
		{"to a caller that cannot merge it", env.Request{ETag: `"1"`}, false, 226, []string{"feed"}, env.Answer{Err: env.ErrBroken}},
		{"without a version", env.Request{Partial: true}, false, 226, []string{"feed"}, env.Answer{Err: env.ErrBroken}},
		{"by time alone", env.Request{Partial: true, LastModified: "yesterday"}, false, 226, []string{"feed"}, env.Answer{Err: env.ErrBroken}},
		{"since the version of another address", env.Request{Partial: true, ETag: `"1"`, ValidatedURL: "http://b.example/"}, false, 226, []string{"feed"}, env.Answer{Err: env.ErrBroken}},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := web{"a.example:80": func(w http.ResponseWriter, r *http.Request) {
				if got := r.Header.Get("A-IM"); (got == "feed") != c.asks || !c.asks && got != "" {
					t.Errorf("%s: sent A-IM %q", c.name, got)
				}
				w.Header()["Im"], w.Header()["Etag"] = c.im, []string{`"2"`}
				w.WriteHeader(c.status)
				if c.status != http.StatusNotModified {
					_, _ = w.Write([]byte(part))
				}
			}}.open(t, Config{})
			defer b.close()
			c.request.URL = "http://a.example/"
			a := b.get(c.request)
			if a.Status != c.want.Status || a.Err != c.want.Err || string(a.Body) != string(c.want.Body) || a.ETag != c.want.ETag || a.LastModified != c.want.LastModified || (a.Message == "") != (a.Err == "") {
				t.Errorf("%s: %+v", c.name, a)
			}
		})
	}
}
