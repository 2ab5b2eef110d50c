package fetch

import (
	"context"
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

	"tidings/internal/env"
	"tidings/internal/feed"
)

// Config says who asks, and bounds what is asked and answered. Zeros are filled
// with the defaults; a negative Spacing is none.
type Config struct {
	Version      string              // of tidings, for the User-Agent
	Contact      string              // URL of who runs this, for owners of origins: see CheckContact; may be empty
	AllowPrivate bool                // also ask origins on private addresses
	Own          func() []netip.Addr // addresses of this node beside those of its interfaces, such as its router's; may be nil

	Workers     int           // requests under way; 16
	Waiting     int           // requests that wait; 4,096
	HostWaiting int           // of those for one host; 64, which is a minute's worth
	Spacing     time.Duration // between beginnings of requests of a host; 1 s
	Connect     time.Duration // until there is a connection, names resolved; 5 s
	TLS         time.Duration // for its handshake; 5 s
	Header      time.Duration // from request to answer; 10 s
	Total       time.Duration // for a document, redirects included, waiting excluded; 20 s
	Grace       time.Duration // before a body must have come at 1 KiB/s; 5 s
	MaxBody     int           // bytes of a document, as sent and as unpacked; 10 MiB
}

func (c Config) filled() Config {
	fill(&c.Workers, 16)
	fill(&c.Waiting, 4096)
	fill(&c.HostWaiting, 64)
	fill(&c.Spacing, time.Second)
	fill(&c.Connect, 5*time.Second)
	fill(&c.TLS, 5*time.Second)
	fill(&c.Header, 10*time.Second)
	fill(&c.Total, 20*time.Second)
	fill(&c.Grace, 5*time.Second)
	fill(&c.MaxBody, 10<<20)
	return c
}

func fill[T comparable](p *T, value T) {
	var zero T
	if *p == zero {
		*p = value
	}
}

// maxHeaders bounds the headers of an answer. Cookies and policies of real
// origins stay below a quarter of it.
const maxHeaders = 64 << 10

// hostRequests is how many requests of one host may be under way. They are its
// connections, since each has one for itself or shares it.
const hostRequests = 2

// idleTimeout closes connections that are not used. Polls of a feed are minutes
// apart: a connection is worth keeping only for a redirect or a neighbour.
const idleTimeout = 15 * time.Second

// A Client asks origins. It is an [env.Fetcher].
type Client struct {
	config   Config
	answered func(env.Handle, env.Answer)
	public   *http.Transport // dials public addresses alone
	any      *http.Transport // dials what the config allows
	guard    guard           // of any
	begin    time.Time       // with its monotonic reading
	wake     chan struct{}   // holds one token if there may be something to begin

	mu    sync.Mutex // guards what follows
	queue queue
	rules map[string]*rules // of robots.txt, by origin

	asked, failed, refused, received atomic.Uint64
}

// Stats counts what a client did since it was made.
type Stats struct {
	Asked         uint64 // requests sent, each redirect included
	Failed        uint64 // fetches that failed
	Refused       uint64 // fetches refused because too many were waiting
	ReceivedBytes uint64 // bytes of bodies, as sent
	Waiting       int    // fetches waiting now
	Running       int    // requests under way now
}

var _ env.Fetcher = (*Client)(nil)

// New returns a client that hands each answer to answered: from goroutines of
// its own, several at a time, or, where nobody needs to be asked, from within
// Fetch. Run makes it work.
func New(c Config, answered func(env.Handle, env.Answer)) *Client {
	c = c.filled()
	client := &Client{
		config:   c,
		answered: answered,
		guard:    newGuard(c.AllowPrivate, c.Own),
		begin:    time.Now(),
		wake:     make(chan struct{}, 1),
		queue:    newQueue(c),
		rules:    map[string]*rules{},
	}
	client.any = newTransport(c, client.guard)
	client.public = client.any
	if c.AllowPrivate {
		client.public = newTransport(c, newGuard(false, c.Own))
	}
	return client
}

// IsPublic reports whether an address leads to the Web alone: its host is a public address, or all
// addresses of its name are. A name that nobody knows, or whose server does not answer, leads
// nowhere.
func (c *Client) IsPublic(ctx context.Context, address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", u.Hostname()) // of an address: itself
	return err == nil && len(addrs) > 0 && !slices.ContainsFunc(addrs, func(ip netip.Addr) bool { return !c.guard.isPublic(ip) })
}

func newTransport(c Config, g guard) *http.Transport {
	dialer := &net.Dialer{Timeout: c.Connect, Control: g.control}
	return &http.Transport{
		Proxy:                  nil, // a proxy would dial where no guard sees it
		DialContext:            dialer.DialContext,
		TLSHandshakeTimeout:    c.TLS,
		ResponseHeaderTimeout:  c.Header,
		MaxResponseHeaderBytes: maxHeaders,
		DisableCompression:     true, // body.go unpacks, and counts
		ForceAttemptHTTP2:      true, // which a dialer of one's own would switch off
		MaxConnsPerHost:        hostRequests,
		MaxIdleConnsPerHost:    1,
		MaxIdleConns:           64,
		IdleConnTimeout:        idleTimeout,
	}
}

// Fetch asks for a document and never blocks. A client whose Run has ended
// forgets the request.
func (c *Client) Fetch(h env.Handle, r env.Request) {
	url, err := feed.Canonical(r.URL)
	if err != nil {
		c.answer(&job{handle: h}, env.Answer{Err: env.ErrURL, Words: err.Error(), FinalURL: r.URL})
		return
	}
	c.admit(&job{handle: h, request: r, at: newTarget(url), moved: true})
}

// admit lets a job wait for its turn, also where a redirect leads, if robots.txt has nothing
// against it where that counts.
func (c *Client) admit(j *job) {
	if j.request.Robots {
		c.obey(j)
		return
	}
	c.enter(j, len(j.hops) > 0)
}

// enter lets a job wait, ahead of all others of its host if it waited before.
func (c *Client) enter(j *job, ahead bool) {
	c.mu.Lock()
	err := c.queue.enter(j, ahead, c.now())
	c.mu.Unlock()
	if err != nil {
		c.refused.Add(1)
		c.answer(j, j.failed(env.ErrBusy, err.Error()))
		return
	}
	c.ring()
}

// answer hands an answer over.
func (c *Client) answer(j *job, a env.Answer) {
	if j.then != nil {
		j.then(a)
		return
	}
	if a.Err != "" && a.Err != env.ErrBusy {
		c.failed.Add(1)
	}
	c.answered(j.handle, a)
}

// Run asks for what is fetched until ctx ends, and returns why it did once all
// goroutines are gone. Requests under way are broken off, and no answer comes
// after it. A client runs once.
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

// next returns a job whose turn it is, or when to look again.
func (c *Client) next() (*job, time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.queue.next(c.now())
}

// work makes one request of a job, and answers it or lets it wait for the next.
func (c *Client) work(ctx context.Context, j *job) {
	next, a := c.exchange(ctx, j)
	c.mu.Lock()
	c.queue.done(j, c.now())
	c.mu.Unlock()
	c.ring()
	switch {
	case ctx.Err() != nil: // nobody listens any more
	case next != nil:
		j.at = *next
		c.admit(j)
	default:
		c.answer(j, a)
	}
}

func (c *Client) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue.close()
}

func (c *Client) ring() {
	select {
	case c.wake <- struct{}{}:
	default: // Run is about to look anyway
	}
}

// now never goes back, whatever happens to the wall clock.
func (c *Client) now() time.Time { return c.begin.Round(0).Add(time.Since(c.begin)) }

// Stats returns what the client counted.
func (c *Client) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Stats{
		Asked:         c.asked.Load(),
		Failed:        c.failed.Load(),
		Refused:       c.refused.Load(),
		ReceivedBytes: c.received.Load(),
		Waiting:       c.queue.waiting,
		Running:       c.queue.running,
	}
}

// maxContact bounds a contact, in bytes. Some servers refuse long headers.
const maxContact = 256

// CheckContact returns an error if a contact cannot be sent in a User-Agent. It has to be an http, https or
// mailto URL of at most 256 printable ASCII characters without parentheses and semicolons; "" is none.
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

// userAgent says who asks, and for how many readers, as feed readers do that
// poll for more than one.
func (c *Client) userAgent(subscribers int) string {
	version := c.config.Version
	if version == "" {
		version = "0"
	}
	about := ""
	if c.config.Contact != "" {
		about = "+" + c.config.Contact
	}
	switch {
	case subscribers == 1:
		about = join(about, "1 subscriber")
	case subscribers > 1:
		about = join(about, fmt.Sprintf("%d subscribers", subscribers))
	}
	if about == "" {
		return "tidings/" + version
	}
	return fmt.Sprintf("tidings/%s (%s)", version, about)
}

func join(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}
