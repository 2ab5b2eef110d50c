package xmpp

import (
	"context"
	"crypto/tls"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"

	"mellium.im/sasl"
	mellium "mellium.im/xmpp"
	"mellium.im/xmpp/dial"
)

const (
	// maxStanza bounds what the server may send at once, in bytes on the wire: servers themselves allow 256 or 512 KiB.
	maxStanza = 1 << 20
	// writeTime bounds how long the server may take nothing.
	writeTime = 30 * time.Second
)

// A boundedConn bounds stanzas, and how long a write takes.
type boundedConn struct {
	net.Conn
	left atomic.Int64 // bytes that may still be read before the next refill
}

var errTooLarge = fmt.Errorf("the server sent a stanza of more than %d KiB", maxStanza>>10)

func (c *boundedConn) refill() { c.left.Store(maxStanza) }

func (c *boundedConn) Read(b []byte) (int, error) {
	left := c.left.Load()
	if left <= 0 {
		return 0, errTooLarge
	}
	n, err := c.Conn.Read(b[:min(int64(len(b)), left)])
	c.left.Add(-int64(n))
	return n, err
}

func (c *boundedConn) Write(b []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(writeTime)); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}

// A refusedError is the error of a server that refuses the login.
type refusedError struct{ reason error }

func (e *refusedError) Error() string { return "the login was refused: " + e.reason.Error() }
func (e *refusedError) Unwrap() error { return e.reason }

// login opens a session.
func (c *Client) login(ctx context.Context) (*mellium.Session, *boundedConn, error) {
	password, err := c.config.Password()
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, loginTime)
	defer cancel()
	security := &tls.Config{ServerName: c.account.Domainpart(), MinVersion: tls.VersionTLS12}
	conn, err := c.dial(ctx, security)
	if err != nil {
		return nil, nil, fmt.Errorf("the XMPP server of %s cannot be reached: %w", c.account.Domainpart(), err)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() }) // the library does not always notice the end of ctx
	state := mellium.SessionState(0)
	if _, encrypted := conn.(*tls.Conn); encrypted {
		state = mellium.Secure
	}
	bounded := &boundedConn{Conn: conn}
	bounded.refill()
	features := []mellium.StreamFeature{
		mellium.StartTLS(security),
		proof(password),
		mellium.BindResource(),
	}
	link, err := mellium.NewSession(ctx, c.account.Domain(), c.account, bounded, state, mellium.NewNegotiator(func(*mellium.Session, *mellium.StreamConfig) mellium.StreamConfig {
		return mellium.StreamConfig{Features: features}
	}))
	if !stop() {
		err = fmt.Errorf("it took longer than %v", loginTime)
	}
	if err != nil {
		_ = conn.Close()
		return nil, nil, fmt.Errorf("log in to the XMPP server of %s: %w", c.account.Domainpart(), err)
	}
	return link, bounded, nil
}

// proof returns the stream feature that proves a password. Its errors tell a refused login from a lost connection.
func proof(password string) mellium.StreamFeature {
	f := mellium.SASL("", password, sasl.ScramSha256, sasl.ScramSha1)
	negotiate := f.Negotiate
	f.Negotiate = func(ctx context.Context, s *mellium.Session, data any) (mellium.SessionState, io.ReadWriter, error) {
		state, rw, err := negotiate(ctx, s, data)
		_, lost := errors.AsType[net.Error](err)
		_, cut := errors.AsType[*xml.SyntaxError](err)
		if err != nil && !lost && !cut && ctx.Err() == nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			err = &refusedError{err}
		}
		return state, rw, err
	}
	return f
}

// dial connects to the server.
func (c *Client) dial(ctx context.Context, security *tls.Config) (net.Conn, error) {
	if c.config.Server != "" {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", c.config.Server)
	}
	d := dial.Dialer{TLSConfig: security}
	return d.Dial(ctx, "tcp", c.account)
}
