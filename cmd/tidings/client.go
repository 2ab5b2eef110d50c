package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"
	"unicode"

	"tidings/feedtree"
	"tidings/internal/daemon"
	"tidings/proxy"
)

const (
	defaultHTTP = "127.0.0.1:8190"
	noHTTP      = "none"

	// patience is how long a node may take to answer: it waits for its disk, and
	// a list that is imported for thousands of times that. At the end the call
	// has failed, whatever the node still does.
	patience = 2 * time.Minute
	// maxAnswer is the longest answer that is read. The largest there is, a list
	// of 10,000 subscriptions, has about 8 MB.
	maxAnswer = 64 << 20
)

// A client names the node that a command talks to.
type client struct {
	HTTP string `name:"http" default:"${http}" placeholder:"HOST:PORT" help:"Address of the node (${default})."`
	Data string `placeholder:"DIR" help:"Data directory of the node, which contains its token. Not needed for a node of the same user on this machine."`
}

// get asks the node a question; path says which, with its query.
func (c client) get(ctx context.Context, path string) ([]byte, error) {
	return c.do(ctx, http.MethodGet, path, "", nil)
}

// post tells the node something.
func (c client) post(ctx context.Context, path, mediaType string, body []byte) ([]byte, error) {
	return c.do(ctx, http.MethodPost, path, mediaType, body)
}

func (c client) do(ctx context.Context, method, path, mediaType string, body []byte) ([]byte, error) {
	c.HTTP = strings.TrimSuffix(strings.TrimPrefix(c.HTTP, "http://"), "/") // as run prints it, and browsers have it
	if c.HTTP == noHTTP {
		return nil, usagef("the setting http is %q: give the address of the node with --http", noHTTP)
	}
	if !isHostPort(c.HTTP) {
		return nil, usagef("--http %q is not an address: give HOST:PORT, such as %s", c.HTTP, defaultHTTP)
	}
	tokens, looked, denied := c.tokens()
	var kept error // why a token was not sent
	for _, t := range tokens {
		b, err := c.send(ctx, method, path, mediaType, body, t)
		if u, ok := errors.AsType[untrusted](err); ok {
			kept = u
			continue
		}
		if r, ok := errors.AsType[refusal](err); ok && r.status == http.StatusUnauthorized {
			continue
		}
		return b, err
	}
	if kept != nil {
		return nil, fmt.Errorf("the program at %s asks for the node's token, which was not sent: %w", reachable(c.HTTP), kept)
	}
	if denied != "" {
		return nil, fmt.Errorf("the node at %s asks for its token: cannot read %s: permission denied; run the command as the user who runs the node", reachable(c.HTTP), denied)
	}
	return nil, fmt.Errorf("the node at %s asks for its token, and none of the tokens found is the right one (%s): run the command as the user who runs the node, or name the node's data directory with --data", reachable(c.HTTP), looked)
}

// A token is what the node at an address may ask for.
type token struct {
	text  string // empty: send none
	file  string // file that has the text
	named bool   // whether the user named the data directory of the file
}

// tokens are those that the node may have, and where they were looked for, in words. The last one is
// empty: a node may answer without one. denied is the file in the data directory that the user named, if its token may not
// be read.
func (c client) tokens() (of []token, looked, denied string) {
	var files []string
	look := func(file string, named bool) {
		files = append(files, file)
		text, err := daemon.ReadToken(file)
		switch {
		case err == nil:
			of = append(of, token{text, file, named})
		case named && errors.Is(err, fs.ErrPermission):
			denied = file
		}
	}
	if c.Data != "" {
		look(daemon.APITokenFile(c.Data), true)
	}
	if dir := accessDir(); dir != "" {
		look(daemon.APITokenCopy(dir, c.HTTP), false)
	}
	if dir := dataDir(); dir != "" && of == nil { // a node that could not leave a copy
		look(daemon.APITokenFile(dir), false)
	}
	if looked = "looked in " + strings.Join(files, ", "); files == nil {
		looked = "HOME is not set, so there is none to look in"
	}
	return append(of, token{}), looked, denied
}

// An untrusted is the reason why a token was not sent to the program at the other end of a connection,
// and what to do about it.
type untrusted string

func (u untrusted) Error() string { return string(u) }

// check refuses to send the token over a connection to a program that may not be the node. Any user of
// this machine can serve an address at which no node runs. Another machine gets the token only if the
// user named its data directory.
func (t token) check(conn net.Conn) error {
	if t.text == "" {
		return nil
	}
	at, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	if err == nil && at.Addr().Unmap().IsLoopback() {
		return t.checkLocal(conn)
	}
	if t.named {
		return nil
	}
	return untrusted(fmt.Sprintf("%v is not a loopback address: if it is the node's, name the node's data directory with --data", conn.RemoteAddr()))
}

// dialWith returns a dialler of connections that the token may be sent over.
func dialWith(t token) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		if err := t.check(conn); err != nil {
			_ = conn.Close() // nothing was sent
			return nil, err
		}
		return conn, nil
	}
}

// send sends one request, with a token.
func (c client) send(ctx context.Context, method, path, mediaType string, body []byte, t token) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	address := reachable(c.HTTP)
	r, err := http.NewRequestWithContext(ctx, method, "http://"+address+"/api/v1/"+path, bytes.NewReader(body))
	if err != nil {
		return nil, usagef("--http %q: %w", c.HTTP, err)
	}
	r.Header.Set("Tidings", "1") // no page in a browser could say so
	if t.text != "" {
		r.Header.Set("Tidings-Token", t.text)
	}
	if mediaType != "" {
		r.Header.Set("Content-Type", mediaType)
	}
	// A proxy between a person and the Web has no business here.
	transport := &http.Transport{Proxy: nil, DisableKeepAlives: true, DialContext: dialWith(t)}
	answer, err := (&http.Client{Transport: transport, CheckRedirect: noRedirect}).Do(r)
	if err != nil {
		return nil, c.unanswered(ctx, err)
	}
	defer answer.Body.Close()
	if answer.Header.Get("Tidings") == "" {
		return nil, c.stranger()
	}
	b, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, c.unanswered(ctx, err)
	case len(b) > maxAnswer:
		return nil, fmt.Errorf("the node at %s answers with more than %d bytes", address, maxAnswer)
	case answer.StatusCode == http.StatusOK:
		return b, nil
	}
	var fault proxy.Fault
	if json.Unmarshal(b, &fault) != nil || fault.Error == "" { // before the request came to the interface for programs
		fault.Error = string(bytes.TrimSpace(b))
	}
	return nil, refused(fault, answer.StatusCode)
}

// noRedirect: a node sends nobody elsewhere, so whoever does is none.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// unanswered says why there is no answer, and what to do.
func (c client) unanswered(ctx context.Context, err error) error {
	address := reachable(c.HTTP)
	op, broken := errors.AsType[*net.OpError](err)
	noHost, isName := errors.AsType[*net.DNSError](err)
	_, kept := errors.AsType[untrusted](err)
	switch {
	case kept:
		return err
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("the node at %s did not answer within %v", address, patience)
	case ctx.Err() != nil:
		return errors.New("interrupted")
	case isName:
		return fmt.Errorf("no node answers at %s (%s): give the address of yours with --http", address, noHost.Err)
	case broken && op.Op == "dial":
		return fmt.Errorf("no node answers at %s: start one with \"tidings run\", or give the address of yours with --http", address)
	case broken || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("http://%s ended the connection without an answer: if a node runs there, try again", address)
	}
	return c.stranger()
}

// ask gets an answer both as the node gave it and as a value.
func ask[T any](ctx context.Context, c client, path string) (raw []byte, answer T, err error) {
	raw, err = c.get(ctx, path)
	if err == nil {
		answer, err = read[T](c, raw)
	}
	return raw, answer, err
}

// read reads an answer.
func read[T any](c client, raw []byte) (answer T, err error) {
	if json.Unmarshal(raw, &answer) != nil {
		return answer, c.stranger()
	}
	return answer, nil
}

// stranger is the error of an answer that no node gives.
func (c client) stranger() error {
	return fmt.Errorf("http://%s answers, but is not a tidings node: give the address of yours with --http", reachable(c.HTTP))
}

// isHostPort reports whether an address is a host and a port that there can be.
func isHostPort(address string) bool {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	_, err = net.LookupPort("tcp", port)
	return err == nil
}

// reachable turns an address that a node listens at into one to reach it by from
// this machine: where it listens everywhere, it is here too.
func reachable(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	ip, err := netip.ParseAddr(host)
	switch {
	case host == "":
		host = "127.0.0.1"
	case err == nil && ip.IsUnspecified():
		// Where IPv6 is listened to everywhere, so is IPv4.
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}

// printRaw prints an answer as the node gave it, for people's eyes too.
func printRaw(w io.Writer, raw []byte) error {
	var b bytes.Buffer
	if err := json.Indent(&b, bytes.TrimSpace(raw), "", "  "); err != nil {
		return fmt.Errorf("print JSON: %w", err)
	}
	b.WriteByte('\n')
	_, err := b.WriteTo(w)
	return err
}

// printJSON prints a value as one object.
func printJSON(w io.Writer, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("print JSON: %w", err)
	}
	return printRaw(w, raw)
}

// A refusal is what the node says when it does not do what it was asked to.
type refusal struct {
	words  string
	status int
}

func (r refusal) Error() string { return r.words }

// Unwrap tells what a feed has refused from what nobody has taken yet.
func (r refusal) Unwrap() error {
	if r.status == http.StatusConflict {
		return feedtree.ErrRefused
	}
	return nil
}

// refused is the error of a fault. Below it stand the commands that subscribe to what was perhaps meant.
func refused(fault proxy.Fault, status int) error {
	if fault.Choices == nil {
		return refusal{fault.Error, status}
	}
	var lines []string
	for _, c := range fault.Choices {
		switch { // a title stands on a line of its own, so that the command can be pasted
		case c.Title != "":
			lines = append(lines, c.Title+":")
		case c.Kind == proxy.KindPage:
			lines = append(lines, "the page itself:")
		}
		lines = append(lines, "tidings subscribe "+shellWord(c.URL))
	}
	return detailed{refusal{fault.Error, status}, lines}
}

// shellWord quotes a text for a shell, if it needs that.
func shellWord(text string) string {
	plain := func(r rune) bool {
		return r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("-+./:@_%,=~", r))
	}
	if text != "" && text[0] != '~' && strings.IndexFunc(text, func(r rune) bool { return !plain(r) }) < 0 {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// all does one thing for each of several addresses. Those that the node refuses do
// not keep the others from being tried, and are told together at the end.
func all(deed string, addresses []string, do func(address string) error) error {
	var failed multiple
	for _, a := range addresses {
		err := do(a)
		r, ok := errors.AsType[refusal](err)
		switch {
		case err != nil && !ok:
			return err
		case ok && strings.Contains(r.words, a): // it says what it is about
			failed = append(failed, err)
		case ok:
			failed = append(failed, fmt.Errorf("%s %s: %w", deed, proxy.WithoutPassword(a), err))
		}
	}
	if failed == nil {
		return nil
	}
	return failed
}
