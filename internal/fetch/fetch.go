package fetch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"tidings/internal/check"
	"tidings/internal/env"
	"tidings/internal/feed"
)

// Config identifies the client and holds its limits. A zero field means its default.
type Config struct {
	// Version is the version of tidings, for the User-Agent. Default "0".
	Version string
	// Contact is a URL of the operator, for owners of origins; see CheckContact. Default none.
	Contact string
	// AllowPrivate lets the client also ask origins on private addresses. Default false, because a
	// feed's address could otherwise name a device in the operator's own network.
	AllowPrivate bool
	// Own returns the addresses of this node besides those of its interfaces, such as its router's.
	// The client refuses them. Default nil: there are none.
	Own func() []netip.Addr

	// Workers is the maximum number of fetches that run, at least 1. Default 16. Each takes a
	// connection, and up to MaxBody of memory for its document.
	Workers int
	// Waiting is the maximum number of fetches that wait, at least 1; others fail at once. Default
	// 4,096. With more, fetches wait longer before a busy client refuses any.
	Waiting int
	// HostWaiting is the maximum number of fetches that wait for one host, at least 1; others fail at
	// once. Default 64, a minute's worth. With more, one host may fill the queue.
	HostWaiting int
	// Spacing is the time between the starts of two requests to one host. Default 1 s; negative:
	// none. A longer time spares hosts, and feeds of one host wait for each other.
	Spacing time.Duration
	// MaxBody bounds a document in bytes, compressed and decompressed, at least 1. Default 10 MiB.
	// A larger bound costs memory.
	MaxBody int
}

func (c Config) withDefaults() Config {
	c.Workers = cmp.Or(c.Workers, 16)
	c.Waiting = cmp.Or(c.Waiting, 4096)
	c.HostWaiting = cmp.Or(c.HostWaiting, 64)
	c.Spacing = cmp.Or(c.Spacing, time.Second)
	c.MaxBody = cmp.Or(c.MaxBody, 10<<20)
	return c
}

// Validate returns an error that names the first wrong field.
func (c Config) Validate() error {
	if err := CheckContact(c.Contact); err != nil {
		return fmt.Errorf("fetch: Contact: %w", err)
	}
	c = c.withDefaults()
	return cmp.Or(
		check.AtLeast("fetch: Workers", c.Workers, 1),
		check.AtLeast("fetch: Waiting", c.Waiting, 1),
		check.AtLeast("fetch: HostWaiting", c.HostWaiting, 1),
		check.AtLeast("fetch: MaxBody", c.MaxBody, 1),
	)
}

// Times that a fetch may take.
const (
	connectTimeout = 5 * time.Second  // until the connection, including name resolution
	tlsTimeout     = 5 * time.Second  // of the TLS handshake
	headerTimeout  = 10 * time.Second // from the request to the headers
	totalTimeout   = 20 * time.Second // for a document, with redirects and without waiting
	bodyGrace      = 5 * time.Second  // before a body must arrive at 1 KiB/s
)

// maxHeaders bounds the headers of a response, in bytes. Real origins use less than a quarter of it.
const maxHeaders = 64 << 10

// hostRequests is the number of concurrent requests to one host, and therefore of its connections.
const hostRequests = 2

// idleTimeout closes unused connections. Polls of a feed are minutes apart, so that a connection is
// only reused for a redirect or for another feed of the host.
const idleTimeout = 15 * time.Second

// A Client fetches documents from origins. It is an [env.Fetcher].
type Client struct {
	config   Config
	answered func(env.Handle, env.Answer)
	public   *http.Transport // dials only public addresses
	any      *http.Transport // dials every address that the config allows
	guard    guard           // the guard of any
	start    time.Time       // creation time, with its monotonic reading
	wake     chan struct{}   // holds one token if a request may be able to start

	mu      sync.Mutex // guards the fields below
	queue   queue
	rules   map[string]*rules // of robots.txt, by origin
	lessons map[string]lesson // by name of a host's queue, by host, or by address of a document

	requests, failed, refused, received atomic.Uint64
}

// Stats counts what a client did since it was made.
type Stats struct {
	Asked         uint64 // requests sent, including redirects
	Failed        uint64 // fetches that failed
	Refused       uint64 // fetches refused because too many were waiting
	ReceivedBytes uint64 // bytes of bodies, before decompression
	Waiting       int    // fetches waiting now
	Running       int    // requests under way now
}

var _ env.Fetcher = (*Client)(nil)

// New returns a client that passes each answer to answered. It calls answered from several goroutines
// at a time, or from within Fetch when the request fails at once. The client works while Run runs.
// New panics if the configuration is invalid, which is a bug of the program.
func New(c Config, answered func(env.Handle, env.Answer)) *Client {
	if err := c.Validate(); err != nil {
		panic(err)
	}
	c = c.withDefaults()
	client := &Client{
		config:   c,
		answered: answered,
		guard:    newGuard(c.AllowPrivate, c.Own),
		start:    time.Now(),
		wake:     make(chan struct{}, 1),
		queue:    newQueue(c),
		rules:    map[string]*rules{},
		lessons:  map[string]lesson{},
	}
	client.any = client.newTransport(client.guard)
	client.public = client.any
	if c.AllowPrivate {
		client.public = client.newTransport(newGuard(false, c.Own))
	}
	return client
}

// IsPublic reports whether the host of an address is public: all addresses of its name are. A name that
// cannot be resolved is not.
func (c *Client) IsPublic(ctx context.Context, address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", u.Hostname()) // returns an IP address unchanged
	return err == nil && len(addrs) > 0 && !slices.ContainsFunc(addrs, func(ip netip.Addr) bool { return !c.guard.isPublic(ip) })
}

func (c *Client) newTransport(g guard) *http.Transport {
	dialer := &net.Dialer{Timeout: connectTimeout, Control: g.control}
	return &http.Transport{
		Proxy:                  nil, // a proxy would dial without the guard
		DialContext:            c.silentLast(dialer.DialContext),
		TLSHandshakeTimeout:    tlsTimeout,
		ResponseHeaderTimeout:  headerTimeout,
		MaxResponseHeaderBytes: maxHeaders,
		DisableCompression:     true, // body.go decompresses and counts
		ForceAttemptHTTP2:      true, // a custom dialer would switch HTTP/2 off
		MaxConnsPerHost:        hostRequests,
		MaxIdleConnsPerHost:    1,
		MaxIdleConns:           64,
		IdleConnTimeout:        idleTimeout,
	}
}

// Fetch asks for a document and never blocks. A client whose Run has ended drops the request.
func (c *Client) Fetch(h env.Handle, r env.Request) {
	url, err := feed.Canonical(r.URL)
	if err != nil {
		c.answer(&job{handle: h}, env.Answer{Err: env.ErrURL, Message: err.Error(), FinalURL: r.URL})
		return
	}
	c.admit(&job{handle: h, request: r, target: newTarget(url), moved: true, public: r.Public})
}

// admit queues a job, also for the target of a redirect. For a page it checks robots.txt first.
func (c *Client) admit(j *job) {
	if j.request.Robots {
		c.checkRobots(j)
		return
	}
	c.enqueue(j, j.started)
}

// enqueue queues a job, at the front of its host's queue if it has waited before.
func (c *Client) enqueue(j *job, ahead bool) {
	c.mu.Lock()
	err := c.queue.add(j, ahead, c.now())
	c.mu.Unlock()
	if err != nil {
		c.refuse(j, err)
		return
	}
	c.signal()
}

// refuse answers a job without a request.
func (c *Client) refuse(j *job, err error) {
	c.refused.Add(1)
	a := j.errorAnswer(env.ErrBusy, err.Error())
	if held, ok := errors.AsType[errHeld](err); ok {
		a.RetryAfter = max(held.until.Sub(c.now()), 1)
	}
	c.answer(j, a)
}

// answer delivers an answer.
func (c *Client) answer(j *job, a env.Answer) {
	a.Requests = j.asked
	if j.done != nil {
		j.done(a)
		return
	}
	if a.Err != "" && a.Err != env.ErrBusy {
		c.failed.Add(1)
	}
	c.answered(j.handle, a)
}

// Run makes requests until ctx ends, and returns the cause after all goroutines have ended. It cancels
// the running requests, and no answer follows. A client runs once.
func (c *Client) Run(ctx context.Context) error {
	var work sync.WaitGroup
	defer c.any.CloseIdleConnections()
	defer c.public.CloseIdleConnections()
	defer work.Wait()
	defer c.close()

	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		j, next := c.next()
		if j != nil {
			work.Go(func() { c.work(ctx, j) })
			continue
		}
		if timer.Stop(); !next.IsZero() {
			timer.Reset(max(0, next.Sub(c.now())))
		}
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-c.wake:
		}
	}
	return context.Cause(ctx)
}

// next returns a job that may start, or the time of the next attempt.
func (c *Client) next() (*job, time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.queue.next(c.now())
}

// work makes one request of a job, and then answers the job or queues it again for a redirect.
func (c *Client) work(ctx context.Context, j *job) {
	next, a := c.exchange(ctx, j)
	wait := a.RetryAfter
	if wait == 0 && a.Status == http.StatusTooManyRequests {
		wait = defaultHold
	}
	var held []*job
	c.mu.Lock()
	now := c.now()
	if wait > 0 {
		held = c.queue.hold(j, wait, now)
	}
	c.queue.done(j, now)
	c.mu.Unlock()
	c.signal()
	switch {
	case ctx.Err() != nil: // nobody waits for the answer
	case next != nil:
		j.target, j.started = *next, true
		c.admit(j)
	default:
		c.answer(j, j.onlyPlain(a))
	}
	for _, other := range held {
		c.refuse(other, errHeld{j.target.queue, now.Add(min(wait, maxHold))})
	}
}

func (c *Client) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue.close()
}

func (c *Client) signal() {
	select {
	case c.wake <- struct{}{}:
	default: // Run will look anyway
	}
}

// now returns a time that never goes back, whatever happens to the wall clock.
func (c *Client) now() time.Time { return c.start.Round(0).Add(time.Since(c.start)) }

// Stats returns the client's counters.
func (c *Client) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Stats{
		Asked:         c.requests.Load(),
		Failed:        c.failed.Load(),
		Refused:       c.refused.Load(),
		ReceivedBytes: c.received.Load(),
		Waiting:       c.queue.waiting,
		Running:       c.queue.running,
	}
}

// maxContact bounds a contact in bytes, because some servers refuse long headers.
const maxContact = 256

// CheckContact returns an error if a contact cannot be sent in a User-Agent. A contact is "" or an
// http, https or mailto URL of at most 256 printable ASCII characters without parentheses and
// semicolons.
func CheckContact(contact string) error {
	if contact == "" {
		return nil
	}
	u, err := url.Parse(contact)
	switch {
	case err != nil:
		return fmt.Errorf("contact %q: not a URL", contact)
	case len(contact) > maxContact:
		return fmt.Errorf("contact of %d bytes: at most %d", len(contact), maxContact)
	case u.Scheme == "" && strings.Contains(contact, "@"):
		return fmt.Errorf("contact %q: not a URL; for this mail address, give mailto:%s", contact, contact)
	case (u.Scheme != "http" && u.Scheme != "https" || u.Host == "") && (u.Scheme != "mailto" || u.Opaque == ""):
		return fmt.Errorf("contact %q: give an http, https or mailto URL, such as https://example.org/feeds.html", contact)
	case strings.ContainsFunc(contact, func(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune("();\\", r) }):
		return fmt.Errorf("contact %q: spaces, parentheses, semicolons and characters beyond ASCII cannot stand in a User-Agent", contact)
	}
	return nil
}

// userAgent names this program and the number of subscribers, as other feed readers do that poll for
// many.
func (c *Client) userAgent(subscribers int) string {
	var about []string
	if c.config.Contact != "" {
		about = append(about, "+"+c.config.Contact)
	}
	switch {
	case subscribers == 1:
		about = append(about, "1 subscriber")
	case subscribers > 1:
		about = append(about, fmt.Sprintf("%d subscribers", subscribers))
	}
	name := "tidings/" + cmp.Or(c.config.Version, "0")
	if about == nil {
		return name
	}
	return fmt.Sprintf("%s (%s)", name, strings.Join(about, "; "))
}
