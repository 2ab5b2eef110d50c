package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"tidings/internal/feed"
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
		err = fmt.Errorf("more than %d bytes", feed.MaxDocument)
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
		return nil, fmt.Errorf("read %s: the origin answered %s", address, answer.Status)
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
