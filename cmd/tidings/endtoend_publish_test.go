package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"tidings/difference"
	"tidings/internal/feed"
	"tidings/proxy"
)

// A publishedFeed is an origin whose feed names its publisher.
type publishedFeed struct {
	mu       sync.Mutex
	metadata string
	items    []string
}

func (w *publishedFeed) says(metadata string, items ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.metadata, w.items = strings.TrimSpace(metadata), items
}

func (w *publishedFeed) document() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var b strings.Builder
	b.WriteString(`<rss version="2.0"><channel>` + w.metadata + `<title>A weblog</title><link>http://blog.example/</link><description/>`)
	for _, name := range w.items {
		fmt.Fprintf(&b, `<item><guid isPermaLink="false">%[1]s</guid><title>%[1]s</title></item>`, name)
	}
	return b.String() + "</channel></rss>"
}

func (w *publishedFeed) ServeHTTP(to http.ResponseWriter, _ *http.Request) {
	to.Header().Set("Content-Type", "application/rss+xml")
	_, _ = io.WriteString(to, w.document())
}

// runLocal runs a command that needs no node, and returns its output.
func runLocal(t *testing.T, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	if err := command(context.Background(), args, strings.NewReader(""), &out, io.Discard); err != nil {
		t.Fatalf("tidings %s: %v", strings.Join(args, " "), err)
	}
	return out.String()
}

// waitForItem waits until a reader sees an item with a provenance, and returns how long that took.
func waitForItem(t *testing.T, address, name, provenance string, within time.Duration) time.Duration {
	t.Helper()
	began := time.Now()
	eventuallyEvery(t, 10*time.Millisecond, within, fmt.Sprintf("%s: %q by %s", address, name, provenance), func() error {
		f, _, err := readFeed(address)
		if err != nil {
			return err
		}
		for _, it := range f.Items {
			if bytes.Contains(it.Raw, []byte(">"+name+"</title>")) && bytes.Contains(it.Raw, []byte(":feed:1\">"+provenance)) {
				return nil
			}
		}
		return fmt.Errorf("there is %s", rawItems(f))
	})
	return time.Since(began)
}

func rawItems(f *feed.Feed) (of string) {
	for _, it := range f.Items {
		of += string(it.Raw) + "\n"
	}
	return of
}

// TestPublishers pushes items to readers at three other nodes: before and after the web server is gone, with the
// next key, with a stolen key, and after a key was lost.
func TestPublishers(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	blog := &publishedFeed{}
	server := httptest.NewServer(blog)
	t.Cleanup(server.Close)
	url := server.URL + "/feed.xml"
	keys := t.TempDir()
	key := filepath.Join(keys, "blog.key")
	runLocal(t, "keygen", key)
	stolen := filepath.Join(keys, "stolen.key")
	for _, suffix := range []string{"", ".next"} {
		if info, err := os.Stat(key + suffix); err != nil || info.Mode().Perm() != 0o600 {
			t.Fatalf("%v, %v", info, err)
		}
	}
	metadata := func(key string) string { return runLocal(t, "publish", "--key", key, "--metadata", url) }
	blog.says(metadata(key), "Headline")

	nodes := startNetwork(t, 5, "--network", "publishers", "--poll-interval", "30s", "--maintenance-interval", "20s", "--beat-interval", "20s")
	desk, readers := nodes[1], nodes[2:]
	var addresses []string
	for _, n := range readers {
		address := n.subscribe(url)
		waitForItem(t, address, "Headline", "witnessed ", timeout) // most of the five nodes have seen it
		addresses = append(addresses, address)
	}
	all := func(what, name, provenance string, within time.Duration) {
		t.Helper()
		for i, a := range addresses {
			took := waitForItem(t, a, name, provenance, within)
			t.Logf("%s: at reader %d another %.2f s after the publisher was told that it is held", what, i, took.Seconds())
		}
	}
	publish := func(key string, args ...string) error {
		t.Helper()
		began := time.Now()
		_, err := desk.runCommand(append([]string{"publish", "--key", key, url}, args...)...)
		t.Logf("publish %v: %.2f s, %v", args, time.Since(began).Seconds(), err)
		return err
	}
	if err := publish(key, "--title", "First", "--id", "first"); err != nil {
		t.Fatal(err)
	}
	all("pushed", "First", "publisher", latencyTarget)

	// The web server is gone. Pushed items still arrive.
	server.Close()
	if err := publish(key, "--title", "Second", "--id", "second"); err != nil {
		t.Fatal(err)
	}
	all("web server off", "Second", "publisher", latencyTarget)
	for _, n := range readers {
		if c := n.list()[url]; c.Provenance != "publisher" || c.Published != 2 || c.Publisher == "" {
			t.Errorf("%s lists %+v", n.http, c)
		}
	}

	// The largest item follows its envelope.
	noise := make([]byte, 3*(feed.MaxItem-200)/4)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(noise)
	large := filepath.Join(keys, "large.xml")
	text := "<item><guid>large</guid><title>Large</title><description>" + base64.StdEncoding.EncodeToString(noise) + "</description></item>"
	if err := os.WriteFile(large, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := publish(key, "--item", large); err != nil {
		t.Fatal(err)
	}
	all("large", "Large", "publisher", timeout)

	// The key is stolen and used. No node can know that. The thief has another record.
	for _, suffix := range []string{"", ".record", ".record.log"} {
		b, err := os.ReadFile(key + suffix)
		if err == nil {
			err = os.WriteFile(stolen+suffix, b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := publish(stolen, "--title", "Forged", "--id", "forged"); err != nil {
		t.Fatal(err)
	}
	all("stolen", "Forged", "publisher", latencyTarget)
	// The owner notices that with the next item, and rotates to the next key. The origin is still gone.
	if err := publish(key, "--title", "Third", "--id", "third"); err == nil || !strings.Contains(err.Error(), "somebody else has the key") {
		t.Errorf("somebody else has used the key: %v", err)
	}
	runLocal(t, "keygen", "--rotate", key)
	reopenServer(t, server, blog)
	blog.says(metadata(key))
	if err := publish(key, "--resume"); err != nil {
		t.Fatal(err)
	}
	if err := publish(stolen, "--title", "More", "--id", "more"); err == nil {
		t.Error("the stolen key is good for more")
	}
	if err := publish(key, "--title", "Third", "--id", "third"); err != nil {
		t.Fatal(err)
	}
	all("rotated", "Third", "publisher", latencyTarget)

	document := filepath.Join(keys, "feed.xml")
	write := func(metadata string) {
		blog.says(metadata, "Fifth")
		if err := os.WriteFile(document, []byte(blog.document()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(metadata(key))
	if err := publish(key, "--document", document); err != nil {
		t.Fatal(err)
	}

	// Both keys are lost. The origin names a new one, which the owners of the feed's log check themselves.
	lost := filepath.Join(keys, "new.key")
	fresh := strings.TrimSpace(runLocal(t, "keygen", lost))
	if err := publish(lost, "--title", "Fourth", "--id", "fourth"); err == nil || !strings.Contains(err.Error(), "to replace the key") {
		t.Errorf("a key that nobody has named: %v", err)
	}
	write(metadata(lost))
	eventually(t, timeout, "the origin's word on a lost key", func() error {
		return publish(lost, "--resume")
	})
	if out, err := desk.runCommand("publish", "--key", lost, "--document", document, url); err != nil || out != "Fifth\n" {
		t.Errorf("what the lost key has signed is signed again: %q, %v", out, err)
	}
	if err := publish(lost, "--title", "Fourth", "--id", "fourth"); err != nil {
		t.Fatal(err)
	}
	all("lost", "Fourth", "publisher", latencyTarget)
	all("lost", "Third", "revoked", latencyTarget)
	for _, n := range readers {
		if c := n.list()[url]; c.ClaimedKey != "" || c.Publisher != fresh || len(c.FormerKeys) != 2 || !strings.Contains(c.KeyChange, fresh) {
			t.Errorf("%s lists %+v", n.http, c)
		}
	}

	for i, a := range addresses {
		f, _, err := readFeed(a)
		if err != nil {
			t.Fatal(err)
		}
		if p, ok := f.Head.Publisher(); !ok || difference.Fingerprint(p.Key) != fresh {
			t.Errorf("reader %d is told of the publisher %+v, %v", i, p, ok)
		}
	}

	// An invalid item is rejected by the node to which it was given, and reported there. Items that were rejected
	// above and have been accepted since are no longer reported.
	_, err := desk.call(http.MethodPost, "publish", []byte(`{"envelope":"Z2FyYmFnZQ=="}`))
	var refused []proxy.RejectedItem
	for _, n := range nodes {
		refused = append(refused, n.status().RejectedItems...)
	}
	// The sequencer rejects and records the stolen key's item, if the publishing node had not yet learned of the
	// next key.
	refused = slices.DeleteFunc(refused, func(r proxy.RejectedItem) bool {
		return strings.Contains(r.Why, "another key has replaced this one")
	})
	if err == nil || len(refused) != 1 || !strings.Contains(refused[0].Why, "not a publication") {
		t.Errorf("%v; refused: %+v", err, refused)
	}
}

// reopenServer serves at the address of a server that was closed.
func reopenServer(t *testing.T, old *httptest.Server, h http.Handler) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	_ = s.Listener.Close()
	eventually(t, timeout, "the address of before to be free", func() (err error) {
		s.Listener, err = net.Listen("tcp", old.Listener.Addr().String())
		return err
	})
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// TestProgramsPublish lets a program on the node's machine publish after saving, and a watcher publish the new
// items of a document.
func TestProgramsPublish(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	blog := &publishedFeed{}
	server := httptest.NewServer(blog)
	t.Cleanup(server.Close)
	url := server.URL + "/feed.xml"
	key := filepath.Join(t.TempDir(), "blog.key")
	words := filepath.Join(t.TempDir(), "words")
	if err := os.WriteFile(words, []byte("correct horse\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	runLocal(t, "keygen", "--passphrase-file", words, key)
	blog.says(runLocal(t, "publish", "--key", key, "--passphrase-file", words, "--metadata", "--beat-interval", "4s", url))
	desk := startNode(t, "--allow-private-origins", "--network", "programs", "--publish-key", key, "--passphrase-file", words)
	reader := startNode(t, "--allow-private-origins", "--bootstrap", desk.peer)
	waitForMembers(t, []*nodeProcess{desk, reader})
	address := reader.subscribe(url)

	token, err := os.ReadFile(filepath.Join(desk.dir, "publish.token"))
	if err != nil {
		t.Fatal(err)
	}
	post := func(token string) (int, string) {
		t.Helper()
		body, err := json.Marshal(proxy.Draft{URL: url, ID: "saved", Title: "Saved", Content: "<p>All of it</p>"})
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.NewRequest(http.MethodPost, "http://"+desk.http+"/api/v1/publish", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Tidings", "1")
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+token)
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Body.Close()
		said, _ := io.ReadAll(a.Body)
		return a.StatusCode, string(said)
	}
	if status, said := post("guessed"); status != http.StatusUnauthorized {
		t.Errorf("without the token: %d %s", status, said)
	}
	if status, said := post(strings.TrimSpace(string(token))); status != http.StatusOK || !strings.Contains(said, `"seq":1`) {
		t.Fatalf("with the token: %d %s", status, said)
	}
	waitForItem(t, address, "Saved", "publisher", latencyTarget)
	// After two beat intervals of silence, all nodes consider the publisher gone.
	eventually(t, timeout, "the node to say that nothing is new", func() error {
		n, err := strconv.Atoi(desk.metric("tidings_feedtree_pushes_total"))
		if err == nil && n < 3 {
			err = fmt.Errorf("%d pushed", n)
		}
		return err
	})

	document := filepath.Join(t.TempDir(), "feed.xml")
	write := func(items ...string) {
		blog.says(blog.metadata, items...)
		if err := os.WriteFile(document, []byte(blog.document()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("One")
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- command(ctx, []string{"publish", "--http", desk.http, "--data", desk.dir, "--key", key, "--passphrase-file", words, "--document", document, "--watch", "--every", "1s", url}, strings.NewReader(""), io.Discard, io.Discard)
	}()
	waitForItem(t, address, "One", "publisher", timeout)
	write("Two", "One")
	took := waitForItem(t, address, "Two", "publisher", timeout)
	t.Logf("written into the watched document, at the reader %.2f s later (looked at once a second)", took.Seconds())
	stop()
	if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := reader.runCommand("subscribe", "--least", "publisher", url); err != nil {
		t.Fatal(err)
	}
	if c := reader.list()[url]; c.MinProvenance != "publisher" {
		t.Errorf("%+v", c)
	}
}
