package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"

	"tidings/proxy"
)

// A subscribeCommand is "tidings subscribe".
type subscribeCommand struct {
	client `embed:""`
	Least  string   `placeholder:"WHO" help:"Show only items signed by the publisher (publisher), or all items (any, the default)."`
	Tag    []string `placeholder:"NAME" help:"A tag for the feeds, in place of the tags that they have. May be repeated. --tag= removes the tags."`
	URLs   []string `arg:"" name:"url" help:"Addresses of feeds, or of pages that advertise a feed. page+https://… follows changes of the page itself."`
}

// Validate checks --least. An enum of kong would list "" as one of the values.
func (c *subscribeCommand) Validate() error {
	switch c.Least {
	case "", proxy.ProvenancePublisher, proxy.ProvenanceAny:
		return nil
	}
	return fmt.Errorf("--least must be %s or %s, not %q", proxy.ProvenancePublisher, proxy.ProvenanceAny, c.Least)
}

// Run subscribes, and prints for each address the address to give to a feed reader.
func (c *subscribeCommand) Run(ctx context.Context, s streams) error {
	return forEachAddress("subscribe to", c.URLs, func(address string) error {
		if isFile(address) {
			return nodeError{message: address + ": a file on this machine, not an address; \"tidings opml import\" subscribes to the feeds of an OPML file"}
		}
		answer, err := call[proxy.SubscribeMessage](ctx, c.client, "subscribe", proxy.SubscribeMessage{URL: address, MinProvenance: c.Least, Tags: c.Tag})
		if err == nil {
			_, err = fmt.Fprintln(s.out, answer.ReadURL)
		}
		if err == nil && answer.Advertised && terminalOf(s.out).width > 0 {
			_, err = fmt.Fprintf(s.out, "This is the feed %s, which the page advertises.\n", answer.URL)
		}
		if err == nil && c.Least == proxy.ProvenancePublisher {
			_, err = fmt.Fprintf(s.err, "Your reader gets only items that the publisher has signed. For all items: tidings subscribe --least any %s\n", proxy.ShellWord(answer.URL))
		}
		if err == nil && answer.Warning != "" {
			done := "Subscribed"
			if answer.Already {
				done = "Already subscribed"
			}
			_, err = fmt.Fprintf(s.err, "%s, but %s cannot be read yet: %s\n", done, answer.URL, oneLine(answer.Warning))
		}
		return err
	})
}

// isFile reports whether an address without a scheme is the name of a file on this machine.
func isFile(address string) bool {
	if strings.Contains(address, "://") {
		return false
	}
	info, err := os.Stat(address)
	return err == nil && info.Mode().IsRegular()
}

// An unsubscribeCommand is "tidings unsubscribe".
type unsubscribeCommand struct {
	client `embed:""`
	URLs   []string `arg:"" name:"url" help:"Addresses of feeds: the original ones, or those that the node gave to a reader."`
}

// Run ends subscriptions, and prints the address of each feed.
func (c *unsubscribeCommand) Run(ctx context.Context, s streams) error {
	ended := 0
	err := forEachAddress("unsubscribe from", c.URLs, func(address string) error {
		answer, err := call[proxy.SubscribeMessage](ctx, c.client, "unsubscribe", proxy.SubscribeMessage{URL: address})
		if r, ok := errors.AsType[nodeError](err); ok && r.status == http.StatusNotFound {
			err = nodeError{r.message + "; \"tidings list\" shows yours", r.status}
		}
		if err == nil {
			ended++
			_, err = fmt.Fprintln(s.out, answer.URL)
		}
		return err
	})
	if ended > 0 && terminalOf(s.out).width > 0 {
		_, told := fmt.Fprintln(s.out, "Only tidings subscribe or an import brings the subscription back, not a reader that still reads the address.")
		err = errors.Join(err, told)
	}
	return err
}
