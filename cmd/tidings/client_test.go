package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"tidings/proxy"
)

// runCommandAt runs a command with the node at a URL.
func runCommandAt(t *testing.T, url string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	t.Setenv("TIDINGS_HTTP", strings.TrimPrefix(url, "http://"))
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	var out, err bytes.Buffer
	code = run(t.Context(), args, strings.NewReader(""), &out, &err)
	return code, out.String(), err.String()
}

// newFakeNode serves the same answer for all requests.
func newFakeNode(t *testing.T, status int, body string) (url string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Tidings") != "1" {
			t.Error("a request without the header of programs")
		}
		w.Header().Set("Tidings", "1")
		w.Header().Set("Location", "/api/v1/elsewhere")
		w.WriteHeader(status)
		io.WriteString(w, body)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestErrorsTakeOneLine(t *testing.T) {
	const stranger = "is not a tidings node"
	for _, c := range []struct {
		status int
		body   string
		args   string
		want   string
	}{
		{502, `{"error":"the origin\nis away"}`, "list", "tidings: the origin is away\n"},
		{502, `{"error":"\u001b[31mred\u001b[0m"}`, "list", "tidings: [31mred[0m\n"},
		{404, `{"error":"not subscribed to"}`, "unsubscribe http://a/", "tidings: unsubscribe from http://a/: not subscribed to; \"tidings list\" shows yours\n"},
		{404, `{"error":"http://a/: not subscribed to"}`, "unsubscribe http://a/", "tidings: http://a/: not subscribed to; \"tidings list\" shows yours\n"},
		{403, "from other machines only feeds\n", "list", "tidings: from other machines only feeds\n"},
		{200, "<html>", "status", stranger},
		{200, "<html>", "doctor --json", stranger},
		{200, "<html>", "subscribe http://a/ http://b/", stranger},
		{200, "<html>", "opml export -", stranger},
		{200, "", "opml import -", stranger},
		{200, `{"findings":[{"level":"problem"},{"level":"ok"}]}`, "doctor", "tidings: 1 problem found\n"},
		{200, `{"findings":[{"level":"problem"},{"level":"problem"}]}`, "doctor --json", "tidings: 2 problems found\n"},
	} {
		code, _, stderr := runCommandAt(t, newFakeNode(t, c.status, c.body), strings.Fields(c.args)...)
		if code != exitFailed || !strings.Contains(stderr, c.want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: %d %q\nwant %q", c.args, code, stderr, c.want)
		}
	}
}

func TestEachFailureHasALine(t *testing.T) {
	for _, c := range []struct {
		status     int
		body, args string
		want       string
	}{
		{403, `{"error":"no"}`, "subscribe http://a/ http://u:p@b/", "tidings: subscribe to http://a/: no\ntidings: subscribe to b: no\n"},
		{200, `{"subscribed":1,"failed":[{"url":"u1","error":"e1\nf"},{"url":"u2","error":"e2"}]}`, "opml import -",
			"tidings: import -: 2 feeds failed:\n  u1: e1 f\n  u2: e2\n"},
		{200, `{"state":"subscribing","done":1,"all":2}` + "\n" + `{"subscribed":1,"failed":[{"url":"u1","error":"u1: e1"}]}`, "opml import -", "tidings: import -: 1 feed failed:\n  u1: e1\n"},
		{200, `{"state":"stopped","done":1,"all":2}` + "\n" + `{"error":"the import was stopped"}`, "opml import -", "tidings: import -: the import was stopped\n"},
		{200, `{"subscribed":1,"failed":[{"url":"u1","error":"u1: e1"}]}`, "opml import -", "tidings: import -: 1 feed failed:\n  u1: e1\n"},
		{200, `{"failed":[{"url":"","line":7,"error":"no quotation mark"},{"url":"u","error":"a page","choices":[{"url":"http://a/","kind":"feed"}]}]}`, "opml import -",
			"tidings: import -: 2 feeds failed:\n  line 7: no quotation mark\n  u: a page\n  tidings subscribe http://a/\n"},
		{300, `{"error":"a page with 2 feeds","choices":[{"url":"http://a/?b&c","title":"It's\nnew","kind":"feed"},{"url":"http://a/d","kind":"feed"},{"url":"page+http://a/","kind":"page"}]}`,
			"subscribe http://a/", "tidings: subscribe to http://a/: a page with 2 feeds:\n  It's new:\n  tidings subscribe 'http://a/?b&c'\n" +
				"  tidings subscribe http://a/d\n  the page itself:\n  tidings subscribe page+http://a/\n"},
	} {
		code, _, stderr := runCommandAt(t, newFakeNode(t, c.status, c.body), strings.Fields(c.args)...)
		if code != exitFailed || stderr != c.want {
			t.Errorf("%s: %d %q\nwant %q", c.args, code, stderr, c.want)
		}
	}
}

// The address of a node may be given as run prints it, or as browsers show it.
func TestTheAddressOfANodeMayBeAURL(t *testing.T) {
	node := strings.TrimPrefix(newFakeNode(t, 200, `{"channels":[]}`), "http://")
	for _, address := range []string{node, "http://" + node, "http://" + node + "/"} {
		var stderr bytes.Buffer
		if code := run(t.Context(), []string{"list", "--http", address, "--json"}, strings.NewReader(""), &bytes.Buffer{}, &stderr); code != exitDone {
			t.Errorf("%s: %d %s", address, code, &stderr)
		}
	}
}

func TestShellWords(t *testing.T) {
	for text, want := range map[string]string{
		"https://a.example/feed-1_2.xml": "https://a.example/feed-1_2.xml",
		"https://a.example/?b=c&d":       "'https://a.example/?b=c&d'",
		"it's":                           `'it'\''s'`,
		"~me":                            "'~me'",
		"bücher":                         "'bücher'",
		"":                               "''",
	} {
		if got := proxy.ShellWord(text); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

func TestFilesAreNotSubscribedTo(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("feed.xml", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	node := newFakeNode(t, 200, `{"url":"https://b.example/","read_url":"r"}`)
	code, stdout, stderr := runCommandAt(t, node, "subscribe", "feed.xml", "b.example")
	if code != exitFailed || stdout != "r\n" || !strings.HasPrefix(stderr, "tidings: feed.xml: a file on this machine, not an address") {
		t.Errorf("%d %q %q", code, stdout, stderr)
	}
}

func TestSubscribeSaysWhatCannotBeReadYet(t *testing.T) {
	for body, want := range map[string]string{
		`{"url":"u","doubt":"no such host"}`:                "Subscribed, but u cannot be read yet: no such host\n",
		`{"url":"u","doubt":"no such host","already":true}`: "Already subscribed, but u cannot be read yet: no such host\n",
		`{"url":"u","already":true}`:                        "",
	} {
		if code, _, stderr := runCommandAt(t, newFakeNode(t, 200, body), "subscribe", "u"); code != exitDone || stderr != want {
			t.Errorf("%s: %d %q", body, code, stderr)
		}
	}
}

func TestRequestsOfSubscribe(t *testing.T) {
	for args, want := range map[string]string{
		"subscribe u":                 `{"url":"u"}`,
		"subscribe --tag= u":          `{"url":"u","tags":[]}`,
		"subscribe --quiet-follow u":  `{"url":"u","quiet_follow":true}`,
		"subscribe --tag a --tag b u": `{"url":"u","tags":["a","b"]}`,
	} {
		node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if body, err := io.ReadAll(r.Body); err != nil || string(body) != want {
				t.Errorf("%s sends %s, %v; want %s", args, body, err, want)
			}
			w.Header().Set("Tidings", "1")
			io.WriteString(w, `{"url":"u","read_url":"r"}`)
		}))
		t.Cleanup(node.Close)
		if code, _, stderr := runCommandAt(t, node.URL, strings.Fields(args)...); code != exitDone {
			t.Errorf("%s: %d %s", args, code, stderr)
		}
	}
}

// A client never learns how many members its network has, so status does not promise the number for later.
func TestStatusOfAClient(t *testing.T) {
	_, stdout, _ := runCommandAt(t, newFakeNode(t, 200, `{"state":"ok"}`), "status")
	if !strings.Contains(stdout, "not known to this node, because only members of the network count them\n") {
		t.Errorf("%s", stdout)
	}
}

// A command prints notes about its answer on standard error if standard output is not a terminal.
func TestNotesGoToStandardError(t *testing.T) {
	for _, c := range []struct{ body, args, stdout, stderr string }{
		{`{"channels":[]}`, "list", "", "No subscriptions yet: tidings subscribe URL\n"},
		{`{"channels":[]}`, "list --filter sun", "", "No feeds that contain \"sun\".\n"},
		{`{"channels":[{"url":"u","state":"ok"}]}`, "list --failing", "", "No problems in 1 feed.\n"},
		{`{"channels":[{"url":"u","state":"ok"}]}`, "list --tag solar", "", "No feeds with the tag \"solar\".\n"},
		{`{"watches":[]}`, "watches", "", "No searches yet: tidings watch 'QUERY'\n"},
		{
			`{"watches":[{"query":"q","read_url":"http://n/k/1.atom"}],"on":"all","kept":10,"trial":{"says":"1 of 9 articles match","hints":["h"],"warning":"w"}}`, "watch q",
			"http://n/k/1.atom\n", "tidings: h\ntidings: w\nThe feed has the newest 10 matching articles of all. Anybody who knows its address can read it.\nRecently, 1 of 9 articles match.\n",
		},
		{`{"watches":[{"query":"a OR b"}]}`, "unwatch q", "The search a OR b has ended, and the address of its feed is no longer valid.\n", ""},
		{`{"url":"u"}`, "trust u", "The new key of u is accepted: items signed with it are shown as the publisher's.\n", ""},
	} {
		code, stdout, stderr := runCommandAt(t, newFakeNode(t, 200, c.body), strings.Fields(c.args)...)
		if code != exitDone || stdout != c.stdout || stderr != c.stderr {
			t.Errorf("%s: %d\n%s%s\nwant\n%s%s", c.args, code, stdout, stderr, c.stdout, c.stderr)
		}
	}
}

// The addresses that watches prints have the format that --format names. --json prints the answer of the node.
func TestWatchesPrintsAddressesInAFormat(t *testing.T) {
	node := newFakeNode(t, 200, `{"watches":[{"query":"atom","read_url":"http://n/k/1.atom"}]}`)
	for args, want := range map[string]string{
		"watches":                     "http://n/k/1.atom\n",
		"watches --format rss":        "http://n/k/1.rss\n",
		"watches --format json":       "http://n/k/1.json\n",
		"watches --format rss --json": `"http://n/k/1.atom"`,
	} {
		code, stdout, stderr := runCommandAt(t, node, strings.Fields(args)...)
		if code != exitDone || stderr != "" || !strings.Contains(stdout, want) {
			t.Errorf("%s: %d %s%s", args, code, stdout, stderr)
		}
	}
	if code, _, _ := runCommandAt(t, node, "watches", "--format", "html"); code != exitUsage {
		t.Errorf("watches --format html ends with code %d", code)
	}
}

// A list that the node sends in parts is printed as one, as far as is asked for.
func TestWatchesPrintsAllParts(t *testing.T) {
	var asked []string
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.RawQuery)
		w.Header().Set("Tidings", "1")
		from := r.URL.Query().Get("from")
		next := map[string]string{"": `,"next":7`, "7": `,"next":9`}[from]
		watches := map[string]string{"": `{"query":"first","read_url":"http://n/k/1.atom"}`, "9": `{"query":"last","read_url":"http://n/k/2.atom"}`}[from]
		fmt.Fprintf(w, `{"watches":[%s],"total":2,"on":"all","kept":10%s}`, watches, next)
	}))
	defer node.Close()
	for _, c := range []struct {
		args, asked string
		want        []string
	}{
		{"watches", " from=7 from=9", []string{"QUERY", "first", "/1.atom", "last", "/2.atom"}},
		{"watches --json", " from=7 from=9", []string{`"query": "first"`, `"query": "last"`, `"total": 2`}},
		{"watches --filter st --limit 1", "filter=st&limit=1", []string{"first"}},
	} {
		asked = nil
		code, stdout, stderr := runCommandAt(t, node.URL, strings.Fields(c.args)...)
		if code != exitDone || strings.Join(asked, " ") != c.asked {
			t.Errorf("%s: %d %s, asked for %q", c.args, code, stderr, asked)
		}
		for _, want := range c.want {
			if strings.Count(stdout, want) != 1 {
				t.Errorf("%s lacks %s:\n%s", c.args, want, stdout)
			}
		}
		if strings.Contains(stdout, "next") {
			t.Errorf("%s: the whole list goes on:\n%s", c.args, stdout)
		}
	}
	if code, _, _ := runCommandAt(t, node.URL, "watches", "--limit=-1"); code != exitUsage {
		t.Errorf("--limit=-1 ends with code %d", code)
	}
}

func TestAnotherServerIsNotTakenForANode(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/api/v1/list":
			io.WriteString(w, `{}`) // as many services answer
		case "/api/v1/status":
			http.Error(w, `{"error":"no access"}`, http.StatusUnauthorized)
		case "/api/v1/open":
			http.Redirect(w, r, "/login", http.StatusFound)
		case "/api/v1/doctor":
			c, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			io.WriteString(c, "SSH-2.0-server\r\n")
			c.Close()
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(other.Close)
	want := "tidings: " + other.URL + " answers, but is not a tidings node: give the address of yours with --http\n"
	for _, command := range []string{"list", "list --json", "status", "open", "doctor", "watches", "watch a"} {
		if code, _, stderr := runCommandAt(t, other.URL, strings.Fields(command)...); code != exitFailed || stderr != want {
			t.Errorf("%s: %d %q", command, code, stderr)
		}
	}
	other.Close()
	if code, _, stderr := runCommandAt(t, other.URL, "list"); code != exitFailed || !strings.Contains(stderr, "no node answers at") {
		t.Errorf("nobody is there: %d %q", code, stderr)
	}
}

func TestJSONIsWhatTheNodeSays(t *testing.T) {
	const said = `{"channels":[{"url":"http://a/?b&c","later":"added in a version to come"}]}`
	code, stdout, stderr := runCommandAt(t, newFakeNode(t, 200, said), "list", "--json")
	if code != exitDone || stderr != "" || !strings.Contains(stdout, `"later": "added in`) || !strings.Contains(stdout, "?b&c") {
		t.Errorf("%d %q %s", code, stderr, stdout)
	}
}

// A long list is read part by part, and is shown in the order of titles.
func TestListIsReadInParts(t *testing.T) {
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Tidings", "1")
		switch q := r.URL.Query(); {
		case q.Get("filter") != "sun" || q.Get("limit") == "":
			http.Error(w, "the filter is missing", http.StatusBadRequest)
		case q.Get("from") == "":
			_, _ = io.WriteString(w, `{"channels":[{"url":"http://a/","title":"z sun"}],"next":"http://b/"}`)
		case q.Get("from") == "http://b/":
			_, _ = io.WriteString(w, `{"channels":[],"next":"http://c/"}`)
		default:
			_, _ = io.WriteString(w, `{"channels":[{"url":"http://c/","title":"A sun"}]}`)
		}
	}))
	t.Cleanup(node.Close)
	code, stdout, stderr := runCommandAt(t, node.URL, "list", "--filter", "sun")
	if a, z := strings.Index(stdout, "A sun"), strings.Index(stdout, "z sun"); code != exitDone || a < 0 || z < a {
		t.Errorf("%d %q %q", code, stderr, stdout)
	}
}

func TestListAsJSONIsFiltered(t *testing.T) {
	const said = `{"channels":[{"url":"http://a/","state":"ok"},{"url":"http://b/","state":"gone","later":1}]}`
	code, stdout, stderr := runCommandAt(t, newFakeNode(t, 200, said), "list", "--json", "--failing")
	if code != exitDone || stderr != "" || strings.Contains(stdout, "http://a/") || !strings.Contains(stdout, `"later": 1`) {
		t.Errorf("%d %q %s", code, stderr, stdout)
	}
}

func TestAnUnspecifiedAddressBecomesLoopback(t *testing.T) {
	for _, c := range []struct{ address, want string }{
		{"127.0.0.1:8190", "127.0.0.1:8190"},
		{"localhost:8190", "localhost:8190"},
		{"0.0.0.0:8190", "127.0.0.1:8190"},
		{"[::]:8190", "127.0.0.1:8190"},
		{"[::1]:8190", "[::1]:8190"},
		{":8190", "127.0.0.1:8190"},
		{"192.168.1.7:8190", "192.168.1.7:8190"},
	} {
		if got := localAddress(c.address); got != c.want {
			t.Errorf("%s: %s, want %s", c.address, got, c.want)
		}
	}
}
