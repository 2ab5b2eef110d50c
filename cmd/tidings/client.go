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

	"tidings/feedtree"
	"tidings/internal/daemon"
	"tidings/proxy"
)

const (
	defaultHTTP = "127.0.0.1:8190"
	noHTTP      = "none"

	// answerTime is how long a node may take to answer, and to go on with an answer. It waits for its disk. After that the
	// command has failed, although the node may still complete the request.
	answerTime = 2 * time.Minute
	// maxAnswer is the largest answer that is read, in bytes. The largest possible answer, a list of 10,000
	// searches, has about 8 MB.
	maxAnswer = 64 << 20
)

// A client identifies the node that a command talks to.
type client struct {
	HTTP string `name:"http" default:"${http}" placeholder:"HOST:PORT" help:"Address of the node (${default})."`
	Data string `placeholder:"DIR" help:"Data directory of the node, which contains its token. Not needed for a node of the same user on this machine."`

	onData func([]byte) // called with each part of an answer that has come, if it is not nil
}

// get sends a GET request. path includes the query.
func (c client) get(ctx context.Context, path string) ([]byte, error) {
	return c.do(ctx, http.MethodGet, path, "", nil)
}

// post sends a POST request.
func (c client) post(ctx context.Context, path, mediaType string, body []byte) ([]byte, error) {
	return c.do(ctx, http.MethodPost, path, mediaType, body)
}

func (c client) do(ctx context.Context, method, path, mediaType string, body []byte) ([]byte, error) {
	c.HTTP = strings.TrimSuffix(strings.TrimPrefix(c.HTTP, "http://"), "/") // as run prints it, and as browsers show it
	if c.HTTP == noHTTP {
		return nil, usagef("the setting http is %q: give the address of the node with --http", noHTTP)
	}
	if !isHostPort(c.HTTP) {
		return nil, usagef("--http %q is not an address: give HOST:PORT, such as %s", c.HTTP, defaultHTTP)
	}
	tokens, searched, denied := c.findTokens()
	var withheld error // why a token was not sent
	for _, t := range tokens {
		b, err := c.send(ctx, method, path, mediaType, body, t)
		if u, ok := errors.AsType[untrusted](err); ok {
			withheld = u
			continue
		}
		if r, ok := errors.AsType[nodeError](err); ok && r.status == http.StatusUnauthorized {
			continue
		}
		return b, err
	}
	if withheld != nil {
		return nil, fmt.Errorf("the program at %s asks for the node's token, which was not sent: %w", localAddress(c.HTTP), withheld)
	}
	if denied != "" {
		return nil, fmt.Errorf("the node at %s asks for its token: cannot read %s: permission denied; run the command as the user who runs the node", localAddress(c.HTTP), denied)
	}
	return nil, fmt.Errorf("the node at %s asks for its token, and none of the tokens found is the right one (%s): run the command as the user who runs the node, or name the node's data directory with --data", localAddress(c.HTTP), searched)
}

// A token is a possible access token of the node.
type token struct {
	text  string // "" to send no token
	file  string // file that contains the token
	named bool   // whether the user named the data directory of the file
}

// findTokens returns the tokens that the node may accept, and says where it searched for them. The last token is
// empty, because a node may answer without one. denied is the token file in the data directory that the user named,
// if it may not be read.
func (c client) findTokens() (found []token, searched, denied string) {
	var files []string
	try := func(file string, named bool) {
		files = append(files, file)
		text, err := daemon.ReadToken(file)
		switch {
		case err == nil:
			found = append(found, token{text, file, named})
		case named && errors.Is(err, fs.ErrPermission):
			denied = file
		}
	}
	if c.Data != "" {
		try(daemon.APITokenFile(c.Data), true)
	}
	if dir := accessDir(); dir != "" {
		try(daemon.APITokenCopy(dir, c.HTTP), false)
	}
	if dir := dataDir(); dir != "" && found == nil { // the node may have failed to leave a copy
		try(daemon.APITokenFile(dir), false)
	}
	if searched = "looked in " + strings.Join(files, ", "); files == nil {
		searched = "HOME is not set, so there is none to look in"
	}
	return append(found, token{}), searched, denied
}

// An untrusted error says why a token was not sent to the program at the other end of a connection, and what to do.
type untrusted string

func (u untrusted) Error() string { return string(u) }

// check refuses to send the token over a connection to a program that may not be the node. Any user of this machine
// can serve at an address where no node runs. Another machine gets the token only if the user named the node's data
// directory.
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

// dialVerified returns a dialler for connections over which a token may be sent.
func dialVerified(t token) func(ctx context.Context, network, address string) (net.Conn, error) {
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

// send sends one request with a token.
func (c client) send(ctx context.Context, method, path, mediaType string, body []byte, t token) ([]byte, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silent := time.AfterFunc(answerTime, func() { cancel(context.DeadlineExceeded) })
	defer silent.Stop()
	address := localAddress(c.HTTP)
	r, err := http.NewRequestWithContext(ctx, method, "http://"+address+"/api/v1/"+path, bytes.NewReader(body))
	if err != nil {
		return nil, usagef("--http %q: %w", c.HTTP, err)
	}
	r.Header.Set("Tidings", "1") // no web page can send this header
	if t.text != "" {
		r.Header.Set("Tidings-Token", t.text)
	}
	if mediaType != "" {
		r.Header.Set("Content-Type", mediaType)
	}
	answer, err := c.exchange(ctx, r, dialVerified(t))
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(io.TeeReader(io.LimitReader(answer.Body, maxAnswer+1), writerFunc(func(part []byte) {
		silent.Reset(answerTime)
		if c.onData != nil {
			c.onData(part)
		}
	})))
	switch {
	case err != nil:
		return nil, c.noAnswerError(ctx, err)
	case len(b) > maxAnswer:
		return nil, fmt.Errorf("the node at %s answers with more than %d bytes", address, maxAnswer)
	case answer.StatusCode == http.StatusOK:
		return b, nil
	}
	var fault proxy.ErrorResponse
	if json.Unmarshal(b, &fault) != nil || fault.Error == "" { // the request failed before it reached the API
		fault.Error = string(bytes.TrimSpace(b))
	}
	return nil, errorOf(fault, answer.StatusCode)
}

// A writerFunc is called with what is written.
type writerFunc func([]byte)

func (f writerFunc) Write(b []byte) (int, error) {
	f(b)
	return len(b), nil
}

// exchange sends a request, and returns the answer if it comes from a node.
func (c client) exchange(ctx context.Context, r *http.Request, dial func(ctx context.Context, network, address string) (net.Conn, error)) (*http.Response, error) {
	answer, err := (&http.Client{
		Transport:     &http.Transport{Proxy: nil, DisableKeepAlives: true, DialContext: dial},       // proxies are for the Web
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // a node sends no redirects
	}).Do(r)
	if err != nil {
		return nil, c.noAnswerError(ctx, err)
	}
	if answer.Header.Get("Tidings") == "" {
		_ = answer.Body.Close()
		return nil, c.notANode()
	}
	return answer, nil
}

// noAnswerError says why there is no answer, and what to do.
func (c client) noAnswerError(ctx context.Context, err error) error {
	address := localAddress(c.HTTP)
	op, broken := errors.AsType[*net.OpError](err)
	noHost, isName := errors.AsType[*net.DNSError](err)
	_, withheld := errors.AsType[untrusted](err)
	switch {
	case withheld:
		return err
	case errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		return fmt.Errorf("the node at %s did not answer within %v", address, answerTime)
	case ctx.Err() != nil:
		return errors.New("interrupted")
	case isName:
		return fmt.Errorf("no node answers at %s (%s): give the address of yours with --http", address, noHost.Err)
	case broken && op.Op == "dial":
		return fmt.Errorf("no node answers at %s: start one with \"tidings run\", or give the address of yours with --http", address)
	case broken || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("http://%s ended the connection without an answer: if a node runs there, try again", address)
	}
	return c.notANode()
}

// getAnswer returns an answer both as the node sent it and decoded.
func getAnswer[T any](ctx context.Context, c client, path string) (raw []byte, answer T, err error) {
	raw, err = c.get(ctx, path)
	if err == nil {
		answer, err = decode[T](c, raw)
	}
	return raw, answer, err
}

// call posts a question as JSON, and returns the decoded answer.
func call[T any](ctx context.Context, c client, path string, question any) (answer T, err error) {
	body, err := json.Marshal(question)
	if err != nil {
		return answer, err
	}
	raw, err := c.post(ctx, path, "application/json", body)
	if err != nil {
		return answer, err
	}
	return decode[T](c, raw)
}

// decode decodes an answer.
func decode[T any](c client, raw []byte) (answer T, err error) {
	if json.Unmarshal(raw, &answer) != nil {
		return answer, c.notANode()
	}
	return answer, nil
}

// notANode returns the error for an answer that does not come from a node.
func (c client) notANode() error {
	return fmt.Errorf("http://%s answers, but is not a tidings node: give the address of yours with --http", localAddress(c.HTTP))
}

// isHostPort reports whether an address consists of a host and a valid port.
func isHostPort(address string) bool {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	_, err = net.LookupPort("tcp", port)
	return err == nil
}

// localAddress converts an address at which a node listens to one by which it can be reached from this machine: an
// unspecified IP address becomes loopback.
func localAddress(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	ip, err := netip.ParseAddr(host)
	switch {
	case host == "":
		host = "127.0.0.1"
	case err == nil && ip.IsUnspecified():
		// A node that listens at all IPv6 addresses also listens at all IPv4 addresses.
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}

// printRaw prints an answer as the node sent it, but indented.
func printRaw(w io.Writer, raw []byte) error {
	var b bytes.Buffer
	if err := json.Indent(&b, bytes.TrimSpace(raw), "", "  "); err != nil {
		return fmt.Errorf("print JSON: %w", err)
	}
	b.WriteByte('\n')
	_, err := b.WriteTo(w)
	return err
}

// printJSON prints a value as one JSON object.
func printJSON(w io.Writer, v any) error {
	var raw bytes.Buffer
	e := json.NewEncoder(&raw)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("print JSON: %w", err)
	}
	return printRaw(w, raw.Bytes())
}

// A nodeError is the error that the node returned.
type nodeError struct {
	message string
	status  int
}

func (r nodeError) Error() string { return r.message }

// Unwrap distinguishes items that a feed has rejected from items that are still pending.
func (r nodeError) Unwrap() error {
	if r.status == http.StatusConflict {
		return feedtree.ErrRefused
	}
	return nil
}

// errorOf converts an ErrorResponse to an error. If it has choices, the error lists the commands that subscribe to
// them.
func errorOf(fault proxy.ErrorResponse, status int) error {
	if fault.Choices == nil {
		return nodeError{fault.Error, status}
	}
	return errorWithLines{nodeError{fault.Error, status}, choiceLines(fault.Choices)}
}

// choiceLines returns the commands that subscribe to choices.
func choiceLines(choices []proxy.Choice) (lines []string) {
	for _, c := range choices {
		switch { // the title is on its own line, so that the command can be pasted
		case c.Title != "":
			lines = append(lines, c.Title+":")
		case c.Kind == proxy.KindPage:
			lines = append(lines, "the page itself:")
		}
		lines = append(lines, "tidings subscribe "+proxy.ShellWord(c.URL))
	}
	return lines
}

// forEachAddress calls do for each of several addresses. If the node refuses some of them, the others are still
// tried, and the errors are returned together. Errors name an address as shown returns it.
func forEachAddress(action string, addresses []string, shown func(string) string, do func(address string) error) error {
	var failed errorList
	for _, a := range addresses {
		err := do(a)
		r, ok := errors.AsType[nodeError](err)
		switch {
		case err != nil && !ok:
			return err
		case ok && strings.Contains(r.message, a) || strings.Contains(r.message, shown(a)): // the message contains the address
			failed = append(failed, err)
		case ok:
			failed = append(failed, fmt.Errorf("%s %s: %w", action, shown(a), err))
		}
	}
	if failed == nil {
		return nil
	}
	return failed
}
