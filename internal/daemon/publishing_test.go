package daemon

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tidings/difference"
	"tidings/feedtree"
	"tidings/internal/feed"
	"tidings/internal/publisher"
	"tidings/proxy"
)

// blog serves a feed that names the publisher's key.
func blog(t *testing.T, key *publisher.Key) (url string) {
	t.Helper()
	url, _ = closableBlog(t, key)
	return url
}

// closableBlog is a blog whose server can be closed.
func closableBlog(t *testing.T, key *publisher.Key) (url string, off func()) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, feedNaming(key.Public())) }))
	t.Cleanup(s.Close)
	return s.URL + "/feed.xml", s.Close
}

// feedNaming returns a feed that names a publisher's key.
func feedNaming(key ed25519.PublicKey) string {
	p := feed.Publisher{Key: key, Beat: time.Hour}
	return strings.Replace(aFeed, "<title>", p.Metadata(feed.RSS)+"<title>", 1)
}

// signers makes a key and returns two signers that use copies of it and do not know of each other.
func signers(t *testing.T) (first, second *publisher.Signer) {
	t.Helper()
	open := func(path string) *publisher.Signer {
		a, err := publisher.Open(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	path, copied := filepath.Join(t.TempDir(), "blog.key"), filepath.Join(t.TempDir(), "blog.key")
	_, err := publisher.Generate(path, "")
	if err == nil {
		var b []byte
		if b, err = os.ReadFile(path); err == nil {
			err = os.WriteFile(copied, b, 0o600)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return open(path), open(copied)
}

// envelopeOf signs the next item of a feed.
func envelopeOf(t *testing.T, a *publisher.Signer, url, name string, last publisher.Head) []byte {
	t.Helper()
	it, err := feed.NewItem(feed.RSS, feed.Meaning{GUID: name, Title: name}, time.Unix(1, 0))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := a.Sign(url, last, &it, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// A node subscribes to a feed once the feed has accepted an item. A feed that refuses everything is not
// subscribed to, and a user's subscription stays.
func TestPublishingSubscribesToTheFeed(t *testing.T) {
	t.Parallel()
	c := founding(t, "tentative")
	c.AllowPrivateOrigins = true
	m := running(t, c)
	m.awaitMembers(t, 1)
	author, copied := signers(t)
	url, other := blog(t, author.Key()), blog(t, author.Key())
	first := envelopeOf(t, author, url, "one", publisher.Head{})
	if w, err := m.Push(t.Context(), first); err != nil || w != (proxy.PublishResult{URL: url, Seq: 1}) {
		t.Fatalf("%+v, %v", w, err)
	}
	if got := m.subscribedURLs(t); got != url {
		t.Errorf("%q is subscribed to, not %q", got, url)
	}

	for _, envelope := range [][]byte{nil, envelopeOf(t, author, feed.PageChannel(url), "page", publisher.Head{}), envelopeOf(t, author, url+"#part", "part", publisher.Head{})} {
		if _, err := m.Push(t.Context(), envelope); !errors.Is(err, proxy.ErrInvalidItem) {
			t.Error(err)
		}
	}

	// Nothing has been published in the other feed yet.
	if p, err := m.Publisher(t.Context(), other); err != nil || len(p.Key) == 0 {
		t.Fatalf("%+v, %v", p, err)
	}
	if got := m.subscribedURLs(t); !strings.Contains(got, other) {
		t.Errorf("%q is subscribed to: nothing can be published in another one", got)
	}
	if err := m.Unsubscribe(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	again := envelopeOf(t, copied, url, "another one", publisher.Head{}) // with a number that was used
	if _, err := m.Push(t.Context(), again); !errors.Is(err, proxy.ErrRejected) || !errors.Is(err, feedtree.ErrRefused) {
		t.Error(err)
	}
	if got := m.subscribedURLs(t); got != other {
		t.Errorf("%q is subscribed to, and refuses all", got)
	}
	m.endLapsed(t.Context(), time.Now().Add(lapseCheckInterval+time.Minute))
	if got := m.subscribedURLs(t); got != "" {
		t.Errorf("%q is subscribed to, and nobody asked for it", got)
	}
	if err := m.Subscribe(t.Context(), url, false); err != nil {
		t.Fatal(err)
	}
	m.endLapsed(t.Context(), time.Now().Add(lapseCheckInterval+time.Minute))
	if got := m.subscribedURLs(t); got != url {
		t.Errorf("%q is subscribed to, not %q", got, url)
	}
	m.stop(t)
}

// An item that could not be pushed is pushed later. Items that cannot be signed are refused with an error.
func TestUnpushedItemIsSentLater(t *testing.T) {
	t.Parallel()
	author, _ := signers(t)
	owner, _ := signers(t)
	c := founding(t, "pending")
	c.AllowPrivateOrigins, c.Signer = true, author
	m := running(t, c)
	m.awaitMembers(t, 1)
	said := feed.Meaning{GUID: "1", Title: "One"}
	for _, of := range []struct {
		said feed.Meaning
		want error
	}{
		{feed.Meaning{GUID: "1", Content: strings.Repeat("x", feed.MaxItem)}, proxy.ErrTooLarge},
		{feed.Meaning{GUID: "1"}, proxy.ErrInvalidItem},
	} {
		if _, err := m.Write(t.Context(), blog(t, author.Key()), of.said); !errors.Is(err, of.want) {
			t.Errorf("%v, want %v", err, of.want)
		}
	}

	taken := blog(t, owner.Key())
	if _, err := m.Push(t.Context(), envelopeOf(t, owner, taken, "owner's", publisher.Head{})); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Write(t.Context(), taken, said); !errors.Is(err, proxy.ErrRejected) || !strings.Contains(err.Error(), "the key of ") {
		t.Error(err)
	}

	// The sequencer of this feed hangs.
	b := running(t, Config{Dir: t.TempDir(), Bootstrap: m.awaitMembers(t, 1).Addrs, AllowPrivateOrigins: true})
	b.awaitMembers(t, 2)
	m.awaitMembers(t, 2)
	url, off := feedLedBy(t, b, m, author.Key())
	release := make(chan struct{})
	stood := make(chan error)
	go func() { stood <- b.do(t.Context(), func() { <-release }) }()
	hurry, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	w, err := m.Write(hurry, url, said)
	if err != nil || w.Seq != 1 || !strings.Contains(w.Pending, "do not publish it again") {
		t.Errorf("%+v, %v", w, err)
	}
	if taken, ok := author.Feeds()[url]; taken || !ok {
		t.Errorf("it publishes in %v", author.Feeds())
	}
	close(release)
	if err := <-stood; err != nil {
		t.Error(err)
	}
	off() // a signed item needs no origin
	if err := m.publishHeartbeat(t.Context(), url, false, 0); err != nil {
		t.Error(err)
	}
	if !author.Feeds()[url] {
		t.Error("nobody has taken what was signed")
	}
	b.stop(t)
	m.stop(t)
}

// If the document at the origin cannot be read, a feed that accepted items before is still published in. The
// network knows its key, though perhaps not this node yet.
func TestUnreadableDocumentDoesNotBlockAnAcceptedFeed(t *testing.T) {
	author, _ := signers(t)
	const took, fresh = "http://a.example/", "http://b.example/"
	it, err := feed.NewItem(feed.RSS, feed.Meaning{GUID: "1", Title: "One"}, time.Unix(1, 0))
	if err == nil {
		_, errs := author.SignAndPush(took, 0, feed.Hash{}, []*feed.Item{&it}, time.Unix(1, 0), func([]*difference.Publication) []error { return []error{nil} })
		err = errs[0]
	}
	if err != nil {
		t.Fatal(err)
	}
	d := &publishing{signer: author}
	for _, c := range []struct {
		of   proxy.Publisher
		want error
	}{
		{proxy.Publisher{URL: took, NoDocumentKey: "it does not answer", DocumentUnreachable: true}, nil},
		{proxy.Publisher{URL: fresh, NoDocumentKey: "it does not answer", DocumentUnreachable: true}, proxy.ErrPending},
		{proxy.Publisher{URL: took, NoDocumentKey: "it names no key"}, proxy.ErrRejected},
		{proxy.Publisher{URL: fresh, DocumentKey: author.Public()}, nil},
	} {
		if err := d.checkKey(&c.of); !errors.Is(err, c.want) {
			t.Errorf("%+v: %v, want %v", c.of, err, c.want)
		}
	}
}

// feedLedBy returns a feed that names a key and of which leader is the sequencer.
func feedLedBy(t *testing.T, leader, node *member, key *publisher.Key) (url string, off func()) {
	t.Helper()
	for range 20 {
		url, off := closableBlog(t, key)
		if p, err := node.Publisher(t.Context(), url); err != nil || len(p.Key) == 0 {
			continue
		}
		of, err := leader.LedFeeds(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(of, func(l LedFeed) bool { return l.URL == url }) {
			return url, off
		}
	}
	t.Fatal("it leads none of twenty")
	return "", nil
}

// A node that has too much to do for longer than a publisher is looked for publishes late, and does not blame the origin.
// Readers are told that the node is busy.
func TestBusyNodePublishesLate(t *testing.T) {
	t.Parallel()
	author, _ := signers(t)
	c := founding(t, "busy")
	c.AllowPrivateOrigins, c.Signer = true, author
	m := running(t, c)
	url := blog(t, author.Key())
	if _, err := m.Write(t.Context(), url, feed.Meaning{GUID: "0", Title: "Zero"}); err != nil {
		t.Fatal(err)
	}
	began, busy := time.Now(), make(chan struct{})
	go func() { _ = m.do(t.Context(), func() { close(busy); <-time.After(publisherTimeout + time.Second) }) }()
	<-busy
	hurry, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := m.Read(hurry, url); !errors.Is(err, proxy.ErrBusy) {
		t.Errorf("a reader is told: %v", err)
	}
	if p, err := m.awaitPublisher(t.Context(), url); err != nil || len(p.Key) == 0 || time.Since(began) < publisherTimeout {
		t.Errorf("after %v: publisher %x, %v", time.Since(began), p.Key, err)
	}
	if _, err := m.Write(t.Context(), url, feed.Meaning{GUID: "1", Title: "One"}); err != nil {
		t.Error(err)
	}
}

// A wrong address is found before anything is signed, is not subscribed to, and delays no other request.
func TestWrongAddressIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	author, _ := signers(t)
	other, _ := signers(t)
	c := founding(t, "wrong")
	c.AllowPrivateOrigins, c.Signer = true, author
	m := running(t, c)
	m.awaitMembers(t, 1)
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/silent":
			<-r.Context().Done()
		case "/nokey":
			_, _ = io.WriteString(w, aFeed)
		case "/page":
			_, _ = io.WriteString(w, "<!doctype html><title>A page</title><p>"+strings.Repeat("It says something. ", 50))
		default:
			http.NotFound(w, r)
		}
	}))
	defer origin.Close()
	url := blog(t, author.Key())
	if _, err := m.Write(t.Context(), url, feed.Meaning{GUID: "0", Title: "Zero"}); err != nil {
		t.Fatal(err)
	}
	stuck, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = m.Write(stuck, origin.URL+"/silent", feed.Meaning{GUID: "1", Title: "One"})
	}()
	began := time.Now()
	if _, err := m.Write(t.Context(), url, feed.Meaning{GUID: "1", Title: "One"}); err != nil || time.Since(began) > publisherTimeout {
		t.Errorf("after %v: %v", time.Since(began), err)
	}
	cancel()
	<-done
	if _, err := m.Write(stuck, origin.URL+"/left", feed.Meaning{GUID: "1", Title: "One"}); !errors.Is(err, context.Canceled) {
		t.Errorf("who has left is told: %v", err)
	}
	var wrong sync.WaitGroup
	for at, want := range map[string]string{
		origin.URL + "/nokey": "names no key", origin.URL + "/page": "is a page", origin.URL + "/feeed.xml": "404",
		blog(t, other.Key()): "names the key",
	} {
		wrong.Go(func() {
			began := time.Now()
			_, err := m.Write(t.Context(), at, feed.Meaning{GUID: "1", Title: "One"})
			if !errors.Is(err, proxy.ErrRejected) || !strings.Contains(err.Error(), want) || time.Since(began) > 3*publisherTimeout {
				t.Errorf("%s: after %v: %v, want %q", at, time.Since(began), err, want)
			}
		})
	}
	wrong.Wait()
	if _, err := m.Write(t.Context(), gone.URL+"/", feed.Meaning{GUID: "1", Title: "One"}); !errors.Is(err, proxy.ErrPending) || !strings.Contains(err.Error(), "cannot be read") {
		t.Errorf("an origin that does not answer: %v", err)
	}
	// A subscription made by reading stays.
	read := origin.URL + "/nokey"
	if err := m.Subscribe(t.Context(), read, true); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Write(t.Context(), read, feed.Meaning{GUID: "1", Title: "One"}); !errors.Is(err, proxy.ErrRejected) {
		t.Error(err)
	}
	if got := m.subscribedURLs(t); !strings.Contains(got, read) {
		t.Errorf("a reader's subscription is gone: %q", got)
	}
	if err := m.Unsubscribe(t.Context(), read); err != nil {
		t.Fatal(err)
	}
	within(t, awaitTimeout, "nothing else to be followed", func() error {
		if got := m.subscribedURLs(t); got != url {
			return fmt.Errorf("%q", got)
		}
		return nil
	})
	if of := author.Feeds(); len(of) != 1 || !of[url] {
		t.Errorf("it publishes in %v", of)
	}
	m.stop(t)
}
