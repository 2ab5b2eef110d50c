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

// fetchTime is the timeout for fetching the publisher's own document.
const fetchTime = 20 * time.Second

// openDocument reads a publisher's document from a file, an address or standard input.
func (w *feedWriter) openDocument(ctx context.Context, name string) ([]byte, error) {
	switch {
	case name == "-":
		return readBounded(name, w.streams.in)
	case strings.HasPrefix(name, "http://") || strings.HasPrefix(name, "https://"):
		return fetchDocument(ctx, name)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read %w", plainFileError(err))
	}
	defer f.Close()
	return readBounded(name, f)
}

// fileName returns the name of a file for messages.
func fileName(file string) string {
	if file == "-" {
		return "standard input"
	}
	return file
}

// plainFileError removes the name of the system call from an error.
func plainFileError(err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Errorf("%s: %w", path.Path, path.Err)
	}
	return err
}

// readBounded reads at most as much as a document may contain.
func readBounded(name string, r io.Reader) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, feed.MaxDocument+1))
	if err == nil && len(b) > feed.MaxDocument {
		err = fmt.Errorf("larger than %d bytes", feed.MaxDocument)
	}
	if path, ok := errors.AsType[*fs.PathError](err); ok { // the wrapped error below names the file
		err = path.Err
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", fileName(name), err)
	}
	return b, nil
}

// fetchDocument fetches a document. The publisher chose the address, so it may be private.
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
		for cause := err; cause != nil; cause = errors.Unwrap(cause) { // the outer errors name system calls
			err = cause
		}
		return nil, fmt.Errorf("read %s: the web server does not answer (%w); check the address, and that the server runs", address, err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("read %s: the web server answered %s", address, answer.Status)
	}
	return readBounded(address, answer.Body)
}

// fetchFeed fetches and parses the feed's document at its origin.
func (w *feedWriter) fetchFeed(ctx context.Context) (*feed.Feed, error) {
	raw, err := fetchDocument(ctx, w.url)
	if err != nil {
		return nil, err
	}
	return feed.Parse(raw, "")
}

// publishDocument publishes the new items of a document, the oldest first.
func (w *feedWriter) publishDocument(ctx context.Context) error {
	raw, err := w.openDocument(ctx, w.Document)
	if err != nil {
		return err
	}
	n, skipped, err := w.publishNew(ctx, raw)
	if len(skipped) == 0 {
		if err == nil && n == 0 {
			w.printMessage(fmt.Sprintf("nothing new in %s; %s before", fileName(w.Document), proxy.Plural(w.publishedBefore, "item was published", "items were published")))
		}
		return err
	}
	reasons := make([]string, len(skipped))
	for i, item := range skipped {
		reasons[i] = item.reason
	}
	skippedErr := errors.New(skippedPrefix + strings.Join(reasons, "; "))
	if err != nil {
		return fmt.Errorf("%w; %w", err, skippedErr)
	}
	return skippedErr
}

// A skippedItem is a version of an item that cannot be signed, with the reason.
type skippedItem struct{ version, reason string }

const skippedPrefix = "not published, so readers get it by polling: "

// publishNew publishes the new items of a document. It returns how many it published, and which ones it skipped.
func (w *feedWriter) publishNew(ctx context.Context, raw []byte) (n int, skipped []skippedItem, err error) {
	f, err := feed.Parse(raw, "")
	if err != nil {
		return 0, nil, fmt.Errorf("%s: %w; give the document of the feed", fileName(w.Document), err)
	}
	if err := w.checkDocument(f); err != nil {
		return 0, nil, err
	}
	if f.Omitted != "" && f.Omitted != w.omitted {
		w.printMessage(fmt.Sprintf("readers do not get all of %s: %s", fileName(w.Document), f.Omitted))
	}
	w.omitted = f.Omitted
	p, err := w.fetchPublisher(ctx)
	if err == nil {
		err = w.checkAccepted(&p)
	}
	if err != nil {
		return 0, nil, err
	}
	signed := map[string]bool{}
	for _, it := range p.Items {
		signed[it] = !w.resignAll
	}
	w.resignAll, w.publishedBefore = false, 0
	if publisherInfo, ok := f.Head.Publisher(); ok && publisherInfo.Beat > 0 {
		w.BeatInterval = publisherInfo.Beat
	}
	for i := len(f.Items) - 1; i >= 0; i-- {
		it := &f.Items[i]
		version := it.ID.String() + it.Hash.String()
		if signed[version] {
			w.publishedBefore++
			continue
		}
		switch err := w.publish(ctx, it); {
		case errors.Is(err, difference.ErrItem):
			skipped = append(skipped, skippedItem{version, fmt.Sprintf("%s: %v", itemName(it), err)})
		case err != nil:
			return n, skipped, err
		default:
			n++
			if m, _ := it.Meaning(""); m.GUID == "" && m.Link == "" {
				w.printMessage(fmt.Sprintf("%s has no id (guid): if you change its title, readers see it twice", itemName(it)))
			}
		}
	}
	return n, skipped, nil
}

// itemName describes an item so that a person can find it in a document.
func itemName(it *feed.Item) string {
	m, _ := it.Meaning("") // as far as it can be parsed
	id := cmp.Or(m.GUID, m.Link)
	switch {
	case m.Title == "":
		return cmp.Or(id, it.ID.String())
	case id == "":
		return fmt.Sprintf("%q", m.Title)
	}
	return fmt.Sprintf("%q (%s)", m.Title, id)
}

// checkDocument rejects a document of another feed, because signed items cannot be withdrawn. A document may name
// its own address, the publisher's key and its site. It must name at least one of these, and all that it names must
// match.
func (w *feedWriter) checkDocument(f *feed.Feed) error {
	if address, err := feed.Canonical(w.Document); err == nil && address == w.url {
		return nil
	}
	ownKey, document := w.author.Public(), fileName(w.Document)
	named, ok := f.Head.Publisher()
	self := ""
	if f.Links.Self != "" {
		self, _ = feed.Resolve(w.url, f.Links.Self) // an invalid address does not count
	}
	switch {
	case self != "" && withoutScheme(self) != withoutScheme(w.url):
		return fmt.Errorf("%s is the document of another feed: its self link is %s, not %s; give the document of this feed, or correct the link", document, self, w.url)
	case ok && !bytes.Equal(named.Key, ownKey) && named.Next != difference.KeyHash(ownKey):
		return fmt.Errorf("%s names the key %s, but the key in %s is %s; give the document of this feed, or %s",
			document, difference.Fingerprint(named.Key), w.Key, difference.Fingerprint(ownKey), w.pasteHint())
	case self == "" && !ok && !sameSite(f.Head.Link, w.url):
		return fmt.Errorf("nothing in %s says that it is the document of %s: it has no self link, names no key, and does not link to that site; give the document of this feed, or %s", document, w.url, w.pasteHint())
	}
	return nil
}

// withoutScheme removes http or https, because many documents name the other one.
func withoutScheme(address string) string {
	_, rest, _ := strings.Cut(address, "://")
	return rest
}

// sameSite reports whether the hosts of two addresses are equal, or one is a subdomain of the other, as
// www.blog.example is one of blog.example.
func sameSite(a, b string) bool {
	first, err := url.Parse(a)
	second, err2 := url.Parse(b)
	if err != nil || err2 != nil || first.Hostname() == "" {
		return false
	}
	hostA, hostB := strings.ToLower(first.Hostname()), second.Hostname()
	return hostA == hostB || strings.HasSuffix(hostA, "."+hostB) || strings.HasSuffix(hostB, "."+hostA)
}

// A watcher publishes the new items of a document repeatedly.
type watcher struct {
	*feedWriter
	published     []byte          // the document when it was last published
	lastSigned    time.Time       // when something was last signed
	reportedSkips map[string]bool // versions of items that were reported as not published
	nodeStarted   time.Time       // when the node started, computed from its last answer
}

// startSlack is how much later than before a node may seem to have started without having restarted. It allows for
// the time that an answer takes.
const startSlack = time.Second

// watch publishes the new items of a document until ctx ends. An error does not end it, because the next check may
// succeed. An error is reported once, and so is the first successful check after it.
func (w *feedWriter) watch(ctx context.Context) error {
	if w.Document == "-" {
		return usagef("--watch needs a file or an address, not standard input")
	}
	if w.Every = cmp.Or(w.Every, 10*time.Second); w.Every < time.Second {
		return usagef("--every: give at least 1s")
	}
	watch := &watcher{feedWriter: w, reportedSkips: map[string]bool{}}
	failing := "" // the error of the last check
	ticker := time.NewTicker(w.Every)
	defer ticker.Stop()
	for {
		restarted, err := watch.check(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, publisher.ErrBehind) || errors.Is(err, errOtherKey):
			return err
		case err != nil && err.Error() != failing:
			failing = err.Error()
			w.printMessage(fmt.Sprintf("%s (publishing waits; the next check is in %v)", failing, w.checkDelay(err)))
		case err == nil && (failing != "" || restarted):
			message := "the node takes items again"
			if strings.HasPrefix(failing, "read ") {
				message = w.Document + " can be read again"
			}
			if restarted {
				message = "the node at " + localAddress(w.HTTP) + " has started again"
			}
			w.printMessage(message + ", and publishing goes on")
			failing = ""
		}
		next := ticker.C
		if delay := w.checkDelay(err); delay > w.Every {
			next = time.After(delay)
		}
		select {
		case <-next:
		case <-ctx.Done():
			return nil
		}
	}
}

// checkDelay is the time to the next check. It is longer while the document does not name the key, because the node
// then asks the web server at each check.
func (w *feedWriter) checkDelay(err error) time.Duration {
	if errors.Is(err, errKeyNotNamed) {
		return max(unnamedCheckDelay, w.Every)
	}
	return w.Every
}

// check publishes new items, or signs that there are none. It asks for the node's status even if there is nothing
// to send, so that the publisher learns that a node has stopped. restarted reports that the node has restarted
// since the last check.
func (w *watcher) check(ctx context.Context) (restarted bool, err error) {
	_, status, err := getAnswer[proxy.Status](ctx, w.client, "status")
	if err != nil {
		return false, err
	}
	started := time.Now().Add(-time.Duration(status.UptimeS * float64(time.Second)))
	restarted = !w.nodeStarted.IsZero() && started.Sub(w.nodeStarted) > startSlack
	w.nodeStarted = started
	raw, err := w.openDocument(ctx, w.Document)
	if err != nil {
		return restarted, err
	}
	if !bytes.Equal(raw, w.published) {
		n, skipped, err := w.publishNew(ctx, raw)
		if n > 0 {
			w.lastSigned = time.Now()
		}
		for _, item := range skipped {
			if !w.reportedSkips[item.version] {
				w.reportedSkips[item.version] = true
				w.printMessage(skippedPrefix + item.reason)
			}
		}
		if err != nil {
			return restarted, err
		}
		w.published = raw
	}
	if time.Since(w.lastSigned) <= w.BeatInterval*3/4 {
		return restarted, nil
	}
	if err = w.signAlive(ctx); err == nil {
		w.lastSigned = time.Now()
	}
	return restarted, err
}

// unnamedCheckDelay is the minimum time that the publisher gets to paste the metadata.
const unnamedCheckDelay = time.Minute

// printMessage prints a message while the command continues.
func (w *feedWriter) printMessage(text string) {
	_, _ = fmt.Fprintln(w.streams.err, "tidings:", oneLine(text)) // a failure to print cannot be reported
}
