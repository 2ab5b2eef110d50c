package fetch

import (
	"net/http"
	"time"

	"github.com/temoto/robotstxt"

	"tidings/internal/env"
)

const (
	// robotsName is the group of a robots.txt that is ours (RFC 9309, section 2.2.1).
	robotsName = "tidings"
	// robotsLife is how long what a robots.txt says is remembered, as RFC 9309, section 2.4, has
	// it at most; robotsAgain is for one that could not be had.
	robotsLife  = 24 * time.Hour
	robotsAgain = 10 * time.Minute
	// maxRobots is how much of one is read, in bytes: section 2.5 wants 500 KiB.
	maxRobots = 512 << 10
	// maxRules bounds the origins whose rules are remembered.
	maxRules = 4096
)

// rules are what the robots.txt of an origin allows.
type rules struct {
	group   *robotstxt.Group // nil: all
	failed  *env.Answer      // to who asked for it; nil: it could be had, or there is none
	until   time.Time
	waiting []*job // for it; nil: it is there
}

// obey lets a job wait for what its origin's robots.txt says, and then for its turn.
func (c *Client) obey(j *job) {
	origin := j.at.scheme + "://" + j.at.host
	c.mu.Lock()
	r := c.rules[origin]
	asks := r == nil || r.waiting == nil && !c.now().Before(r.until)
	if asks {
		if len(c.rules) >= maxRules {
			c.forgetRules()
		}
		r = &rules{}
		c.rules[origin] = r
	}
	if asks || r.waiting != nil {
		r.waiting = append(r.waiting, j)
		c.mu.Unlock()
		if asks {
			c.enter(&job{at: newTarget(origin + "/robots.txt"), then: func(a env.Answer) { c.learn(r, a) }}, false)
		}
		return
	}
	c.mu.Unlock()
	c.enterIf(r, j)
}

// forgetRules drops those that count no longer, or all if all do.
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

// learn takes a robots.txt, or that there is none, and lets go on who waits for it. One that
// cannot be had forbids everything (section 2.3.1.4).
func (c *Client) learn(r *rules, a env.Answer) {
	life := robotsLife
	switch {
	case a.Err != "" || a.Status >= http.StatusInternalServerError || a.Status == http.StatusTooManyRequests:
		a.Words = "robots.txt cannot be read: " + a.Words
		r.failed, life = &a, robotsAgain
	case a.Status == http.StatusOK:
		if of, err := robotstxt.FromBytes(a.Body[:min(len(a.Body), maxRobots)]); err == nil {
			r.group = of.FindGroup(robotsName)
		} // else it says nothing
	}
	c.mu.Lock()
	waiting := r.waiting
	r.waiting, r.until = nil, c.now().Add(life)
	c.mu.Unlock()
	for _, j := range waiting {
		c.enterIf(r, j)
	}
}

// enterIf lets a job wait for its turn if the rules of its origin allow it.
func (c *Client) enterIf(r *rules, j *job) {
	switch {
	case r.failed != nil:
		a := *r.failed
		a.FinalURL, a.Body, a.ETag, a.LastModified = j.at.url, nil, "", ""
		c.answer(j, a)
	case r.group != nil && !r.group.Test(j.at.rest):
		c.answer(j, j.failed(env.ErrRobots, "robots.txt of the web server forbids programs to read this page"))
	default:
		c.enter(j, len(j.hops) > 0)
	}
}
