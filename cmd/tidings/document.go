package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"tidings/difference"
	"tidings/internal/feed"
	"tidings/internal/publisher"
	"tidings/proxy"
)

// fetchTime is how long an origin may take for the publisher's own document.
const fetchTime = 20 * time.Second

// open reads a publisher's document: a file, what is at an address, or standard input.
func (w *writer) open(ctx context.Context, name string) ([]byte, error) {
	switch {
	case name == "-":
		return bounded(name, w.s.in)
	case strings.HasPrefix(name, "http://") || strings.HasPrefix(name, "https://"):
		return fetchDocument(ctx, name)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read %w", plainly(err))
	}
	defer f.Close()
	return bounded(name, f)
}

// fileName is a file in words.
func fileName(file string) string {
	if file == "-" {
		return "standard input"
	}
	return file
}

// plainly is an error without the name of the system call.
func plainly(err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Errorf("%s: %w", path.Path, path.Err)
	}
	return err
}

// bounded reads as much as a document may have.
func bounded(name string, r io.Reader) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, feed.MaxDocument+1))
	if err == nil && len(b) > feed.MaxDocument {
		err = fmt.Errorf("larger than %d bytes", feed.MaxDocument)
	}
	if path, ok := errors.AsType[*fs.PathError](err); ok { // it says the same
		err = path.Err
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", fileName(name), err)
	}
	return b, nil
}

// fetchDocument asks an address of the publisher's own choice, which is why it may be a private one.
func fetchDocument(ctx context.Context, address string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("User-Agent", "tidings-publish/"+release().Version)
	answer, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
	if err != nil {
		for cause := err; cause != nil; cause = errors.Unwrap(cause) { // those around it name calls of the system
			err = cause
		}
		return nil, fmt.Errorf("read %s: the web server does not answer (%w); check the address, and that the server runs", address, err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("read %s: the web server answered %s", address, answer.Status)
	}
	return bounded(address, answer.Body)
}

// fetchFeed is the feed's document as it is at its origin.
func (w *writer) fetchFeed(ctx context.Context) (*feed.Feed, error) {
	raw, err := fetchDocument(ctx, w.url)
	if err != nil {
		return nil, err
	}
	return feed.Parse(raw, "")
}

// document publishes what is new in a document, the oldest first.
func (w *writer) document(ctx context.Context) error {
	raw, err := w.open(ctx, w.Document)
	if err != nil {
		return err
	}
	n, left, err := w.news(ctx, raw)
	if len(left) == 0 {
		if err == nil && n == 0 {
			w.tell(fmt.Sprintf("nothing new in %s; %s before", fileName(w.Document), proxy.Plural(w.before, "item was published", "items were published")))
		}
		return err
	}
	words := make([]string, len(left))
	for i, l := range left {
		words[i] = l.words
	}
	rest := errors.New(leftWords + strings.Join(words, "; "))
	if err != nil {
		return fmt.Errorf("%w; %w", err, rest)
	}
	return rest
}

// A leftover is a version of an item that cannot be signed, and why, in words.
type leftover struct{ version, words string }

const leftWords = "not published, so readers get it by polling: "

// news publishes what is new in a document, and says how many items that were, and what of it it has
// left.
func (w *writer) news(ctx context.Context, raw []byte) (n int, left []leftover, err error) {
	f, err := feed.Parse(raw, "")
	if err != nil {
		return 0, nil, fmt.Errorf("%s: %w; give the document of the feed", fileName(w.Document), err)
	}
	if err := w.fits(f); err != nil {
		return 0, nil, err
	}
	p, err := w.known(ctx)
	if err == nil {
		err = w.taken(&p)
	}
	if err != nil {
		return 0, nil, err
	}
	signed := map[string]bool{}
	for _, it := range p.Items {
		signed[it] = !w.anew
	}
	w.anew, w.before = false, 0
	if said, ok := f.Head.Publisher(); ok && said.Beat > 0 {
		w.BeatInterval = said.Beat
	}
	for i := len(f.Items) - 1; i >= 0; i-- {
		it := &f.Items[i]
		version := it.ID.String() + it.Hash.String()
		if signed[version] {
			w.before++
			continue
		}
		switch err := w.publish(ctx, it); {
		case errors.Is(err, difference.ErrItem):
			left = append(left, leftover{version, fmt.Sprintf("%s: %v", called(it), err)})
		case err != nil:
			return n, left, err
		default:
			n++
			if m, _ := it.Meaning(""); m.GUID == "" && m.Link == "" {
				w.tell(fmt.Sprintf("%s has no id (guid): if you change its title, readers see it twice", called(it)))
			}
		}
	}
	return n, left, nil
}

// called is how a person finds an item in a document.
func called(it *feed.Item) string {
	m, _ := it.Meaning("") // as far as it can be read
	id := cmp.Or(m.GUID, m.Link)
	switch {
	case m.Title == "":
		return cmp.Or(id, it.ID.String())
	case id == "":
		return fmt.Sprintf("%q", m.Title)
	}
	return fmt.Sprintf("%q (%s)", m.Title, id)
}

// fits refuses a document that is not the feed's: whatever is signed stays in the feed. A document may name its own
// address, the publisher's key, and its site. What it names has to be right, and it has to name at least one of them.
func (w *writer) fits(f *feed.Feed) error {
	if address, err := feed.Canonical(w.Document); err == nil && address == w.url {
		return nil
	}
	own, document := w.author.Public(), fileName(w.Document)
	said, ok := f.Head.Publisher()
	self := ""
	if f.Links.Self != "" {
		self, _ = feed.Resolve(w.url, f.Links.Self) // one that cannot be read says nothing
	}
	switch {
	case self != "" && schemeless(self) != schemeless(w.url):
		return fmt.Errorf("%s is the document of another feed: its self link is %s, not %s; give the document of this feed, or correct the link", document, self, w.url)
	case ok && !bytes.Equal(said.Key, own) && said.Next != difference.KeyHash(own):
		return fmt.Errorf("%s names the key %s, but the key in %s is %s; give the document of this feed, or %s",
			document, difference.Fingerprint(said.Key), w.Key, difference.Fingerprint(own), w.paste())
	case self == "" && !ok && !sameSite(f.Head.Link, w.url):
		return fmt.Errorf("nothing in %s says that it is the document of %s: it has no self link, names no key, and does not link to that site; give the document of this feed, or %s", document, w.url, w.paste())
	}
	return nil
}

// schemeless is an address without http or https: many documents name the other one.
func schemeless(address string) string {
	_, rest, _ := strings.Cut(address, "://")
	return rest
}

// sameSite reports whether the hosts of two addresses are the same, or one is below the other, as www.blog.example is below
// blog.example.
func sameSite(a, b string) bool {
	of, err := url.Parse(a)
	with, other := url.Parse(b)
	if err != nil || other != nil || of.Hostname() == "" {
		return false
	}
	one, two := strings.ToLower(of.Hostname()), with.Hostname()
	return one == two || strings.HasSuffix(one, "."+two) || strings.HasSuffix(two, "."+one)
}

// A watcher publishes what is new in a document, again and again.
type watcher struct {
	*writer
	seen    []byte          // the document, when it was published last
	spoke   time.Time       // when something was signed last
	left    map[string]bool // versions of items that were named as not published
	started time.Time       // when the node started, as of its last answer
}

// startSlack is how much later than before a node may seem to have started, although it did not start again. It allows for
// the time that an answer takes.
const startSlack = time.Second

// watch publishes what is new in a document until ctx ends. An error does not end it, because the next check may
// succeed. It is told once, and so is the first check after it that succeeds.
func (w *writer) watch(ctx context.Context) error {
	if w.Document == "-" {
		return usagef("--watch needs a file or an address, not standard input")
	}
	if w.Every = cmp.Or(w.Every, 10*time.Second); w.Every < time.Second {
		return usagef("--every: give at least 1s")
	}
	watch := &watcher{writer: w, left: map[string]bool{}}
	failing := "" // the error of the last check
	look := time.NewTicker(w.Every)
	defer look.Stop()
	for {
		restarted, err := watch.check(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, publisher.ErrBehind) || errors.Is(err, errOtherKey):
			return err
		case err != nil && err.Error() != failing:
			failing = err.Error()
			w.tell(fmt.Sprintf("%s (publishing waits; the next check is in %v)", failing, w.rest(err)))
		case err == nil && (failing != "" || restarted):
			what := "the node takes items again"
			if strings.HasPrefix(failing, "read ") {
				what = w.Document + " can be read again"
			}
			if restarted {
				what = "the node at " + reachable(w.HTTP) + " has started again"
			}
			w.tell(what + ", and publishing goes on")
			failing = ""
		}
		next := look.C
		if rest := w.rest(err); rest > w.Every {
			next = time.After(rest)
		}
		select {
		case <-next:
		case <-ctx.Done():
			return nil
		}
	}
}

// rest is the time to the next check. A node asks the web server each time as long as the document names no key.
func (w *writer) rest(err error) time.Duration {
	if errors.Is(err, errUnnamed) {
		return max(unnamedRest, w.Every)
	}
	return w.Every
}

// check publishes what is new, or signs that nothing is. It asks the node for its status even if there is nothing to
// send, so that the publisher hears of a node that has stopped. restarted says that the node did so since the last check.
func (w *watcher) check(ctx context.Context) (restarted bool, err error) {
	_, status, err := ask[proxy.Status](ctx, w.client, "status")
	if err != nil {
		return false, err
	}
	started := time.Now().Add(-time.Duration(status.UptimeS * float64(time.Second)))
	restarted = !w.started.IsZero() && started.Sub(w.started) > startSlack
	w.started = started
	raw, err := w.open(ctx, w.Document)
	if err != nil {
		return restarted, err
	}
	if !bytes.Equal(raw, w.seen) {
		n, left, err := w.news(ctx, raw)
		if n > 0 {
			w.spoke = time.Now()
		}
		for _, l := range left {
			if !w.left[l.version] {
				w.left[l.version] = true
				w.tell(leftWords + l.words)
			}
		}
		if err != nil {
			return restarted, err
		}
		w.seen = raw
	}
	if time.Since(w.spoke) <= w.BeatInterval*3/4 {
		return restarted, nil
	}
	if err = w.alive(ctx); err == nil {
		w.spoke = time.Now()
	}
	return restarted, err
}

// unnamedRest is waited at least for the metadata to be pasted.
const unnamedRest = time.Minute

// tell says something while the command goes on.
func (w *writer) tell(words string) {
	_, _ = fmt.Fprintln(w.s.err, "tidings:", oneLine(words)) // there is nobody else to tell
}
