package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// healthTime is the timeout of a healthcheck. The node itself gives up after five seconds and reports that.
const healthTime = 10 * time.Second

// maxHealthLine bounds how many bytes of the node's answer are read. Only its first line is shown.
const maxHealthLine = 4096

// A healthcheckCommand is "tidings healthcheck". Containers run it inside the image, which contains no other
// program that could ask the node. Its exit code is 0 or 1, because Docker reserves the others.
type healthcheckCommand struct {
	HTTP string `name:"http" default:"${http}" placeholder:"HOST:PORT" help:"Address of the node (${default})."`
}

// Run asks the node whether it is alive, and prints one line.
func (c *healthcheckCommand) Run(ctx context.Context, s streams) error {
	if c.HTTP == noHTTP {
		return fmt.Errorf("healthcheck: the node has no HTTP address, because the setting http is %q; give an address with --http or TIDINGS_HTTP", noHTTP)
	}
	if !isHostPort(c.HTTP) {
		return fmt.Errorf("--http %q is not an address; give HOST:PORT, such as %s", c.HTTP, defaultHTTP)
	}
	ctx, cancel := context.WithTimeout(ctx, healthTime)
	defer cancel()
	node, address := client{HTTP: c.HTTP}, localAddress(c.HTTP)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/healthz", nil)
	if err != nil {
		return fmt.Errorf("--http %q: %w", c.HTTP, err)
	}
	answer, err := node.exchange(ctx, r, nil)
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("the node at %s did not answer within %v; see its log, or restart it", address, healthTime)
	case err != nil:
		return err
	}
	defer answer.Body.Close()
	line, _, err := bufio.NewReader(io.LimitReader(answer.Body, maxHealthLine)).ReadLine()
	if err != nil && !errors.Is(err, io.EOF) {
		return node.noAnswerError(ctx, err)
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("the node at %s answered %s: %s", address, answer.Status, line)
	}
	_, err = fmt.Fprintf(s.out, "%s\n", line)
	return err
}
