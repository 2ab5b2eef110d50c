package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"tidings/proxy"
)

// A subscribeCommand is "tidings subscribe".
type subscribeCommand struct {
	client `embed:""`
	Least  string   `placeholder:"WHO" help:"Show only items for which something vouches: publisher, its signature; any, whatever it is (usual)."`
	Tag    []string `placeholder:"NAME" help:"A tag for the feeds, in place of the tags that they have. May be repeated."`
	URLs   []string `arg:"" name:"url" help:"Addresses of feeds, or of pages: their feed if they advertise one; page+https://… follows a page itself."`
}

// Validate says no to a least that there is none of. (An enum of kong's would name "" as one.)
func (c *subscribeCommand) Validate() error {
	switch c.Least {
	case "", proxy.LeastPublisher, proxy.LeastAny:
		return nil
	}
	return fmt.Errorf("--least is %s or %s, not %q: an item that is not signed is single, the word of one who has found it, and %[2]s asks for no more", proxy.LeastPublisher, proxy.LeastAny, c.Least)
}

// Run subscribes, and prints a line for each address: what to give to a reader.
func (c *subscribeCommand) Run(ctx context.Context, s streams) error {
	return all("subscribe to", c.URLs, func(address string) error {
		answer, err := c.question(ctx, "subscribe", proxy.Subscribed{URL: address, Least: c.Least, Tags: c.Tag})
		if err == nil {
			_, err = fmt.Fprintln(s.out, answer.ReadURL)
		}
		if err == nil && answer.Advertised && terminalOf(s.out).width > 0 {
			_, err = fmt.Fprintf(s.out, "That is the feed %s, which the page advertises.\n", answer.URL)
		}
		if err == nil && answer.Doubt != "" {
			_, err = fmt.Fprintf(s.err, "Subscribed, but %s cannot be read yet: %s\n", answer.URL, oneLine(answer.Doubt))
		}
		return err
	})
}

// An unsubscribeCommand is "tidings unsubscribe".
type unsubscribeCommand struct {
	client `embed:""`
	URLs   []string `arg:"" name:"url" help:"Addresses of feeds: those of their origins, or those given to a reader."`
}

// Run ends subscriptions, and prints a line for each: the feed's address.
func (c *unsubscribeCommand) Run(ctx context.Context, s streams) error {
	ended := 0
	err := all("unsubscribe from", c.URLs, func(address string) error {
		answer, err := c.tell(ctx, "unsubscribe", address)
		if err == nil {
			ended++
			_, err = fmt.Fprintln(s.out, answer.URL)
		}
		return err
	})
	if ended > 0 && terminalOf(s.out).width > 0 {
		_, told := fmt.Fprintln(s.out, "A reader that goes on reading does not bring this back; tidings subscribe does.")
		err = errors.Join(err, told)
	}
	return err
}

// tell says something about an address to the node.
func (c client) tell(ctx context.Context, what, address string) (proxy.Subscribed, error) {
	return c.question(ctx, what, proxy.Subscribed{URL: address})
}

func (c client) question(ctx context.Context, what string, q proxy.Subscribed) (proxy.Subscribed, error) {
	body, err := json.Marshal(q)
	if err != nil {
		return proxy.Subscribed{}, err
	}
	raw, err := c.post(ctx, what, "application/json", body)
	if err != nil {
		return proxy.Subscribed{}, err
	}
	return read[proxy.Subscribed](c, raw)
}
