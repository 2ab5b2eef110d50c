package main

import (
	"context"
	"encoding/json"
	"fmt"

	"tidings/proxy"
)

// A subscribeCommand is "tidings subscribe".
type subscribeCommand struct {
	client `embed:""`
	URLs   []string `arg:"" name:"url" help:"Addresses of feeds."`
}

// Run subscribes, and prints a line for each address: what to give to a reader.
func (c *subscribeCommand) Run(ctx context.Context, s streams) error {
	return all("subscribe to", c.URLs, func(address string) error {
		answer, err := c.tell(ctx, "subscribe", address)
		if err == nil {
			_, err = fmt.Fprintln(s.out, answer.ReadURL)
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
	return all("unsubscribe from", c.URLs, func(address string) error {
		answer, err := c.tell(ctx, "unsubscribe", address)
		if err == nil {
			_, err = fmt.Fprintln(s.out, answer.URL)
		}
		return err
	})
}

// tell says something about an address to the node.
func (c client) tell(ctx context.Context, what, address string) (proxy.Subscribed, error) {
	body, err := json.Marshal(proxy.Subscribed{URL: address})
	if err != nil {
		return proxy.Subscribed{}, err
	}
	raw, err := c.post(ctx, what, "application/json", body)
	if err != nil {
		return proxy.Subscribed{}, err
	}
	return read[proxy.Subscribed](c, raw)
}
