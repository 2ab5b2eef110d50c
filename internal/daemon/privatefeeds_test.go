package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"tidings/corona"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/proxy"
)

// A privateBench keeps private feeds without a node. It answers their requests itself.
type privateBench struct {
	*testing.T
	*privateFeeds
	answers  map[string]env.Answer // by address
	requests []env.Request
	log      *logBuffer
}

func newPrivateBench(t *testing.T, dir string) *privateBench {
	b := &privateBench{T: t, answers: map[string]env.Answer{}, log: &logBuffer{}}
	b.privateFeeds = newPrivateFeeds(dir, func(h env.Handle, r env.Request) {
		b.requests = append(b.requests, r)
		a, ok := b.answers[r.URL]
		if !ok {
			a = env.Answer{Err: env.ErrDial, Message: "the host refused the connection"}
		}
		a.FinalURL = r.URL
		if to := a.Links; to != nil {
			a.FinalURL = to[0]
		}
		b.answered(h, a)
	}, false, slog.New(slog.NewTextHandler(b.log, nil)))
	if err := b.load(); err != nil {
		t.Fatal(err)
	}
	b.start(corona.Rules{PollInterval: time.Minute, Compression: 1}, time.Now())
	return b
}

// subscribe subscribes, and polls until there is an answer.
func (b *privateBench) subscribe(p proxy.PrivateFeed) (proxy.SubscribeMessage, error) {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-b.wake:
				b.pollDue(time.Now())
			case <-ctx.Done():
				return
			}
		}
	}()
	message, err := b.SubscribePrivately(ctx, p)
	cancel()
	<-done
	return message, err
}

func (b *privateBench) mustSubscribe(address string) *privateFeed {
	b.Helper()
	done, err := b.subscribe(proxy.PrivateFeed{Address: address})
	if err != nil || done.Warning != "" {
		b.Fatalf("%s: %+v %v", address, done, err)
	}
	return b.byName[done.URL]
}

// poll makes the next poll of a feed now.
func (b *privateBench) poll(f *privateFeed) {
	f.State.Next = time.Now()
	b.pollDue(time.Now())
}

func (b *privateBench) titles(f *privateFeed) string {
	b.Helper()
	w, err := b.read(b.Context(), f.Name)
	if err != nil {
		b.Fatal(err)
	}
	var titles []string
	for _, e := range w.Document.Entries {
		m, err := e.Item.Meaning(w.Document.Base)
		if err != nil {
			b.Error(err)
		}
		titles = append(titles, m.Title)
	}
	return strings.Join(titles, " ")
}

// rss is the answer with items, given by their ids and titles in turn.
func rss(items ...string) env.Answer {
	var doc strings.Builder
	doc.WriteString(`<rss version="2.0"><channel><title>News</title><link>https://example.org/</link><description/><ttl>90</ttl>`)
	for i := 0; i < len(items); i += 2 {
		fmt.Fprintf(&doc, `<item><guid>%s</guid><title>%s</title></item>`, items[i], items[i+1])
	}
	doc.WriteString(`</channel></rss>`)
	return env.Answer{Status: 200, Body: []byte(doc.String()), ETag: `"` + strings.Join(items, "") + `"`}
}

const privateURL = "https://example.org/feed?key=geheim-key"

func TestPrivateItemsArriveChangeAndStay(t *testing.T) {
	dir := t.TempDir()
	b := newPrivateBench(t, dir)
	b.answers[privateURL] = rss("1", "one", "0", "zero")
	f := b.mustSubscribe(privateURL)
	b.answers[privateURL] = rss("2", "two", "1", "ONE")
	b.poll(f)
	b.answers[privateURL] = env.Answer{Status: 304}
	b.poll(f)
	if last := b.requests[len(b.requests)-1]; last.ETag != `"2two1ONE"` || last.ValidatedURL != privateURL {
		t.Errorf("the request is %+v", last)
	}
	if got := b.titles(f); got != "two ONE zero" {
		t.Errorf("the items are %s", got)
	}

	// The files alone, as a killed node leaves them.
	killed := newPrivateBench(t, dir)
	g := killed.byName[f.Name]
	if got := killed.titles(g); got != "two ONE zero" {
		t.Errorf("after a restart the items are %s", got)
	}
	if !reflect.DeepEqual(g.Headers, f.Headers) || g.Token != f.Token || g.URL != f.URL || !g.State.Next.After(time.Now()) {
		t.Errorf("after a restart the feed is %+v", g.privateRecord)
	}
	killed.answers[privateURL] = rss("3", "three", "2", "two", "1", "ONE")
	killed.poll(g)
	if got := killed.titles(g); got != "three two ONE zero" {
		t.Errorf("after a restart and a poll the items are %s", got)
	}
}

func TestPrivateItemsAreForgotten(t *testing.T) {
	now := time.Now()
	var c privateContents
	document := func(from, to int) *feed.Feed {
		var items []string
		for i := to; i >= from; i-- {
			items = append(items, fmt.Sprint(i), "t")
		}
		f, err := feed.Parse(rss(items...).Body, "")
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	c.take(document(1, 300), now.Add(-2*keepPrivateTime), maxPrivateBytes)
	c.take(document(301, 310), now, maxPrivateBytes)
	if len(c.entries) != 10+keepPrivateItems {
		t.Errorf("%d items are kept, not %d and %d old ones", len(c.entries), 10, keepPrivateItems)
	}
	c = privateContents{}
	c.take(document(1, 300), now, maxPrivateBytes)
	c.take(document(301, 310), now, maxPrivateBytes)
	if len(c.entries) != 310 {
		t.Errorf("%d of 310 new items are kept", len(c.entries))
	}
	large := strings.Repeat("x", feed.MaxItem-1000)
	c = privateContents{}
	for i := range 2*maxPrivateBytes/feed.MaxItem + 2 {
		f, err := feed.Parse(rss(fmt.Sprint(i), large).Body, "")
		if err != nil {
			t.Fatal(err)
		}
		c.take(f, now, maxPrivateBytes)
	}
	size := 0
	for _, e := range c.entries {
		size += len(e.Item.Raw)
	}
	if size > maxPrivateBytes || size < maxPrivateBytes-feed.MaxItem {
		t.Errorf("%d bytes are kept, not up to %d", size, maxPrivateBytes)
	}
}

// The node asks a public origin as politely as a poller does.
func TestPrivatePollsArePolite(t *testing.T) {
	for _, c := range []struct {
		name     string
		a        env.Answer
		from, to time.Duration
		why      string
	}{
		{"ttl", rss("1", "one"), 90 * time.Minute, 91 * time.Minute, "ttl"},
		{"freshness", func() env.Answer { a := rss("1", "one"); a.MaxAge = 3 * time.Hour; return a }(), 3 * time.Hour, 181 * time.Minute, "max-age"},
		{"the shortest interval", env.Answer{Status: 200, Body: []byte(`{"version":"https://jsonfeed.org/version/1","title":"t","items":[]}`)}, 15 * time.Minute, 16 * time.Minute, "public"},
		{"a private address", env.Answer{Status: 200, Private: true, Body: []byte(`{"version":"https://jsonfeed.org/version/1","title":"t","items":[]}`)}, time.Minute, 2 * time.Minute, "network"},
		{"Retry-After", env.Answer{Status: 503, RetryAfter: 5 * time.Hour}, 5 * time.Hour, 6 * time.Hour, "fewer requests"},
		{"not reachable", env.Answer{Err: env.ErrDNS, Message: "no address"}, time.Minute, 2 * time.Minute, "not reachable"},
	} {
		b := newPrivateBench(t, t.TempDir())
		b.answers[privateURL] = c.a
		done, err := b.subscribe(proxy.PrivateFeed{Address: privateURL})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		f := b.byName[done.URL]
		if d := time.Until(f.State.Next); d < c.from-time.Minute || d > c.to || !strings.Contains(f.State.Why, c.why) {
			t.Errorf("%s: the next poll is in %v: %s", c.name, d, f.State.Why)
		}
	}
}

func TestPrivateFeedsOfALimitedDomainWait(t *testing.T) {
	const other = "https://www.example.org/other"
	for _, local := range []bool{false, true} { // origins with private addresses may ask for fewer requests, too
		b := newPrivateBench(t, t.TempDir())
		a := rss("1", "one")
		a.Private = local
		b.answers[privateURL], b.answers[other] = a, a
		f, g := b.mustSubscribe(privateURL), b.mustSubscribe(other)
		b.answers[privateURL] = env.Answer{Status: 429, RetryAfter: 10 * time.Hour, Private: local}
		b.poll(f)
		n := len(b.requests)
		b.poll(g)
		if len(b.requests) != n || time.Until(g.State.Next) < 9*time.Hour || !strings.Contains(g.State.Why, "example.org asks for fewer") {
			t.Errorf("local %v: %d more requests, the next in %v: %s", local, len(b.requests)-n, time.Until(g.State.Next), g.State.Why)
		}
	}
}

// Each failure is told in words, with a way out and without a secret.
func TestPrivateFailuresAreTold(t *testing.T) {
	page := []byte("<!DOCTYPE html><title>Log in</title><p>Your key geheim-key has expired")
	for _, c := range []struct {
		name, address string
		headers       map[string]string
		a             env.Answer
		kind          error
		say           string
	}{
		{"password", "https://ann:geheim-pass@example.org/f", nil, env.Answer{Status: 401}, proxy.ErrNotFound, "the user name and the password (401)"},
		{"headers", "https://example.org/f", map[string]string{"Cookie": "sid=geheim-cookie"}, env.Answer{Status: 403}, proxy.ErrNotFound, "the headers (403)"},
		{"token", privateURL, nil, env.Answer{Status: 401}, proxy.ErrNotFound, "token in it may be wrong or expired"},
		{"log-in page", privateURL, nil, env.Answer{Status: 200, ContentType: "text/html", Body: page}, proxy.ErrNotFeed, "not a feed"},
		{"gone", privateURL, nil, env.Answer{Status: 410}, proxy.ErrGone, "410"},
		{"refused", privateURL, nil, env.Answer{Err: env.ErrRefused, Message: "private address"}, proxy.ErrForbidden, "--allow-private-origins"},
		{"redirect", "https://ann:geheim-pass@example.org/f", nil, env.Answer{Status: 401, Links: []string{"https://www.example.org/f?key=geheim-key"}}, proxy.ErrNotFound, "https://www.example.org, which does not get the password"},
	} {
		b := newPrivateBench(t, t.TempDir())
		address, _, _, err := feed.SplitCredentials(c.address)
		if err != nil {
			t.Fatal(err)
		}
		b.answers[address] = c.a
		_, err = b.subscribe(proxy.PrivateFeed{Address: c.address, Headers: c.headers})
		if err == nil || !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.say) || !strings.Contains(err.Error(), "not subscribed") || strings.Contains(err.Error(), "geheim") {
			t.Errorf("%s: the error is %v", c.name, err)
		}
		if len(b.list()) != 0 {
			t.Errorf("%s: it is subscribed to", c.name)
		}

		// The same happens to a feed that worked before.
		b.answers[address] = rss("1", "one")
		done, err := b.subscribe(proxy.PrivateFeed{Address: c.address, Headers: c.headers})
		if err != nil {
			t.Fatal(err)
		}
		b.answers[address] = c.a
		b.poll(b.byName[done.URL])
		l := b.list()[0]
		if !l.Failing() || !strings.Contains(l.Error, c.say) || strings.Contains(fmt.Sprint(l), "geheim") {
			t.Errorf("%s: the list says %+v", c.name, l)
		}
		if l.State == stateNoAccess && !strings.Contains(l.Do, "tidings subscribe") {
			t.Errorf("%s: the way out is %q", c.name, l.Do)
		}
		if w, err := b.read(t.Context(), done.URL); err != nil || w.Stale == "" || len(w.Document.Entries) != 1 {
			t.Errorf("%s: readers get %+v %v", c.name, w, err)
		}
		if logged := b.log.String(); strings.Contains(logged, "geheim") {
			t.Errorf("%s: the log is %s", c.name, logged)
		}
	}
}

// Texts of failures may quote what the origin said.
func TestPrivateSecretsAreHidden(t *testing.T) {
	b := newPrivateBench(t, t.TempDir())
	const address = "https://example.org/geheim-path-0123456789/feed?key=geheim%20key&x=1"
	b.answers[address] = rss("1", "one")
	done, err := b.subscribe(proxy.PrivateFeed{Address: strings.Replace(address, "//", "//ann:geheim-pass@", 1), Headers: map[string]string{"Cookie": "geheim-cookie", "X-Key": "Bearer geheim-word"}})
	if err != nil {
		t.Fatal(err)
	}
	f := b.byName[done.URL]
	for _, secret := range []string{strings.TrimPrefix(address, "https://"), "key=geheim%20key&x=1", "geheim%20key", "geheim key", "geheim-path-0123456789", "geheim-pass", "ann:geheim-pass", "YW5uOmdlaGVpbS1wYXNz", "geheim-cookie", "Bearer geheim-word", "geheim-word"} {
		b.answers[address] = env.Answer{Err: env.ErrBroken, Message: "the feed does not understand (" + secret + ")"}
		b.poll(f)
		if got := b.list()[0].Error; got != "the feed does not understand (…)" {
			t.Errorf("%s: the error is %s", secret, got)
		}
	}
}

// An address in the words about a failure is cut behind its host, whatever its scheme and however short its parts are.
func TestPrivateFailuresNameHostsOnly(t *testing.T) {
	for _, address := range []string{"https://example.org/feeds/g3heim", "https://example.org/u/g3heim/feed?x=1", "https://example.org/f?a=b&g3heim", "https://example.org/f?a=b%2Bg3heim&c"} {
		plain := strings.Replace(address, "https:", "http:", 1)
		for text, want := range map[string]string{
			"it redirects to " + address + ": subscribe to " + plain: "it redirects to https://example.org/…: subscribe to http://example.org/…",
			"(https://login.example/?from=g3heim)":                   "(https://login.example/…)",
			"it redirects to https://login.example.":                 "it redirects to https://login.example.",
			"no https:/%zz":                                          "no …",
		} {
			b := newPrivateBench(t, t.TempDir())
			b.answers[address] = rss("1", "one")
			f := b.mustSubscribe(address)
			b.answers[address] = env.Answer{Err: env.ErrRedirect, Message: text}
			b.poll(f)
			if got := b.list()[0].Error; got != want {
				t.Errorf("%s: the error is %q", address, got)
			}
		}
	}
}

// The user's title and site are shown, else those of the feed: as text, absolute, and without its secrets.
func TestPrivateTitles(t *testing.T) {
	b := newPrivateBench(t, t.TempDir())
	b.answers[privateURL] = env.Answer{Status: 200, Body: []byte(`<rss version="2.0"><channel><title>&lt;b&gt;News&lt;/b&gt; of ` + privateURL + `</title><link>/about?geheim-key</link><description/><item><guid>1</guid><title>one</title></item></channel></rss>`)}
	f := b.mustSubscribe(privateURL)
	if c := b.list()[0]; c.Title != "News of https://…" || c.Site != "https://example.org/about?…" {
		t.Errorf("the title is %q, and the site %q", c.Title, c.Site)
	}
	if err := b.describe(f.Name, proxy.Description{Title: "My own name", Site: "https://my.example/"}); err != nil {
		t.Fatal(err)
	}
	if c := b.list()[0]; c.Title != "My own name" || c.Site != "https://my.example/" {
		t.Errorf("the user's title is %q, and the site %q", c.Title, c.Site)
	}
}

// A private feed whose subscription was ended comes back with its headers, its items and the address of its readers, also
// on the disk.
func TestAPrivateFeedIsMadeAgain(t *testing.T) {
	dir := t.TempDir()
	b := newPrivateBench(t, dir)
	b.answers["https://example.org/f"] = rss("1", "one")
	f := b.mustSubscribe("https://ann:geheim@example.org/f")
	if err := b.describe(f.Name, proxy.Description{Title: "Mine", Tags: []string{"work"}}); err != nil {
		t.Fatal(err)
	}
	before := b.list()[0]
	if err := b.resubscribe("private:other.example/1"); !errors.Is(err, proxy.ErrNoSubscription) {
		t.Errorf("an unknown one: %v", err)
	}
	for range 2 {
		if err := b.unsubscribe(f.Name); err != nil {
			t.Fatal(err)
		}
		if files, err := os.ReadDir(dir); err != nil || len(files) != 0 || len(b.list()) != 0 {
			t.Errorf("after unsubscribing: %v, %v", files, err)
		}
		if err := errors.Join(b.resubscribe(f.Name), b.resubscribe(f.Name)); err != nil {
			t.Fatal(err)
		}
		if after := b.list(); len(after) != 1 || !reflect.DeepEqual(after[0], before) || b.titles(f) != "one" {
			t.Errorf("%+v became %+v with %q", before, after, b.titles(f))
		}
	}
	again := newPrivateBench(t, dir)
	if err := again.load(); err != nil {
		t.Fatal(err)
	}
	if after := again.list(); len(after) != 1 || after[0].ReadURL != before.ReadURL || again.byName[f.Name].Headers["Authorization"] == "" {
		t.Errorf("after a restart: %+v", after)
	}
	b.shared = func(string) bool { return true }
	if err := errors.Join(b.unsubscribe(f.Name), b.resubscribe(f.Name)); !errors.Is(err, proxy.ErrForbidden) {
		t.Errorf("the address is shared meanwhile: %v", err)
	}
}

func TestPrivateFeedsAreFound(t *testing.T) {
	b := newPrivateBench(t, t.TempDir())
	b.answers["https://example.org/f"], b.answers[privateURL], b.answers["https://other.example/"] = rss("1", "one"), rss("1", "one"), rss("1", "one")
	ann, bob, key := b.mustSubscribe("https://ann:a@example.org/f"), b.mustSubscribe("https://bob:b@example.org/f"), b.mustSubscribe(privateURL)
	alone := b.mustSubscribe("https://carl:c@other.example/")
	for address, want := range map[string]*privateFeed{
		"https://ann:wrong@example.org/f": ann, "https://bob@EXAMPLE.org/f#x": bob, "https://eve@example.org/f": nil,
		"https://example.org/f": nil, privateURL: key, "https://example.org/feed": nil, "https://other.example/": alone,
		ann.Name: ann, "private:example.org": nil, "private:other.example": alone, "private:": nil, "private:other": nil,
		proxy.PrivateReadPath(bob.Token): bob, proxy.PrivateReadPath(bob.Token[1:]): nil, bob.Token: nil, "": nil,
	} {
		name, ok := b.FindPrivate(address)
		if ok != (want != nil) || ok && name != want.Name {
			t.Errorf("%s is %q", address, name)
		}
	}
	if strings.Contains(fmt.Sprint(ann.Name, bob.Name), "ann") || ann.Name == bob.Name || !strings.HasPrefix(ann.Name, "private:example.org/") {
		t.Errorf("the names are %s and %s", ann.Name, bob.Name)
	}

	// A new password keeps the address for readers; a wrong one changes nothing.
	done, err := b.subscribe(proxy.PrivateFeed{Address: "https://ann:new@example.org/f", Description: proxy.Description{Tags: []string{"work"}}})
	if err != nil || !done.Already || done.ReadURL != proxy.PrivateReadPath(ann.Token) || ann.Headers["Authorization"] != "Basic YW5uOm5ldw==" || !slices.Equal(ann.Tags, []string{"work"}) {
		t.Errorf("%+v %v %v", done, err, ann.privateRecord)
	}
	b.answers["https://example.org/f"] = env.Answer{Status: 401}
	if _, err = b.subscribe(proxy.PrivateFeed{Address: "https://ann:bad@example.org/f"}); err == nil || !strings.Contains(err.Error(), "nothing is changed") || ann.Headers["Authorization"] != "Basic YW5uOm5ldw==" {
		t.Errorf("%v %v", err, ann.Headers)
	}
}

func TestPrivateFeedsThatAreRefused(t *testing.T) {
	b := newPrivateBench(t, t.TempDir())
	b.shared = func(url string) bool { return url == "https://shared.example/f" }
	many := map[string]string{}
	for i := range maxPrivateHeaders + 1 {
		many[fmt.Sprint("X-", i)] = "1"
	}
	for _, c := range []struct {
		address string
		headers map[string]string
		say     string
	}{
		{"https://geheim:geheim@shared.example/f", nil, "shared feed already"},
		{"ftp://geheim:geheim@example.org/", nil, "http"},
		{"page+https://geheim:geheim@example.org/", nil, "http"},
		{"private:example.org/12345678", nil, "no such subscription"},
		{"https://example.org/", map[string]string{"a b": "geheim"}, "not valid"},
		{"https://example.org/", map[string]string{"Cookie": "geheim\ngeheim"}, "not valid"},
		{"https://example.org/", map[string]string{"host": "geheim"}, "sets it itself"},
		{"https://example.org/", map[string]string{"cookie": "geheim", "Cookie": "geheim2"}, "Cookie is given twice"},
		{"https://example.org/", many, "at most 16"},
		{"https://example.org/", map[string]string{"Cookie": strings.Repeat("geheim", 2000)}, "8 KiB"},
	} {
		if _, err := b.subscribe(proxy.PrivateFeed{Address: c.address, Headers: c.headers}); err == nil || !strings.Contains(err.Error(), c.say) || strings.Contains(err.Error(), "geheim") {
			t.Errorf("%s: %v", c.address, err)
		}
	}
	for i := range maxPrivateFeeds {
		if _, err := b.SubscribePrivately(t.Context(), proxy.PrivateFeed{Address: fmt.Sprintf("https://a:b@example.org/%d", i), Later: true}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.SubscribePrivately(t.Context(), proxy.PrivateFeed{Address: "https://a:b@example.org/more", Later: true}); !errors.Is(err, proxy.ErrFull) {
		t.Errorf("one more: %v", err)
	}
}

func TestDamagedPrivateFilesAreSetAside(t *testing.T) {
	dir := t.TempDir()
	b := newPrivateBench(t, dir)
	b.answers[privateURL], b.answers["https://example.org/f"] = rss("1", "one"), rss("1", "one")
	f, g := b.mustSubscribe(privateURL), b.mustSubscribe("https://ann:geheim@example.org/f")
	whole, err := os.ReadFile(b.path(f.Name))
	if err != nil {
		t.Fatal(err)
	}
	for i, damaged := range []string{"", "{}", string(whole[:len(whole)/2]), strings.Replace(string(whole), `"Raw":"`, `"Raw":"AAAA`, 1), strings.Replace(string(whole), "https:", "HTTPS:", 1)} {
		if err := os.WriteFile(b.path(f.Name), []byte(damaged), 0o600); err != nil {
			t.Fatal(err)
		}
		again := newPrivateBench(t, dir)
		if again.byName[f.Name] != nil || again.byName[g.Name] == nil {
			t.Errorf("%d: the feeds are %+v", i, again.list())
		}
		if found := fmt.Sprint(again.findings()); !strings.Contains(found, filepath.Base(b.path(f.Name))+damagedFileEnd) || !strings.Contains(found, "backup") || strings.Contains(found+again.log.String(), "geheim") {
			t.Errorf("%d: the findings are %s, and the log %s", i, found, again.log)
		}
	}
	if err := os.WriteFile(b.path(f.Name), whole, 0o600); err != nil {
		t.Fatal(err)
	}
	if again := newPrivateBench(t, dir); again.byName[f.Name] == nil {
		t.Error("a restored file is not read")
	}
}

// A crash leaves no password behind, and no feed takes the file of another.
func TestPrivateFilesHaveOneFeedEach(t *testing.T) {
	dir := t.TempDir()
	b := newPrivateBench(t, dir)
	b.answers[privateURL] = rss("1", "one")
	f := b.mustSubscribe(privateURL)
	_, digits, _ := strings.Cut(f.Name, "/")
	for name, taken := range map[string]bool{f.Name: true, "private:other.example/" + digits: true, "private:example.org/" + digits[1:]: false} {
		if b.isTaken(name) != taken {
			t.Errorf("%s is taken: %v", name, !taken)
		}
	}
	left := filepath.Join(dir, "01234567.json.new")
	if err := os.WriteFile(left, []byte("geheim"), 0o600); err != nil {
		t.Fatal(err)
	}
	again := newPrivateBench(t, dir)
	if _, err := os.Stat(left); !errors.Is(err, fs.ErrNotExist) || again.byName[f.Name] == nil {
		t.Errorf("the unfinished file is still there: %v, or the other one is not: %v", err, again.list())
	}
}

func FuzzPrivateFile(f *testing.F) {
	f.Add([]byte(`{"Name":"private:example.org/12345678","Token":"0123456789abcdef0123456789abcdef","URL":"https://example.org/","Headers":{"Cookie":"a"},` +
		`"Items":[{"Format":4,"Raw":"eyJpZCI6IjEiLCJ0aXRsZSI6InQifQ=="}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := decodePrivateFile(b)
		if err != nil {
			return
		}
		_ = got.window(time.Now())
		_ = got.hide(got.URL)
		_ = got.remedy()
	})
}
