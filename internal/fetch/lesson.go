package fetch

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"time"

	"tidings/internal/env"
)

const (
	// lessonTTL is how long a lesson holds. A host that was repaired is asked in the usual way again
	// after it, and until then no poll pays for the detour.
	lessonTTL = 6 * time.Hour
	// maxLessons bounds the hosts and addresses of which a client has learned something. A client that
	// forgets learns the same again with one more request.
	maxLessons = 4096
)

// A lesson is what a client has learned about how a host, or one document, wants to be asked.
type lesson struct {
	html    bool         // of a host: it refuses requests whose Accept does not name text/html
	silent  []netip.Addr // of a host: addresses that accept connections and do not answer
	tagForm int          // of a document: how many forms of its ETag it has not recognised
	until   time.Time    // when the lesson is forgotten
}

// lesson returns what was learned about a host or a document.
func (c *Client) lesson(of string) lesson {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l, ok := c.lessons[of]; ok && c.now().Before(l.until) {
		return l
	}
	return lesson{}
}

// learn changes the lesson of a host or a document.
func (c *Client) learn(of string, change func(*lesson)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	l := c.lessons[of]
	if !now.Before(l.until) {
		l = lesson{}
	}
	change(&l)
	l.until = now.Add(lessonTTL)
	if _, known := c.lessons[of]; !known && len(c.lessons) >= maxLessons {
		clear(c.lessons)
	}
	c.lessons[of] = l
}

// Values of Accept. They select the document at origins that offer several at one address.
const (
	accept = feedTypes + ", */*;q=0.5"
	// acceptHTML is for origins that refuse requests without text/html, although they then send a feed.
	// An origin that offers both a page and a feed still prefers the feed.
	acceptHTML = feedTypes + ", text/html;q=0.5, */*;q=0.5"
	// acceptPage is for pages, as browsers send it.
	acceptPage = "text/html, application/xhtml+xml, application/xml;q=0.9, */*;q=0.8"

	feedTypes = "application/atom+xml, application/rss+xml, application/feed+json, application/rdf+xml, " +
		"application/xml;q=0.9, text/xml;q=0.9"
)

// acceptFor returns the Accept for the next request of a job.
func (c *Client) acceptFor(j *job) string {
	switch {
	case j.request.Robots:
		return acceptPage
	case c.lesson(j.target.queue).html:
		return acceptHTML
	}
	return accept
}

// refusesTypes reports whether a job is worth another request after an answer, because the origin wants
// text/html in Accept.
func (c *Client) refusesTypes(j *job, status int) bool {
	if status != http.StatusNotAcceptable || j.request.Robots || j.request.Form != "" || c.lesson(j.target.queue).html {
		return false
	}
	c.learn(j.target.queue, func(l *lesson) { l.html = true })
	return true
}

// packedTag matches an ETag to which a web server has appended the name of a compression.
var packedTag = regexp.MustCompile(`^(.*[^-;:.+_"])[-;:.+_]+(?:gzip|gz|deflate|df|br|zstd)"$`)

// tagForms returns the values of If-None-Match by which a web server may recognise an ETag. Many append
// the name of the compression to the ETag of what they compress, and then do not recognise it. The
// empty value leaves the date alone.
func tagForms(r env.Request) []string {
	tag := validator(r.ETag)
	m := packedTag.FindStringSubmatch(tag)
	if m == nil {
		return []string{tag}
	}
	forms := []string{tag + ", " + m[1] + `"`, m[1] + `"`, tag}
	if validator(r.LastModified) != "" {
		forms = append(forms, "")
	}
	return forms
}

// tagToSend returns the If-None-Match of the next request of a job.
func (c *Client) tagToSend(j *job) string {
	forms := tagForms(j.request)
	if len(forms) == 1 {
		return forms[0]
	}
	return forms[c.lesson(j.target.url).tagForm%len(forms)]
}

// checkTag learns from the answer to a conditional request: a web server that sends the document again
// under the ETag that it was asked by has not recognised that form.
func (c *Client) checkTag(j *job, a *env.Answer) {
	if !j.conditional() || len(tagForms(j.request)) == 1 {
		return
	}
	if a.Status == http.StatusOK && a.ETag == j.request.ETag {
		c.learn(j.target.url, func(l *lesson) { l.tagForm++ })
	}
}

// isSilent reports whether the address of a job's last request accepted the connection and did not
// answer, and the host has another address that is worth one more request. The client leaves the silent
// address alone for some hours. Racing connections would not help, because the connection is made.
func (c *Client) isSilent(ctx context.Context, j *job, progress *progress, a env.Answer) bool {
	at, silent := progress.get(), progress.connected.Load()
	if j.other || a.Err != env.ErrTimeout || at != securing && at != waiting || silent == nil {
		return false
	}
	host := j.target.httpURL().Hostname()
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil || !slices.ContainsFunc(addrs, func(ip netip.Addr) bool { return ip.Unmap() != *silent }) {
		return false
	}
	c.learn(host, func(l *lesson) {
		if len(l.silent) < maxSilent && !slices.Contains(l.silent, *silent) {
			l.silent = append(slices.Clone(l.silent), *silent)
		}
	})
	j.other = true
	return true
}

// maxSilent bounds the silent addresses of one host. Hosts have a few addresses of each family.
const maxSilent = 16

// A dialFunc connects to a host, as DialContext of a net.Dialer does.
type dialFunc func(ctx context.Context, network, addr string) (net.Conn, error)

// silentLast returns a function that connects to a host, and tries the addresses that were silent last.
func (c *Client) silentLast(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		host, port, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, err
		}
		silent := c.lesson(host).silent
		if len(silent) == 0 {
			return dial(ctx, network, addr)
		}
		addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		if err != nil {
			return nil, err
		}
		var conn net.Conn
		for _, ip := range leastSilent(addrs, silent) {
			if conn, err = dial(ctx, network, net.JoinHostPort(ip.String(), port)); err == nil || ctx.Err() != nil {
				break
			}
		}
		return conn, err
	}
}

// leastSilent sorts the addresses of a host: first those of a family that has not been silent, then the
// others of the same family, then the silent ones.
func leastSilent(addrs, silent []netip.Addr) []netip.Addr {
	rank := func(ip netip.Addr) int {
		switch ip = ip.Unmap(); {
		case slices.Contains(silent, ip):
			return 2
		case slices.ContainsFunc(silent, func(s netip.Addr) bool { return s.Is4() == ip.Is4() }):
			return 1
		}
		return 0
	}
	addrs = slices.Clone(addrs)
	slices.SortStableFunc(addrs, func(a, b netip.Addr) int { return rank(a) - rank(b) })
	return addrs
}
