package corona

import (
	"errors"
	"strings"
	"time"

	"tidings/corona/coronapb"
	"tidings/difference/page"
	"tidings/internal/env"
	"tidings/internal/feed"
)

// Answered takes the response to a request.
func (c *Corona) Answered(h env.Handle, a env.Answer) {
	var p request
	if d := c.poller.takeOutstanding(h); d != nil {
		if d.waiting != h {
			return // the response came after the timeout
		}
		p = request{key: d.key(), kind: scheduled, assignment: d}
	} else if other, ok := c.requests.open[h]; ok {
		p = other
		delete(c.requests.open, h)
	} else {
		return
	}
	r := observationOf(a)
	if a.Status != 200 || len(a.Body) == 0 {
		c.handleAnswer(p, h, a, r, nil)
		return
	}
	c.parse(p, h, a, r)
}

// parse reads a document off the loop.
func (c *Corona) parse(p request, h env.Handle, a env.Answer, r observation) {
	if _, isPage := c.atOrigin(p); isPage {
		c.parsePage(p, h, a, r)
		return
	}
	var err error
	c.worker.Do(func() {
		if r.f, err = feed.Parse(a.Body, a.ContentType); err != nil && p.kind == onDemand {
			r.offer = offerOf(a)
		}
	}, func() { c.handleAnswer(p, h, a, r, err) })
}

// handleAnswer classifies a response and passes it to the part that made the request.
func (c *Corona) handleAnswer(p request, h env.Handle, a env.Answer, r observation, err error) {
	now := c.clock.Now()
	verdict := classify(a, r.f, err)
	verdict.Since, verdict.Polled = now, now
	if d := p.assignment; d != nil {
		if d.waiting != h {
			return // the response came after the timeout
		}
		if d.domain != nil {
			d.domain.noteAddress(a)
		}
		if a.Err == env.ErrBusy || verdict.Kind == coronapb.State_UNREACHABLE {
			d.refundPoll()
		}
		if l := c.leaders[p.key]; l == nil && verdict.Kind == coronapb.State_OK && r.f != nil {
			c.app.Saw(p.key, &r.f.Head, r.secure(d.target.url)) // a sequencer calls Saw in takeObservation
		}
		c.poller.answered(d, a, r, verdict, now)
		return
	}
	if p.kind == lone {
		c.lonePolls.answered(h, p.key, a, r, verdict, now)
		return
	}
	d, l := c.assignments.Get(p.key), c.sequencer.leaders[p.key]
	if d != nil && d.domain != nil {
		d.domain.noteAddress(a)
	} else if l != nil {
		l.domain.noteAddress(a)
	}
	switch {
	case p.kind == onDemand:
		url := c.requests.onDemandURLs[p.key]
		delete(c.requests.onDemandURLs, p.key)
		switch {
		case verdict.Kind != coronapb.State_OK:
			r.f = nil
		case r.page != nil:
			r.f.Items = nil // of a page, readers read the changes only
		default:
			c.app.Saw(p.key, &r.f.Head, r.secure(url))
		}
		c.app.Fetched(p.key, r.f, r.offer, verdict)
	case p.kind == initial && l != nil && l.fetching == h:
		l.fetching = 0
		switch {
		case d != nil && d.waiting == 0:
			c.poller.answered(d, a, r, verdict, now)
		case a.Err == env.ErrBusy:
			l.fetchedAt = time.Time{}
		case verdict.Kind == coronapb.State_OK:
			c.sequencer.takeObservation(l, env.Peer{}, r, now)
		default:
			if verdict.Kind == coronapb.State_LIMITED && !a.Private {
				c.domains.limit(l.domain, now.Add(rateLimitOf(a, 1)))
			}
			c.sequencer.noteFailure(l, "", verdict, now)
		}
	}
}

// observationOf returns what a response says, without its document.
func observationOf(a env.Answer) observation {
	r := observation{valid: validators{a.ETag, a.LastModified, a.FinalURL}, maxAge: a.MaxAge, private: a.Private, size: len(a.Body)}
	if a.Moved {
		r.moved = a.FinalURL
	}
	return r
}

// secure says whether nobody on the way could have changed a document fetched from url. Without
// HTTPS at the start, anybody on the way could redirect to a server of their own.
func (r *observation) secure(url string) bool {
	return r.private || strings.HasPrefix(url, "https://") && strings.HasPrefix(r.valid.url, "https://")
}

// atOrigin returns the address that a request is for, and whether it is a page.
func (c *Corona) atOrigin(p request) (address string, isPage bool) {
	switch d, l := c.assignments.Get(p.key), c.sequencer.leaders[p.key]; {
	case p.assignment != nil:
		return feed.AtOrigin(p.assignment.target.url)
	case p.kind == lone && c.lonePolls.byKey[p.key] != nil:
		return feed.AtOrigin(c.lonePolls.byKey[p.key].url)
	case l != nil:
		return feed.AtOrigin(l.url)
	case d != nil:
		return feed.AtOrigin(d.target.url)
	default:
		return feed.AtOrigin(c.requests.onDemandURLs[p.key])
	}
}

// parsePage reads a page off the loop. A poller that is not the sequencer also compares the page
// with its own memory.
func (c *Corona) parsePage(p request, h env.Handle, a env.Answer, r observation) {
	var m *page.Memory
	if d := p.assignment; d != nil && !d.led {
		m = new(page.Memory)
		if w := d.extras().pageWatch; w != nil {
			*m = w.memory.Clone()
		}
	}
	now := c.clock.Now()
	address, _ := c.atOrigin(p)
	var err error
	c.worker.Do(func() {
		var core page.Core
		if core, err = page.Read(a.Body, a.ContentType, page.Place{Address: address, Found: a.FinalURL}); err == nil {
			err = errLarge(&core)
		}
		if p.kind == onDemand {
			r.offer = offerOf(a)
			_, none := feed.Parse(a.Body, a.ContentType)
			r.offer.Feed, r.offer.Doubt = none == nil, new(page.Memory).Look(core, now).Reason
		}
		if err != nil {
			return
		}
		s := newPageView(core)
		r.page = s
		if m != nil {
			if s.verdict = s.judge(*m, now); s.verdict.Kind == page.Failed {
				err = errors.New(s.verdict.Reason)
				return
			}
		}
		r.f = &feed.Feed{Head: feed.Head{Title: core.Title}, Items: []feed.Item{s.bare()}}
	}, func() { c.handleAnswer(p, h, a, r, err) })
}
