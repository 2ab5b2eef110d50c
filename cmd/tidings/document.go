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
	"os"
	"strings"
	"time"

	"tidings/difference"
	"tidings/internal/feed"
	"tidings/internal/publisher"
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
		return nil, err
	}
	defer f.Close()
	return bounded(name, f)
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
		return nil, fmt.Errorf("read %s: %w", name, err)
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
		return nil, err
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
	_, left, err := w.news(ctx, raw)
	if len(left) == 0 {
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
		return 0, nil, fmt.Errorf("%s: %w", w.Document, err)
	}
	p, err := w.known(ctx)
	if err != nil {
		return 0, nil, err
	}
	signed := map[string]bool{}
	for _, it := range p.Items {
		signed[it] = true
	}
	for i := len(f.Items) - 1; i >= 0; i-- {
		it := &f.Items[i]
		version := it.ID.String() + it.Hash.String()
		if signed[version] {
			continue
		}
		switch err := w.publish(ctx, it); {
		case errors.Is(err, difference.ErrItem):
			left = append(left, leftover{version, fmt.Sprintf("%s: %v", called(it), err)})
		case err != nil:
			return n, left, err
		default:
			n++
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

// watch publishes what is new in a document, again and again. What goes wrong may be right the next
// time.
func (w *writer) watch(ctx context.Context) error {
	if w.Document == "-" {
		return usagef("--watch needs a file or an address, not standard input")
	}
	if w.Every < time.Second || w.BeatInterval < time.Second {
		return usagef("--every and --beat-interval: give at least 1s")
	}
	var seen []byte
	var spoke time.Time
	told := map[string]bool{} // what was left
	look := time.NewTicker(w.Every)
	defer look.Stop()
	for {
		raw, err := w.open(ctx, w.Document)
		if err == nil && !bytes.Equal(raw, seen) {
			var n int
			var left []leftover
			if n, left, err = w.news(ctx, raw); err == nil {
				seen = raw
			}
			if n > 0 {
				spoke = time.Now()
			}
			for _, l := range left {
				if !told[l.version] {
					told[l.version] = true
					w.tell(leftWords + l.words)
				}
			}
		}
		if err == nil && time.Since(spoke) > w.BeatInterval*3/4 {
			if err = w.alive(ctx); err == nil {
				spoke = time.Now()
			}
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, publisher.ErrBehind) || errors.Is(err, errOtherKey):
			return err
		case err != nil:
			w.tell(err.Error())
		}
		next := look.C
		if errors.Is(err, errUnnamed) { // the node asks the origin each time
			next = time.After(max(unnamedRest, w.Every))
		}
		select {
		case <-next:
		case <-ctx.Done():
			return nil
		}
	}
}

// unnamedRest is waited at least for the metadata to be pasted.
const unnamedRest = time.Minute

// tell says something while the command goes on.
func (w *writer) tell(words string) {
	_, _ = fmt.Fprintln(w.s.err, "tidings:", oneLine(words)) // there is nobody else to tell
}
