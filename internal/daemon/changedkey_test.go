package daemon

import (
	"crypto/ed25519"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tidings/difference"
	"tidings/internal/feed"
	"tidings/proxy"
)

// A feed's key is changed at its origin. Readers are told the key that is believed, in each format, though
// no item comes that could bring the head of the document.
func TestReadersAreToldTheKeyThatIsInForce(t *testing.T) {
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
	m.knows(t, 1)
	url := origin.URL + "/feed.xml"
	var given proxy.Subscribed
	m.tell(t, "subscribe", `{"url":"`+url+`"}`, &given)
	path := given.ReadURL[strings.Index(given.ReadURL, "/f/"):]
	says := func(address string, want ed25519.PrivateKey) {
		t.Helper()
		within(t, time.Minute, address+" to name the key", func() error {
			body := m.reads(t, address)
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
		err = m.Push(t.Context(), p.Raw)
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
	says(path, fresh)
	for _, format := range []string{"rss", "atom", "json"} {
		says("/feed?format="+format+"&url="+url, fresh)
	}
}

// channel is one of the subscriptions.
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
