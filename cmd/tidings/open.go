package main

import (
	"context"
	"fmt"

	"tidings/proxy"
)

// An openCommand is "tidings open". It does not start a browser, because the address would then be among the
// arguments of a process, which every user of the machine can read.
type openCommand struct {
	client `embed:""`
}

// Run prints the address.
func (c *openCommand) Run(ctx context.Context, s streams) error {
	answer, err := call[proxy.OpenResponse](ctx, c.client, "open", nil)
	if err == nil {
		_, err = fmt.Fprintln(s.out, answer.URL)
	}
	return err
}
