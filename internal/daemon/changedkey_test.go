package daemon

import (
	"crypto/ed25519"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tidings/difference"
	"tidings/feedtree"
	"tidings/internal/feed"
	"tidings/internal/publisher"
	"tidings/proxy"
)

// The key of a feed is changed at its origin. Readers get the accepted key in each format, although no new
// item carries it. People are told what happened to the old key.
func TestChangedKeyIsShown(t *testing.T) {
	t.Parallel()
	key := func(n byte) ed25519.PrivateKey {
		return ed25519.NewKeyFromSeed(append(make([]byte, ed25519.SeedSize-1), n))
	}
	public := func(k ed25519.PrivateKey) ed25519.PublicKey { return k.Public().(ed25519.PublicKey) }
	old, fresh := key(1), key(2)
	var named atomic.Pointer[ed25519.PrivateKey]
	named.Store(&old)
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		p := feed.Publisher{Key: public(*named.Load()), Beat: time.Hour}
		_, _ = io.WriteString(w, `<rss version="2.0"><channel>`+p.Metadata(feed.RSS)+`<title>A weblog</title><link>http://blog.example/</link><description/></channel></rss>`)
	}))
	defer origin.Close()
	c := founding(t, "changed-key")
	c.Found.PollInterval = time.Second
	c.HTTP, c.AllowPrivateOrigins = "127.0.0.1:0", true
	m := running(t, c)
	m.awaitMembers(t, 1)
	url := origin.URL + "/feed.xml"
	var given proxy.SubscribeMessage
	m.post(t, "subscribe", `{"url":"`+url+`"}`, &given)
	path := given.ReadURL[strings.Index(given.ReadURL, "/f/"):]
	says := func(address string, want ed25519.PrivateKey) {
		t.Helper()
		within(t, time.Minute, address+" to name the key", func() error {
			body := m.get(t, address)
			f, err := feed.Parse([]byte(body), "")
			if err != nil {
				return err
			}
			if p, ok := f.Head.Publisher(); !ok || !public(want).Equal(p.Key) {
				return fmt.Errorf("%v, %v in %s", p, ok, body)
			}
			return nil
		})
	}
	says(path, old)
	it, err := feed.NewItem(feed.RSS, feed.Meaning{GUID: "one", Title: "One"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	p, err := difference.Publish(old, url, 1, feed.Hash{}, time.Now(), &it)
	if err == nil {
		_, err = m.Push(t.Context(), p.Raw)
	}
	if err != nil {
		t.Fatal(err)
	}
	named.Store(&fresh)
	within(t, time.Minute, "the key is changed", func() error {
		if c := m.channel(t, url); c.Publisher != difference.Fingerprint(public(fresh)) {
			return fmt.Errorf("%+v", c)
		}
		return nil
	})
	from, to := difference.Fingerprint(public(old)), difference.Fingerprint(public(fresh))
	is := m.channel(t, url)
	if len(is.FormerKeys) != 1 || is.FormerKeys[0] != (proxy.FormerKey{Key: from, Revoked: true}) || is.PublisherSince == nil {
		t.Errorf("%+v", is)
	}
	found, err := m.Doctor(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for what, said := range map[string]string{
		"list":     is.KeyChange,
		"doctor":   fmt.Sprint(found),
		"the page": html.UnescapeString(m.get(t, "/show?url="+url)),
		"the list": html.UnescapeString(m.get(t, "/")),
	} {
		if !strings.Contains(said, "key was changed from "+from+" to "+to) || !strings.Contains(said, "without HTTPS (1 of them)") || !strings.Contains(said, "shown as revoked") {
			t.Errorf("%s says %s", what, said)
		}
	}
	if log := m.log.String(); !strings.Contains(log, "from="+from+" to="+to) {
		t.Error("the log does not say which keys")
	}
	says(path, fresh)
	for _, format := range []string{"rss", "atom", "json"} {
		says("/feed?format="+format+"&url="+url, fresh)
	}
}

// The publisher signs with the next key while the document still names the old one. That is no problem,
// because the old key has named the next one.
func TestNextKeyMaySignBeforeTheDocumentNamesIt(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "blog.key")
	key, err := publisher.Generate(path, "")
	if err != nil {
		t.Fatal(err)
	}
	said := feed.Publisher{Key: key.Public(), Next: key.Next(), Beat: time.Hour}
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Replace(aFeed, "<title>", said.Metadata(feed.RSS)+"<title>", 1))
	}))
	defer origin.Close()
	c := founding(t, "next-key")
	c.Found.PollInterval = time.Second
	c.HTTP, c.AllowPrivateOrigins = "127.0.0.1:0", true
	if c.Signer, err = publisher.Open(path, nil); err != nil {
		t.Fatal(err)
	}
	m := running(t, c)
	m.awaitMembers(t, 1)
	url := origin.URL + "/feed.xml"
	writes := func(name string) {
		t.Helper()
		if w, err := m.Write(t.Context(), url, feed.Meaning{GUID: name, Title: name}); err != nil || w.Pending != "" {
			t.Fatalf("%+v, %v", w, err)
		}
	}
	writes("one")
	next, err := publisher.Rotate(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	writes("two") // the node signs with the next key at once
	within(t, time.Minute, "the next key", func() error {
		c := m.channel(t, url)
		if c.State == stateKeyChanged {
			t.Errorf("%+v", c)
		}
		if c.Publisher != difference.Fingerprint(next.Public()) || c.Published != 2 {
			return fmt.Errorf("%+v", c)
		}
		return nil
	})
}

// channel returns one of the subscriptions.
func (m *member) channel(t *testing.T, url string) proxy.Channel {
	t.Helper()
	channels, err := m.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range channels {
		if c.URL == url {
			return c
		}
	}
	t.Fatalf("no %s in %+v", url, channels)
	return proxy.Channel{}
}

// A key that the feed's owners name and that this node does not trust is a problem. The text says which key
// this node read at the origin, and what others say.
func TestDoubtedKeyIsAProblem(t *testing.T) {
	key := func(n byte) ed25519.PublicKey { return append(make(ed25519.PublicKey, ed25519.PublicKeySize-1), n) }
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	is, said := &difference.Pin{Key: key(1)}, &difference.Pin{Key: key(2)}
	rotated := is.Rotate(key(4), feed.Hash{}, at, nil)
	for _, c := range []struct {
		of    feedtree.Subscription
		state string
		says  []string
	}{
		{feedtree.Subscription{Publisher: is}, proxy.StateOK, nil},
		{feedtree.Subscription{Publisher: is, Seen: key(1), SeenAt: at}, proxy.StateOK, nil},
		{feedtree.Subscription{Publisher: rotated, Seen: key(1), SeenAt: at}, proxy.StateOK, nil}, // the old key named the new one
		{feedtree.Subscription{Publisher: is, Doubt: said}, stateKeyChanged, []string{"shown as unconfirmed", "has not yet read"}},
		{feedtree.Subscription{Publisher: is, Doubt: said, Seen: key(1), SeenAt: at, Objectors: 4}, stateKeyChanged, []string{"named the old key at 2026-11-20 12:00:00 UTC", "4 other nodes"}},
		{feedtree.Subscription{Publisher: is, Doubt: said, Seen: key(3), SeenAt: at}, stateKeyChanged, []string{"named " + difference.Fingerprint(key(3))}},
		{feedtree.Subscription{Publisher: is, Seen: key(3), SeenAt: at}, stateKeyChanged, []string{"web server named the key " + difference.Fingerprint(key(3))}},
	} {
		shown := proxy.Channel{URL: "https://a/", State: proxy.StateOK, Publisher: difference.Fingerprint(is.Key)}
		addKeyState(&shown, c.of)
		if shown.State != c.state || (shown.Error == "") != (c.says == nil) || (shown.Do == "") != (c.says == nil) {
			t.Errorf("%+v: %+v", c.of, shown)
		}
		for _, say := range c.says {
			if !strings.Contains(shown.Error, say) {
				t.Errorf("no %q in %q", say, shown.Error)
			}
		}
	}
}

func TestFormerKeysAreDescribed(t *testing.T) {
	key := func(n byte) ed25519.PublicKey { return append(make(ed25519.PublicKey, ed25519.PublicKeySize-1), n) }
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	first := &difference.Pin{Key: key(1), Next: difference.KeyHash(key(2)), Since: at}
	named := first.Rotate(key(2), feed.Hash{}, at, nil)
	taken := named.Rotate(key(3), difference.KeyHash(key(4)), at, [][]byte{{1}, {2}, {3}})
	untold := *taken
	untold.Witnesses = nil
	shown := func(n byte) string { return difference.Fingerprint(key(n)) }
	for _, c := range []struct {
		name, url string
		pin       *difference.Pin
		former    int
		says      []string
	}{
		{"the first one", "https://a/", first, 0, nil},
		{"one that was named", "https://a/", named, 1, []string{shown(1) + " to " + shown(2), "named the new one", "stay the publisher's"}},
		{"taken back", "https://a/", taken, 2, []string{shown(2) + " to " + shown(3), "over HTTPS (3 of them)", "revoked"}},
		{"taken back, at home", "http://10.0.0.1/", taken, 2, []string{"without HTTPS (3 of them)"}},
		{"nobody here has seen it", "https://a/", &untold, 2, []string{"this node read the new key from the web server", "revoked"}},
		{"named after one that was taken back", "https://a/", taken.Rotate(key(4), feed.Hash{}, at, nil), 3, []string{shown(3) + " to " + shown(4), "items of " + shown(2) + ", which was withdrawn before, are shown as revoked"}},
	} {
		former, words := formerKeys(c.url, c.pin)
		if len(former) != c.former || (words == "") != (c.former == 0) {
			t.Errorf("%s: %+v, %q", c.name, former, words)
		}
		for _, say := range c.says {
			if !strings.Contains(words, say) {
				t.Errorf("%s: no %q in %q", c.name, say, words)
			}
		}
	}
	since := proxy.OptionalTime(at)
	changed := proxy.Channel{URL: "https://a/", PublisherSince: since, FormerKeys: []proxy.FormerKey{{Key: shown(1), Revoked: true}}}
	went := proxy.Channel{URL: "https://b/", PublisherSince: since, FormerKeys: []proxy.FormerKey{{Key: shown(1)}}}
	reported := func(now time.Time, channels ...proxy.Channel) []proxy.Finding {
		x := feedExamination{now: now}
		for i := range channels {
			x.examine(&channels[i])
		}
		return x.changedKeys
	}
	if got := reported(at.Add(time.Hour), changed, went, proxy.Channel{URL: "https://c/"}); len(got) != 2 ||
		!strings.HasPrefix(got[0].What.String(), "https://a/: at 2026-11-20 12:00:00 UTC") || !strings.HasPrefix(got[1].What.String(), "https://b/") {
		t.Errorf("%+v", got)
	}
	if got := reported(at.Add(2*keyChangeAge), changed); len(got) != 0 {
		t.Errorf("old news: %+v", got)
	}
}
