package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"runtime"
	"slices"
	"strings"

	"tidings/internal/feed"
	"tidings/proxy"
)

// A subscribeCommand is "tidings subscribe".
type subscribeCommand struct {
	client      `embed:""`
	Least       string   `placeholder:"WHO" help:"Show only items signed by the publisher (publisher), only these and items that several nodes have found at the web server (witnessed), or all items (any, the default)."`
	Private     bool     `help:"Let only this node poll the feeds, and tell no other node their addresses. An address with a user name and a password (https://USER:PASSWORD@…) is private without this flag."`
	QuietFollow bool     `help:"Follow the feeds through two other members of the network each, so that no member knows both this node and the feed. Items come a little later, and cost more traffic. The web servers see one request from this node now."`
	HeaderFile  string   `placeholder:"FILE" help:"Send the headers in this file (lines like Authorization: … or Cookie: …) with each poll. The feeds are private. Other users must not be able to read the file."`
	Tag         []string `placeholder:"NAME" help:"A tag for the feeds, in place of the tags that they have. May be repeated. --tag= removes the tags."`
	URLs        []string `arg:"" name:"url" help:"Addresses of feeds, or of pages that advertise a feed. page+https://… follows changes of the page itself, and page+https://…#select=CSS those of some elements."`
}

// Validate checks --least, and flags that exclude each other. An enum of kong would list "" as one of the values of --least.
func (c *subscribeCommand) Validate() error {
	if !proxy.IsMinProvenance(c.Least) {
		return fmt.Errorf("--least must be %s, not %q", proxy.MinProvenances, c.Least)
	}
	private := c.HeaderFile != "" || c.Private || slices.ContainsFunc(c.URLs, func(u string) bool { return proxy.WithoutPassword(u) != u })
	switch {
	case private && c.QuietFollow:
		return errors.New("--quiet-follow: no other node knows a private feed anyway; leave the flag out")
	case private && c.Least != "" && c.Least != proxy.ProvenanceAny:
		return errors.New("--least: items of a private feed are not signed, and no other node sees them; leave the flag out")
	}
	return nil
}

// Run subscribes, and prints for each address the address to give to a feed reader.
func (c *subscribeCommand) Run(ctx context.Context, s streams) error {
	headers, err := readHeaderFile(c.HeaderFile)
	if err != nil {
		return err
	}
	return forEachAddress("subscribe to", c.URLs, c.shown, func(address string) error {
		if isFile(address) {
			return nodeError{message: address + ": a file on this machine, not an address; \"tidings opml import\" subscribes to the feeds of an OPML file"}
		}
		answer, err := call[proxy.SubscribeMessage](ctx, c.client, "subscribe", proxy.SubscribeMessage{URL: address, MinProvenance: c.Least, Tags: c.Tag, Private: c.Private, QuietFollow: c.QuietFollow, Headers: headers})
		if err == nil {
			_, err = fmt.Fprintln(s.out, answer.ReadURL)
		}
		if err == nil && len(answer.Counts) > 0 {
			_, err = fmt.Fprintln(s.err, "This counts on the page now:")
		}
		for _, line := range answer.Counts {
			if err == nil {
				_, err = fmt.Fprintln(s.err, "  "+oneLine(line))
			}
		}
		if dropped := droppedParameters(address, answer.URL); err == nil && dropped != "" {
			_, err = fmt.Fprintf(s.err, "The whole page counts: what counts can be named by select, omit, only and number, and #%s has none of them.\n", oneLine(dropped))
		}
		if err == nil && answer.Advertised && terminalOf(s.out).width > 0 {
			_, err = fmt.Fprintf(s.out, "This is the feed %s, which the page advertises.\n", answer.URL)
		}
		if err == nil && answer.Private && terminalOf(s.out).width > 0 {
			_, err = fmt.Fprintf(s.out, "This is the private feed %s: only this node polls it. Whoever has the address above can read it.\n", answer.URL)
		}
		if what := minProvenanceText(c.Least); err == nil && what != "" {
			_, err = fmt.Fprintf(s.err, "Your reader gets only items that %s. For all items: tidings subscribe --least any %s\n", what, proxy.ShellWord(answer.URL))
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

// droppedParameters returns what stands behind # in the address of a page, if it looks like parameters that say what
// counts, and none of it does.
func droppedParameters(address, subscribed string) string {
	_, isPage := feed.DocumentURL(address)
	_, fragment, _ := strings.Cut(address, "#")
	if !isPage || strings.Contains(subscribed, "#") || !strings.Contains(fragment, "=") {
		return ""
	}
	return fragment
}

// shown returns an address as errors name it. That of a private feed may have its secret anywhere behind the host.
func (c *subscribeCommand) shown(address string) string {
	if u, err := url.Parse(address); err == nil && u.Host != "" && (c.Private || c.HeaderFile != "" || u.User != nil) {
		return u.Host
	}
	return proxy.WithoutPassword(address)
}

// maxHeaderFile bounds a file of headers, in bytes. The node accepts 8 KiB of headers.
const maxHeaderFile = 64 << 10

// readHeaderFile reads headers from a file that only its owner can read. Its errors do not repeat values.
func readHeaderFile(path string) (map[string]string, error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, unreadableError(path, err)
	}
	defer func() { _ = f.Close() }() // nothing was written
	info, err := f.Stat()
	if err != nil {
		return nil, unreadableError(path, err)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 && info.Mode().IsRegular() && runtime.GOOS != "windows" {
		return nil, fmt.Errorf("header file %s: other users may read it (mode %04o), and what it says is secret: run chmod 600 %s", path, mode, proxy.ShellWord(path))
	}
	b, err := io.ReadAll(io.LimitReader(f, maxHeaderFile+1))
	if err != nil {
		return nil, unreadableError(path, err)
	}
	if len(b) > maxHeaderFile {
		return nil, fmt.Errorf("header file %s: it has more than %d KiB, and no web server takes so many headers", path, maxHeaderFile>>10)
	}
	headers, n := map[string]string{}, 0
	for line := range strings.Lines(string(b)) {
		n++
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		if name = strings.TrimSpace(name); !ok || name == "" {
			return nil, fmt.Errorf("header file %s: line %d is not a header: write Name: value", path, n)
		}
		name = http.CanonicalHeaderKey(name)
		if _, twice := headers[name]; twice {
			return nil, fmt.Errorf("header file %s: line %d gives %s a second time: give one value", path, n, name)
		}
		headers[name] = strings.TrimSpace(value)
	}
	if len(headers) == 0 {
		return nil, fmt.Errorf("header file %s: it has no header: write lines like Authorization: Bearer …", path)
	}
	return headers, nil
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
	URLs   []string `arg:"" name:"url" help:"Addresses of feeds: the original ones, or those that the node gave to a reader. Names of private feeds, as tidings list shows them."`
}

// Run ends subscriptions, and prints the address of each feed.
func (c *unsubscribeCommand) Run(ctx context.Context, s streams) error {
	ended := 0
	err := forEachAddress("unsubscribe from", c.URLs, proxy.WithoutPassword, func(address string) error {
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

// minProvenanceText says which items a minimum provenance lets through; "" if all.
func minProvenanceText(least string) string {
	switch least {
	case proxy.ProvenancePublisher:
		return "the publisher has signed"
	case proxy.ProvenanceWitnessed:
		return "the publisher has signed or several nodes have found at the web server"
	}
	return ""
}
