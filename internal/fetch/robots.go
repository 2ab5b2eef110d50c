package fetch

import (
	"net/http"
	"time"

	"github.com/temoto/robotstxt"

	"tidings/internal/env"
)

const (
	// robotsName is the name of this program in a robots.txt (RFC 9309, section 2.2.1).
	robotsName = "tidings"
	// rulesTTL is how long a robots.txt is cached, the maximum of RFC 9309, section 2.4. rulesRetry is
	// the delay after a failed fetch.
	rulesTTL   = 24 * time.Hour
	rulesRetry = 10 * time.Minute
	// maxRobots bounds the bytes of a robots.txt that are read. Section 2.5 asks for 500 KiB at least.
	maxRobots = 512 << 10
	// maxRules bounds the origins whose rules are cached.
	maxRules = 4096
)

// rules are the permissions of an origin's robots.txt.
type rules struct {
	group   *robotstxt.Group // nil: everything is allowed
	failed  *env.Answer      // the failed answer; nil: robots.txt was read, or there is none
	until   time.Time
	waiting []*job // jobs that wait for the robots.txt; nil: it has arrived
}

// checkRobots holds a job until the robots.txt of its origin is known, and then queues it.
func (c *Client) checkRobots(j *job) {
	origin := j.target.scheme + "://" + j.target.host
	c.mu.Lock()
	r := c.rules[origin]
	fetches := r == nil || r.waiting == nil && !c.now().Before(r.until)
	if fetches {
		if len(c.rules) >= maxRules {
			c.forgetRules()
		}
		r = &rules{}
		c.rules[origin] = r
	}
	if fetches || r.waiting != nil {
		r.waiting = append(r.waiting, j)
		c.mu.Unlock()
		if fetches {
			c.enqueue(&job{target: newTarget(origin + "/robots.txt"), public: j.public, done: func(a env.Answer) {
				j.asked += a.Requests
				c.storeRules(r, a)
			}}, false)
		}
		return
	}
	c.mu.Unlock()
	c.enqueueIfAllowed(r, j)
}

// forgetRules drops expired rules, or all if none has expired.
func (c *Client) forgetRules() {
	for origin, r := range c.rules {
		if r.waiting == nil && !c.now().Before(r.until) {
			delete(c.rules, origin)
		}
	}
	if len(c.rules) < maxRules {
		return
	}
	for origin, r := range c.rules {
		if r.waiting == nil {
			delete(c.rules, origin)
		}
	}
}

// storeRules stores the answer for a robots.txt and continues the waiting jobs. If the robots.txt
// cannot be fetched, everything is forbidden (section 2.3.1.4).
func (c *Client) storeRules(r *rules, a env.Answer) {
	life := rulesTTL
	switch {
	case a.Err == env.ErrBusy, a.Err == env.ErrRefused: // this node has not asked, and may do so for another page
		r.failed, life = &a, 0
	case a.Err != "" || a.Status >= http.StatusInternalServerError || a.Status == http.StatusTooManyRequests:
		a.Message = "robots.txt cannot be read: " + a.Message
		r.failed, life = &a, rulesRetry
	case a.Status == http.StatusOK:
		if robots, err := robotstxt.FromBytes(a.Body[:min(len(a.Body), maxRobots)]); err == nil {
			r.group = robots.FindGroup(robotsName)
		} // an unreadable robots.txt forbids nothing
	}
	c.mu.Lock()
	waiting := r.waiting
	r.waiting, r.until = nil, c.now().Add(life)
	c.mu.Unlock()
	for _, j := range waiting {
		c.enqueueIfAllowed(r, j)
	}
}

// enqueueIfAllowed queues a job if the rules of its origin allow it.
func (c *Client) enqueueIfAllowed(r *rules, j *job) {
	switch {
	case r.failed != nil:
		a := *r.failed
		a.FinalURL, a.Body, a.ETag, a.LastModified = j.target.url, nil, "", ""
		c.answer(j, a)
	case r.group != nil && !r.group.Test(j.target.rest):
		c.answer(j, j.errorAnswer(env.ErrRobots, "robots.txt of the web server forbids programs to read this page"))
	default:
		c.enqueue(j, j.started)
	}
}
