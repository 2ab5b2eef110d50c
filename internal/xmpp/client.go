// Package xmpp keeps a program logged in to an XMPP server, so that it can talk with people (RFC 6120 and 6121).
//
//	c, err := xmpp.New(xmpp.Config{JID: "news@chat.example", Password: read, Allow: []string{"ann@chat.example"}, …})
//	go c.Run(ctx)
//	err = c.Send(ctx, "ann@chat.example", xmpp.Message{ID: id, Body: text})
//
// There is one session at a time. It is encrypted with TLS, the server's certificate is verified, and the password is
// proven by SCRAM, so that not even a false server learns it.
//
// A message is delivered when the contact's own client says so: [Client.Send] sends the message to the client of the
// contact that has the highest priority, and then a ping (XEP-0199). Stanzas between two clients keep their order, and
// each client has to answer a ping, if only with an error (RFC 6120, section 8.2.3). So the answer proves that the
// message has arrived. Receipts (XEP-0184) would prove the same, but only some clients send them; an acknowledgement of
// the server (XEP-0198) would not, because the server may be killed before it passes the message on. Without the answer,
// Send returns an error, and the caller sends the message again. It then arrives twice if only the answer was lost, and
// has the same id both times.
//
// The package leaves to others what contacts say and are told, and when (internal/daemon).
package xmpp

import (
	"cmp"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"mellium.im/xmpp/jid"

	"tidings/internal/check"
)

// Config says who a client is, and with whom it talks.
type Config struct {
	// JID is the client's account, such as news@chat.example. It has no default.
	JID string
	// Password returns the account's password. It is called at each login. It has no default.
	Password func() (string, error)
	// Server is the address of the server, HOST:PORT, which begins without TLS and offers STARTTLS. Default empty: what
	// the domain of the account says in DNS.
	Server string
	// Allow are the accounts with which the client talks. Default none: those in the contact list of the client's account.
	Allow []string
	// Heard is called with each message of a contact. It must not block.
	Heard func(contact, text string)
	// Came is called when a contact has become available. It must not block.
	Came func(contact string)
	// Log receives what an operator should know.
	Log *slog.Logger
}

// Validate returns an error that names the first wrong field.
func (c Config) Validate() error {
	if err := CheckAccounts(c.JID, c.Allow); err != nil {
		return err
	}
	return check.That(c.Password != nil && c.Heard != nil && c.Came != nil && c.Log != nil, "xmpp: Config", "lacks a function or its log; all must be set")
}

// CheckAccounts returns an error if the account of a client, or one with which it talks, is not valid.
func CheckAccounts(own string, allow []string) error {
	if _, err := parseAccount(own); err != nil {
		return fmt.Errorf("--xmpp-jid: %w", err)
	}
	for _, a := range allow {
		if _, err := parseAccount(a); err != nil {
			return fmt.Errorf("--xmpp-allow: %w", err)
		}
	}
	return nil
}

// parseAccount returns the account in a text in its usual form.
func parseAccount(text string) (string, error) {
	j, err := jid.Parse(strings.TrimSpace(text))
	if err != nil || j.Localpart() == "" || j.Resourcepart() != "" {
		return "", fmt.Errorf("%q is not the address of an account: write it like ann@chat.example", text)
	}
	return j.String(), nil
}

// A Message is what a contact is told.
type Message struct {
	ID   string // the same whenever the message is sent again
	Body string
}

// A State says how the session goes.
type State struct {
	Connected bool
	Since     time.Time // when it was connected or disconnected
	Error     string    // why it is not connected; may be empty
	Refused   bool      // the server has refused the login
	Available int       // contacts that are available
}

const (
	// firstRetry and lastRetry are the shortest and the longest time between the end of a session and the next login. It
	// doubles while logins fail. refusedRetry is that after a login that the server refused: servers lock out those who try
	// a wrong password often.
	firstRetry   = 2 * time.Second
	lastRetry    = 5 * time.Minute
	refusedRetry = 10 * time.Minute
	// loginTime bounds a login.
	loginTime = 30 * time.Second
	// confirmTime is how long a contact's client may take to confirm a message: phones wake up first.
	confirmTime = time.Minute
	// keepAlive is the time between two pings to the server, which show that the connection still works.
	keepAlive = time.Minute
	// messageRate and messageBurst bound the messages to all contacts, because servers throttle accounts that send many.
	messageRate  = 5 // a second
	messageBurst = 20
)

// ErrAway says that a contact has no client that could get a message.
var ErrAway = errors.New("the contact is not available")

// A Client is safe for concurrent use.
type Client struct {
	config  Config
	account jid.JID
	allow   []string
	pace    *rate.Limiter

	mu      sync.Mutex // guards the fields below
	session *session   // nil: not logged in
	state   State
}

// New returns a client, which logs in when Run is called.
func New(c Config) (*Client, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	client := &Client{
		config: c, account: jid.MustParse(strings.TrimSpace(c.JID)), pace: rate.NewLimiter(messageRate, messageBurst),
		state: State{Since: time.Now()},
	}
	for _, a := range c.Allow {
		account, _ := parseAccount(a) // Validate has seen it
		client.allow = append(client.allow, account)
	}
	return client, nil
}

// Account returns the client's account.
func (c *Client) Account() string { return c.account.String() }

// Run keeps the client logged in until ctx ends.
func (c *Client) Run(ctx context.Context) {
	retry := firstRetry
	for ctx.Err() == nil {
		began := time.Now()
		err := c.run(ctx)
		if ctx.Err() != nil {
			return
		}
		refusal, refused := errors.AsType[*refusedError](err)
		c.mu.Lock()
		first := c.state.Connected || c.state.Error == ""
		since := c.state.Since
		if c.state.Connected {
			since = time.Now()
		}
		c.session, c.state = nil, State{Since: since, Error: err.Error(), Refused: refused}
		c.mu.Unlock()
		if first {
			c.config.Log.Warn("the XMPP session has ended or could not begin; the node tries again", "account", c.Account(), "err", err)
		}
		if time.Since(began) > lastRetry {
			retry = firstRetry
		}
		wait := retry
		if refusal != nil {
			wait = refusedRetry
		}
		retry = min(2*retry, lastRetry)
		timer := time.NewTimer(time.Duration(float64(wait) * (0.75 + rand.Float64()/2)))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
}

// run logs in, and returns when the session has ended.
func (c *Client) run(ctx context.Context) error {
	link, conn, err := c.login(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	alive, end := context.WithCancel(ctx)
	defer end()
	s := newSession(alive, c, link, conn)
	served := make(chan error, 1)
	go func() {
		defer end()
		served <- link.Serve(s)
	}()
	stop := context.AfterFunc(ctx, func() {
		_ = conn.SetDeadline(time.Now().Add(time.Second))
		_ = link.Close() // says goodbye
		_ = conn.Close()
	})
	defer stop()
	err = s.begin()
	if err == nil {
		c.mu.Lock()
		c.session, c.state = s, State{Connected: true, Since: time.Now()}
		c.mu.Unlock()
		c.config.Log.Info("logged in to the XMPP server", "account", c.Account())
		if err = s.arrive(); err == nil {
			err = s.watch()
		}
	}
	_ = conn.Close()
	why := <-served
	if err != nil && alive.Err() == nil { // the server still spoke
		return err
	}
	if _, cut := errors.AsType[*xml.SyntaxError](why); why == nil || cut {
		why = errors.New("the server has closed the connection")
	}
	return cmp.Or(err, why)
}

// current returns the session, nil if there is none.
func (c *Client) current() *session {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session
}

// State returns how the session goes.
func (c *Client) State() State {
	c.mu.Lock()
	state, s := c.state, c.session
	c.mu.Unlock()
	if s != nil {
		state.Available = s.available()
	}
	return state
}

// Available reports whether a contact has a client that can get messages.
func (c *Client) Available(contact string) bool {
	s := c.current()
	if s == nil {
		return false
	}
	_, ok := s.client(contact)
	return ok
}

// Send sends a message to a contact, and returns when the contact's client has confirmed that it has it.
func (c *Client) Send(ctx context.Context, contact string, m Message) error {
	if err := c.pace.Wait(ctx); err != nil {
		return err
	}
	s := c.current()
	if s == nil {
		return errors.New("the node is not logged in to the XMPP server")
	}
	return s.send(ctx, contact, m)
}

// Reply sends a message to a contact that is lost if the contact or the server is away.
func (c *Client) Reply(ctx context.Context, contact, text string) error {
	if err := c.pace.Wait(ctx); err != nil {
		return err
	}
	s := c.current()
	if s == nil {
		return errors.New("the node is not logged in to the XMPP server")
	}
	to, err := jid.Parse(contact)
	if err == nil {
		err = s.write(ctx, to, "", text)
	}
	return err
}
