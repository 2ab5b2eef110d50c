package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"tidings/proxy"
)

// TestPrivateFeedsByCommand subscribes to feeds behind a password and behind a header, as a user does.
func TestPrivateFeedsByCommand(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	o := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, password, _ := r.BasicAuth()
		if password != "geheim-4711" && r.Header.Get("X-Key") != "geheim-2342" {
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		_, _ = io.WriteString(w, `<rss version="2.0"><channel><title>Invoices</title><link>https://shop.example/</link><description/><item><guid>1</guid><title>Invoice one</title></item></channel></rss>`)
	}))
	t.Cleanup(o.Close)
	n := startNode(t, "--network", "private", "--poll-interval", "1s", "--allow-private-origins")
	withPassword := func(password string) string {
		return strings.Replace(o.URL, "//", "//ann:"+password+"@", 1) + "/a.xml"
	}
	var shown strings.Builder
	run := func(args ...string) (string, error) {
		var printed, notes bytes.Buffer
		at := 1 // of the flags that name the node
		if args[0] == "opml" {
			at = 2
		}
		err := command(t.Context(), slices.Insert(slices.Clone(args), at, "--http", n.http, "--data", n.dir), strings.NewReader(""), &printed, &notes)
		out := printed.String()
		fmt.Fprintln(&shown, out, notes.String(), err)
		return out, err
	}
	get := func(address string) string {
		t.Helper()
		r, err := http.Get(strings.TrimSpace(address))
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}

	if _, err := run("subscribe", withPassword("geheim-falsch")); err == nil || !strings.Contains(err.Error(), "does not accept the user name and the password") {
		t.Errorf("a wrong password: %v", err)
	}
	if _, err := run("subscribe", "--private", o.URL+"/c.xml?key=geheim-key"); err == nil || !strings.Contains(err.Error(), "token") {
		t.Errorf("a wrong token: %v", err)
	}
	first, err := run("subscribe", withPassword("geheim-4711"))
	if err != nil || !strings.Contains(first, "/private/") || !strings.Contains(get(first), "Invoice one") {
		t.Fatalf("%s %v", first, err)
	}
	file := filepath.Join(t.TempDir(), "headers")
	if err := os.WriteFile(file, []byte("X-Key: geheim-2342\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS != "windows" {
		if _, err := run("subscribe", "--header-file", file, o.URL+"/b.xml"); err == nil || !strings.Contains(err.Error(), "chmod 600") {
			t.Errorf("a file that others may read: %v", err)
		}
	}
	if err := os.Chmod(file, 0o600); err != nil {
		t.Fatal(err)
	}
	second, err := run("subscribe", "--header-file", file, o.URL+"/b.xml")
	if err != nil || !strings.Contains(get(second), "Invoice one") {
		t.Fatalf("%s %v", second, err)
	}
	list, err := run("list", "-v")
	if err != nil || strings.Count(list, "private:127.0.0.1:") != 2 || strings.Count(list, "no other node learns its address") != 2 {
		t.Errorf("the list is %s %v", list, err)
	}
	var names []string
	for address, c := range n.list() {
		if c.State != proxy.StateOK || !c.Private {
			t.Errorf("%s is %+v", address, c)
		}
		names = append(names, address)
	}

	exported := filepath.Join(t.TempDir(), "mine.opml")
	for _, c := range []struct {
		flags []string
		feeds int
	}{{nil, 0}, {[]string{"--original"}, 0}, {[]string{"--private"}, 2}} {
		before := shown.Len()
		if _, err := run(append(append([]string{"opml", "export", "--force"}, c.flags...), exported)...); err != nil {
			t.Error(err)
		}
		b, err := os.ReadFile(exported)
		if err != nil || strings.Count(string(b), "/private/") != c.feeds {
			t.Errorf("%v: the list is %s %v", c.flags, b, err)
		}
		if said := strings.Contains(shown.String()[before:], "without --original"); said != (len(c.flags) == 1 && c.flags[0] == "--original") {
			t.Errorf("%v: it says %s", c.flags, shown.String()[before:])
		}
	}
	if _, err := run("opml", "export", "--original", "--private", exported); err == nil || !strings.Contains(err.Error(), "contradict") {
		t.Errorf("the original addresses of private feeds: %v", err)
	}
	if out, err := run("opml", "import", exported); err != nil || !strings.Contains(out, "0 new, 2 already there") {
		t.Errorf("importing the own list: %s %v", out, err)
	}

	n.kill()
	n.restart()
	if got := get(strings.Replace(first, strings.Split(first, "/")[2], n.http, 1)); !strings.Contains(got, "Invoice one") {
		t.Errorf("after kill -9 it is %s", got)
	}
	for _, name := range names {
		if _, err := run("unsubscribe", name); err != nil {
			t.Error(err)
		}
	}
	written := fmt.Sprintf(`<opml version="2.0"><body><outline text="Shop"><outline xmlUrl=%q/></outline></body></opml>`, withPassword("geheim-4711"))
	if err := os.WriteFile(exported, []byte(written), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := run("opml", "import", exported); err != nil || !strings.Contains(out, "1 new") {
		t.Errorf("importing an address with a password: %s %v", out, err)
	}
	if list, err := run("list", "--tag", "Shop"); err != nil || !strings.Contains(list, "private:127.0.0.1:") {
		t.Errorf("the list is %s %v", list, err)
	}
	if all := shown.String() + n.stderr.String(); strings.Contains(all, "geheim") {
		t.Errorf("a secret is in %s", all)
	}
}

func TestHeaderFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "headers")
	for _, c := range []struct{ text, say string }{
		{"Authorization: Bearer geheim\n\n  Cookie:a=b; c=d  ", ""},
		{"", "no header"},
		{"geheim", "line 1 is not a header"},
		{"A: b\n: geheim", "line 2 is not a header"},
		{"Cookie: geheim\ncookie: geheim2", "line 2 gives Cookie a second time"},
		{strings.Repeat("A: geheim\n", maxHeaderFile/8), "64 KiB"},
	} {
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		headers, err := readHeaderFile(file)
		switch {
		case c.say == "" && (err != nil || len(headers) != 2 || headers["Authorization"] != "Bearer geheim" || headers["Cookie"] != "a=b; c=d"):
			t.Errorf("%q: %v %v", c.text, headers, err)
		case c.say != "" && (err == nil || !strings.Contains(err.Error(), c.say) || strings.Contains(err.Error(), "geheim")):
			t.Errorf("%.20q: %v", c.text, err)
		}
	}
	if _, err := readHeaderFile(file + "x"); err == nil {
		t.Error("a file that does not exist is read")
	}
}
