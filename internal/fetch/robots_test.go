package fetch

import (
	"fmt"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"tidings/internal/env"
)

// A request with Robots fetches robots.txt once a day and obeys the rules for all programs and for this
// one. A request without Robots, for a feed, ignores them.
func TestRobotsAreObeyed(t *testing.T) {
	for name, c := range map[string]struct {
		status  int
		robots  string
		path    string
		allowed bool
		err     string
	}{
		"none":                {404, "", "/a", true, ""},
		"nothing":             {200, "", "/a", true, ""},
		"not for everybody":   {200, "User-agent: *\nDisallow: /a\n", "/a?b=1", false, env.ErrRobots},
		"another path":        {200, "User-agent: *\nDisallow: /a\n", "/b", true, ""},
		"not for others":      {200, "User-agent: other\nDisallow: /\n", "/a", true, ""},
		"not for us":          {200, "User-agent: Tidings\nDisallow: /\n\nUser-agent: *\nAllow: /\n", "/a", false, env.ErrRobots},
		"but for us":          {200, "User-agent: *\nDisallow: /\n\nUser-agent: tidings\nDisallow: /x\n", "/a", true, ""},
		"longest match":       {200, "User-agent: *\nDisallow: /a\nAllow: /a/b\n", "/a/b/c", true, ""},
		"no robots.txt":       {200, "<html>Not found</html>", "/a", true, ""},
		"origin out of order": {503, "", "/a", false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				asked := map[string]int{}
				b := web{"a.example:80": func(w http.ResponseWriter, r *http.Request) {
					asked[r.URL.Path]++
					if r.URL.Path == "/robots.txt" {
						w.WriteHeader(c.status)
						io.WriteString(w, c.robots)
						return
					}
					fmt.Fprint(w, "here it is")
				}}.open(t, Config{})
				defer b.close()
				for range 2 {
					a := b.get(env.Request{URL: "http://a.example" + c.path, Robots: true})
					if allowed := a.Status == 200 && string(a.Body) == "here it is"; allowed != c.allowed || a.Err != c.err || a.FinalURL != "http://a.example"+c.path {
						t.Errorf("%+v", a)
					}
				}
				if asked["/robots.txt"] != 1 {
					t.Errorf("robots.txt was asked for %d times", asked["/robots.txt"])
				}
				if a := b.get(env.Request{URL: "http://a.example" + c.path}); a.Status != 200 {
					t.Errorf("a reader's own: %+v", a)
				}
				time.Sleep(rulesTTL + time.Second) // virtual
				b.get(env.Request{URL: "http://a.example" + c.path, Robots: true})
				if asked["/robots.txt"] != 2 {
					t.Errorf("robots.txt was asked for %d times in a day", asked["/robots.txt"])
				}
			})
		})
	}
}

// The robots.txt of a redirect's target counts as well. Other pages of the first origin still follow
// its own.
func TestRobotsAreObeyedWhereAPageHasMoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		moved := map[string]string{"/away": "http://b.example/page", "/within": "/private", "/on": "/open"}
		asked := 0
		b := web{
			"a.example:80": func(w http.ResponseWriter, r *http.Request) {
				if to := moved[r.URL.Path]; to != "" {
					http.Redirect(w, r, to, http.StatusFound)
				} else if r.URL.Path == "/robots.txt" {
					fmt.Fprint(w, "User-agent: *\nDisallow: /private\n")
				}
			},
			"b.example:80": func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/robots.txt" {
					fmt.Fprint(w, "User-agent: *\nDisallow: /\n")
				} else {
					asked++
				}
			},
		}.open(t, Config{})
		defer b.close()
		for path, want := range map[string]string{"/away": env.ErrRobots, "/within": env.ErrRobots, "/on": ""} {
			if a := b.get(env.Request{URL: "http://a.example" + path, Robots: true}); a.Err != want {
				t.Errorf("%s: %+v", path, a)
			}
		}
		if asked != 0 {
			t.Errorf("%d requests for what was not to be asked for", asked)
		}
	})
}

// An answer says how many requests it took, and has as much of a page as was asked for.
func TestAnswersCountTheirRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := web{"a.example:80": func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/old" {
				http.Redirect(w, r, "/new", http.StatusFound)
			}
			fmt.Fprint(w, "User-agent: other\n")
		}}.open(t, Config{})
		defer b.close()
		for i, want := range []int{3, 2} { // the robots.txt is known the second time
			a := b.get(env.Request{URL: "http://a.example/old", Robots: true, Limit: 4})
			if a.Requests != want || string(a.Body) != "User" || !a.Cut {
				t.Errorf("attempt %d: %d requests, want %d: %q, cut %v", i, a.Requests, want, a.Body, a.Cut)
			}
		}
		if a := b.get(env.Request{URL: "http://a.example/new", Limit: 1000}); a.Requests != 1 || a.Cut || len(a.Body) != 18 {
			t.Errorf("%d requests, %d bytes, cut %v", a.Requests, len(a.Body), a.Cut)
		}
	})
}

// If this node has not asked for a robots.txt, because it is too busy, the rules are still unknown.
func TestRulesThatWereNotAskedForAreNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open := make(chan bool)
		b := web{"a.example:80": func(_ http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/slow" {
				<-open
			}
		}}.open(t, Config{HostWaiting: 1})
		defer b.close()
		for range hostRequests + 1 {
			b.Fetch(1, env.Request{URL: "http://a.example/slow"})
			time.Sleep(time.Minute / 20) // virtual, so that another request may start
		}
		if a := b.get(env.Request{URL: "http://a.example/page", Robots: true}); a.Err != env.ErrBusy {
			t.Errorf("while all wait: %+v", a)
		}
		close(open)
		for range hostRequests + 1 {
			<-b.answers
		}
		if a := b.get(env.Request{URL: "http://a.example/page", Robots: true}); a.Status != 200 {
			t.Errorf("afterwards: %+v", a)
		}
	})
}

// The number of cached rules is bounded.
func TestRulesAreBounded(t *testing.T) {
	c := New(Config{}, func(env.Handle, env.Answer) {})
	for i := range 2 * maxRules {
		c.mu.Lock()
		if len(c.rules) >= maxRules {
			c.forgetRules()
		}
		c.rules[fmt.Sprint(i)] = &rules{until: c.now().Add(time.Hour)}
		c.mu.Unlock()
	}
	if len(c.rules) > maxRules {
		t.Errorf("%d rules", len(c.rules))
	}
}
