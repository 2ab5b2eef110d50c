package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"tidings/internal/daemon/origin"
	"tidings/internal/longtest"
	"tidings/proxy"
)

// A badInput is a fault of a feed that was good before.
type badInput struct {
	name  string
	fault origin.Fault
	state string // state in list; "" for any problem, ok if the input is still a feed
	words string // part of the text in list
}

// badInputs returns the faults that an origin can cause.
func badInputs(o string) []badInput {
	const gone = "Gone fishing."
	page := func(contentType, body string) origin.Fault {
		return origin.Fault{Status: http.StatusOK, Header: http.Header{"Content-Type": {contentType}}, Body: []byte(body)}
	}
	status := func(code int, header ...string) origin.Fault {
		f := origin.Fault{Status: code, Header: http.Header{}, Body: []byte(gone)}
		for i := 0; i < len(header); i += 2 {
			f.Header.Set(header[i], header[i+1])
		}
		return f
	}
	const rss = "application/rss+xml"
	head := `<?xml version="1.0"?><rss version="2.0"><channel><title>t</title><link>http://o.example/</link><description>d</description>`
	const foot = `</channel></rss>`
	return []badInput{
		{"silence", origin.Fault{Drop: true}, "unreachable", ""},
		{"404", status(404), "missing", "404"},
		{"410", status(410), "gone", "410"},
		{"429", status(429, "Retry-After", "2"), "limited", ""},
		{"500", status(500), "failing", "500"},
		{"page", origin.Page("<!DOCTYPE html><html><head><title>Maintenance</title></head><body><p>" + gone + "</body></html>"), "not a feed", ""},
		{"nothing", page(rss, ""), "", ""},
		{"broken-off", origin.Fault{Truncate: true, NoValidators: true}, "", ""},
		{"truncated", page(rss, head+"<item><title>half a st"), "broken", ""},
		{"charset", page("application/rss+xml; charset=klingon", "\xff\xfe\x00\xd8<\xc3\x28rss>"), "", ""},
		{"no-gzip", origin.Fault{Status: 200, Header: http.Header{"Content-Type": {rss}, "Content-Encoding": {"gzip"}}, Body: []byte("\x1f\x8b" + head + foot)}, "", ""},
		{"huge", page(rss, head+strings.Repeat("<!-- nothing to see here, move on -->", 100<<20/37)+foot), "too large", ""},
		{"bomb", origin.Fault{Status: 200, Header: http.Header{"Content-Type": {rss}, "Content-Encoding": {"gzip"}}, Body: gzipBomb()}, "too large", ""},
		{"empty-items", page(rss, head+strings.Repeat("<item/>", 1_000_000)+foot), "broken", "none of its items says anything"},
		{"some-empty-items", page(rss, head+strings.Repeat("<item/>", 1_000_000)+
			`<item><title>some-empty-items 3</title><link>http://origin.example/some-empty-items/3</link>`+
			`<guid isPermaLink="false">some-empty-items-3</guid><description>Story 3</description></item>`+foot), proxy.StateOK, ""},
		{"nested-tags", page(rss, head+"<item>"+strings.Repeat("<a>", 1_000_000)+strings.Repeat("</a>", 1_000_000)+"</item>"+foot), "", ""},
		{"nested-json", page("application/feed+json", `{"version":"https://jsonfeed.org/version/1.1","items":`+strings.Repeat("[", 1_000_000)+strings.Repeat("]", 1_000_000)+"}"), "", ""},
		{"loop", origin.Redirect(302, o+"/loop"), "", "redirect"},
		{"elsewhere", origin.Redirect(302, "http://nowhere.invalid/feed"), "unreachable", ""},
		{"scheme", origin.Redirect(302, "file:///etc/passwd"), "", ""},
	}
}

// gzipBomb returns 128 MB of zeros, compressed to an eighth of a megabyte.
func gzipBomb() []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	zeros := make([]byte, 1<<20)
	for range 1 << 7 {
		_, _ = z.Write(zeros) // writes to memory do not fail
	}
	_ = z.Close()
	return b.Bytes()
}

// TestBadInput breaks good feeds in many ways. Each says what is wrong, since when and what happens next, keeps its
// items, and recovers when its origin does.
func TestBadInput(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	o := newTestOrigin(t)
	n := startNode(t, "--allow-private-origins", "--poll-interval", "1s", "--network", "bad")
	all := badInputs(o.url)
	address := map[string]string{}
	for _, a := range all {
		o.Play("/"+a.name, growingFeed(a.name, 3, 1))
		address[a.name] = n.subscribe(o.url + "/" + a.name)
	}
	// The origin of this feed disappears completely, and returns at the same address.
	away := newTestOrigin(t)
	away.Play("/feed", growingFeed("away", 3, 1))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	host := l.Addr().String()
	server := &http.Server{Handler: away.Origin}
	go func() { _ = server.Serve(l) }()
	awayURL := "http://" + host + "/feed"
	awayAddress := n.subscribe(awayURL)

	shows := func(address, name string, items int) error {
		f, _, err := readFeed(address)
		if err == nil {
			err = checkTitles(name, items, titles(f))
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	}
	for _, a := range all {
		eventually(t, timeout, "good times", func() error { return shows(address[a.name], a.name, 3) })
	}
	eventually(t, timeout, "good times", func() error { return shows(awayAddress, "away", 3) })

	turned := time.Now()
	for _, a := range all {
		o.Misbehave("/"+a.name, a.fault)
	}
	_ = server.Close()
	// ails reports whether a feed has a problem, with a text for people.
	ails := func(c proxy.Channel, a badInput) error {
		switch {
		case a.state == proxy.StateOK && c.State == proxy.StateOK:
			// These feeds have no problem, and must do no harm.
			if served := o.polls("/"+a.name, turned, time.Now()); served < 3 || c.Items < 3 {
				return fmt.Errorf("%s: %d items after %d polls", a.name, c.Items, served)
			}
			return nil
		case c.State == proxy.StateOK || c.State == proxy.StateNew:
			return fmt.Errorf("%s is said to be %s", a.name, c.State)
		case a.state != "" && c.State != a.state:
			return fmt.Errorf("%s is said to be %s (%s), not %s", a.name, c.State, c.Error, a.state)
		case c.Error == "" || !strings.Contains(c.Error, a.words):
			return fmt.Errorf("%s: the words are %q", a.name, c.Error)
		case c.Since == nil || c.Since.Before(turned.Add(-2*time.Second)) || c.Since.After(time.Now()):
			return fmt.Errorf("%s: since %v", a.name, c.Since)
		case c.NextPoll == nil || c.NextPoll.Before(*c.Since):
			return fmt.Errorf("%s: what next is %v", a.name, c.NextPoll)
		case c.Items != 3:
			return fmt.Errorf("%s: %d items", a.name, c.Items)
		}
		return nil
	}
	for _, a := range append(all, badInput{name: "away", state: "unreachable"}) {
		url := o.url + "/" + a.name
		if a.name == "away" {
			url = awayURL
		}
		var c proxy.Channel
		eventually(t, 2*timeout, "words about the trouble", func() error {
			c = n.list()[url]
			return ails(c, a)
		})
		t.Logf("%-12s %s: %s", a.name, c.State, c.Error)
		if a.name == "away" {
			continue
		}
		if err := shows(address[a.name], a.name, 3); err != nil {
			t.Errorf("while in trouble: %v", err)
		}
	}
	if err := shows(awayAddress, "away", 3); err != nil {
		t.Errorf("while in trouble: %v", err)
	}
	if out, err := n.runCommand("doctor"); err != nil || !strings.Contains(out, "404") {
		t.Errorf("the doctor says: %v\n%s", err, out)
	}
	if bytes, err := resident(n.cmd.Process.Pid); err == nil {
		t.Logf("the node has %.0f MB then", float64(bytes)/(1<<20))
	}

	// The origins recover, with one more item. The fast tier waits only for the feeds that are polled soon.
	listed := n.list()
	all = slices.DeleteFunc(all, func(a badInput) bool {
		next := listed[o.url+"/"+a.name].NextPoll
		return !longtest.Long() && next != nil && time.Until(*next) > 15*time.Second
	})
	t.Logf("%d feeds are to recover", len(all))
	if len(all) < 3 {
		t.Errorf("too few are polled again within 15 s: %d", len(all))
	}
	for _, a := range all {
		o.Behave("/" + a.name)
	}
	o.step()
	away.step()
	if l, err = net.Listen("tcp", host); err != nil {
		t.Fatal(err)
	}
	server = &http.Server{Handler: away.Origin}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	for _, a := range all {
		eventually(t, 2*timeout, "the recovery", func() error {
			if err := shows(address[a.name], a.name, 4); err != nil {
				return err
			}
			if c := n.list()[o.url+"/"+a.name]; c.State != proxy.StateOK || c.Error != "" {
				return fmt.Errorf("%s is said to be %s (%s)", a.name, c.State, c.Error)
			}
			return nil
		})
	}
	if longtest.Long() {
		eventually(t, 2*timeout, "the recovery", func() error { return shows(awayAddress, "away", 4) })
	}
}

// TestBadAddresses subscribes to addresses that cannot be read. Each is refused immediately, or says what is wrong.
func TestBadAddresses(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	o := newTestOrigin(t)
	o.Play("/feed", growingFeed("feed", 3, 0))
	public := startNode(t, "--network", "public", "--poll-interval", "1s") // does not poll private addresses
	private := startNode(t, "--network", "private", "--poll-interval", "1s", "--allow-private-origins")

	for _, c := range []struct{ url, words string }{
		{"page+http://user:secret@127.0.0.1/feed", "private"},
		{"ftp://127.0.0.1/feed", "http"},
		{"http://", ""},
		{"http://127.0.0.1:99999/feed", ""},
	} {
		_, err := private.runCommand("subscribe", c.url)
		switch {
		case err == nil:
			t.Errorf("%s is subscribed to", c.url)
		case !strings.Contains(err.Error(), c.words):
			t.Errorf("%s is refused with the words: %v", c.url, err)
		default:
			t.Logf("%s: %v", c.url, err)
		}
	}
	if l := private.list(); len(l) != 0 {
		t.Errorf("%d subscriptions to what was refused", len(l))
	}
	if strings.Contains(private.stderr.String(), "secret") {
		t.Error("a password is in the log")
	}

	for _, c := range []struct {
		what, url, state string
		node             *nodeProcess
	}{
		{"a name that does not exist", "http://nowhere.invalid/feed", "unreachable", private},
		{"a port where nobody listens", "http://127.0.0.1:1/feed", "unreachable", private},
		{"a private address, not allowed", o.url + "/feed", "refused", public},
		{"this machine by name, not allowed", strings.Replace(o.url, "127.0.0.1", "localhost", 1) + "/feed", "refused", public},
	} {
		out, err := c.node.runCommand("subscribe", c.url)
		if err != nil {
			t.Logf("%s: %v", c.what, err)
			continue // it was refused immediately
		}
		var l proxy.Channel
		eventually(t, timeout, c.what, func() error {
			l = c.node.list()[c.url]
			if l.State != c.state || l.Error == "" || l.Since == nil || l.NextPoll == nil {
				return fmt.Errorf("%s: %q since %v, next %v", l.State, l.Error, l.Since, l.NextPoll)
			}
			return nil
		})
		t.Logf("%s: %s: %s", c.what, l.State, l.Error)
		// A feed reader gets the same error, and not an empty feed.
		a, err := http.Get(strings.TrimSpace(out))
		if err != nil {
			t.Fatal(err)
		}
		words, _ := io.ReadAll(a.Body)
		a.Body.Close()
		if a.StatusCode < 400 || a.StatusCode == http.StatusNotFound || len(words) == 0 {
			t.Errorf("%s: its reader is told %s %q", c.what, a.Status, words)
		}
	}
	if n := o.polls("", time.Time{}, time.Now()); n > 0 {
		t.Errorf("a private origin was asked %d times by a node that must not", n)
	}
}
