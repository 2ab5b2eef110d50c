package corona

import (
	"slices"
	"time"

	"tidings/corona/coronapb"
	"tidings/difference"
	"tidings/difference/page"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/overlay"
)

// lonePoll is a channel that this node polls for its own readers, because it knows no node that
// polls the channel for them (feedtree/cutoff.go). A lone poll has no wedge, no sequencer and no
// grant. The node acts as one feed reader among others, with the interval, floors, hints and
// back-off of a poller. What it finds goes only to this node's readers.
type lonePoll struct {
	key       overlay.ID
	url       string
	domain    *domain
	private   bool
	hints     feed.Hints
	maxAge    time.Duration // max-age of the last response
	valid     validators    // of the last document that was shown
	page      *page.Memory  // nil: the channel is a feed, or was not fetched yet
	suspicion time.Time     // since when documents look like another feed; zero: they do not
	interval  time.Duration
	why       string // the rule that set interval
	state     State
	fails     int
	asked     time.Time
	waiting   env.Handle // handle of the poll in flight; 0: none
	// ended means that other nodes poll the channel again. The lonePoll stays until its next poll
	// would have been due. Otherwise this node would forget the origin's limits each time an
	// unstable network recovers.
	ended bool
}

// LocalReaders stands for the readers of this node, for whom lone polls are made.
type LocalReaders interface {
	// Recall calls then with what this node knows of a channel: its log, and items shown beside it.
	Recall(key overlay.ID, then func(*difference.Known))

	// ShowAlone shows what a lone poll has found.
	ShowAlone(key overlay.ID, d difference.Delta)

	// AloneStateChanged says that Alone returns a new state for a channel.
	AloneStateChanged(key overlay.ID)
}

// ServeReaders makes PollAlone possible. Without it a Corona makes no lone polls.
func (c *Corona) ServeReaders(local LocalReaders) { c.localReaders = local }

// lonePhaseEighths is the part of an interval, in eighths, over which nodes that lose their network
// at the same moment spread their first polls. The rest is left for the response, so that news
// arrives within two intervals.
const lonePhaseEighths = 7

// PollAlone starts to poll a channel for the readers of this node alone, at a random time within an
// interval. With on = false it stops.
func (c *Corona) PollAlone(key overlay.ID, url string, on bool) {
	p := c.lonePolls[key]
	switch {
	case on && p != nil:
		p.ended = false
	case on:
		now := c.clock.Now()
		name, private := originOf(url)
		p = &lonePoll{key: key, url: url, domain: c.domains.refer(name, private), private: private}
		p.interval, p.why = c.intervalOf(private, p.hints, 0, 0)
		p.state = State{Kind: coronapb.State_NEW, Since: now}
		c.lonePolls[key] = p
		c.planLone(p, now.Add(time.Duration(c.rand.Int64N(int64(min(p.interval, c.cfg.PollInterval)/8*lonePhaseEighths)))), "")
	case p != nil:
		if p.ended = true; p.waiting != 0 {
			p.waiting = 0 // the response is no longer needed
			c.planLone(p, p.asked.Add(p.interval), "")
		}
	}
}

// Alone returns the state of this node's lone polls of a channel; ok is false if it makes none.
func (c *Corona) Alone(key overlay.ID) (s State, ok bool) {
	p := c.lonePolls[key]
	if p == nil || p.ended {
		return State{}, false
	}
	s = p.state
	s.Interval, s.Pollers = p.interval, 1
	return s, true
}

// planLone sets the time of the next poll.
func (c *Corona) planLone(p *lonePoll, at time.Time, why string) {
	if !p.private {
		if to := skipsOf(p.hints).after(at); !to.Equal(at) {
			// A random delay keeps all nodes with the same hints from polling when the hour ends.
			at, why = to.Add(time.Duration(c.rand.Int64N(int64(p.interval)))), "the feed's skipHours and skipDays"
		}
	}
	if why == "" {
		why = p.why
	}
	p.state.Next, p.state.Why = at, why
	c.loneCalendar.Add(at, p.key)
}

func (p *lonePoll) isPage() bool {
	_, is := feed.AtOrigin(p.url)
	return is
}

// loneDue asks the origin, unless the origin is rate-limited or this node has just polled it as a
// poller.
func (c *Corona) loneDue(p *lonePoll, now time.Time) {
	if p.ended {
		c.domains.release(p.domain)
		delete(c.lonePolls, p.key)
		return
	}
	if p.waiting != 0 { // the response never came
		c.stats.Late++
		delete(c.otherRequests, p.waiting)
		p.waiting = 0
	}
	if limitedUntil := p.domain.limitedUntil; !p.private && limitedUntil.after(now) {
		c.planLone(p, limitedUntil.time().Add(time.Duration(c.rand.Int64N(int64(p.interval)))), p.domain.name+" asks for fewer requests")
		return
	}
	if d := c.assignments.Get(p.key); d != nil && d.polled && now.Sub(d.polledAt.time()) < p.interval && !p.isPage() {
		c.planLone(p, d.polledAt.time().Add(p.interval), "") // that poll's document was shown, too
		return
	}
	c.lastHandle++
	p.waiting, p.asked = c.lastHandle, now
	c.otherRequests[c.lastHandle] = request{key: p.key, kind: lone}
	url, isPage := feed.AtOrigin(p.url)
	c.stats.Lone++
	c.planLone(p, now.Add(answerTimeout), "")
	c.fetcher.Fetch(c.lastHandle, env.Request{
		URL: url, Robots: isPage, ETag: p.valid.etag, LastModified: p.valid.lastModified, ValidatedURL: p.valid.url,
	})
}

// loneAnswered takes the response to a lone poll.
func (c *Corona) loneAnswered(h env.Handle, key overlay.ID, a env.Answer, r observation, verdict State, now time.Time) {
	p := c.lonePolls[key]
	if p == nil || p.waiting != h {
		return // the poll was ended or repeated
	}
	p.waiting = 0
	if p.domain.noteAddress(a); a.Err == env.ErrBusy {
		c.stats.Busy++
		c.planLone(p, now.Add(busyRetry/2+time.Duration(c.rand.Int64N(int64(busyRetry)))), "waiting for other requests to its host")
		return
	}
	p.private = a.Private || a.Err != "" && p.private
	if verdict.Kind != coronapb.State_OK {
		c.loneFailed(p, a, verdict, now)
		return
	}
	p.fails, p.maxAge = 0, r.maxAge
	if r.f != nil {
		p.hints = r.f.Hints
	}
	p.interval, p.why = c.intervalOf(p.private, p.hints, p.maxAge, 0)
	c.planLone(p, p.asked.Add(p.interval), "")
	if r.f == nil {
		if p.page != nil {
			p.page.Unchanged(now)
		}
		c.saidAlone(p, verdict, now)
		return
	}
	c.showAlone(p, r, verdict, now)
}

// loneFailed plans the next poll after a failure.
func (c *Corona) loneFailed(p *lonePoll, a env.Answer, s State, now time.Time) {
	c.stats.Failed++
	p.fails++
	b := c.backOff(s, a, p.fails, p.interval, p.private, p.domain.name)
	if b.limitDomain > 0 {
		c.domains.limit(p.domain, now.Add(b.limitDomain))
	}
	if s.Kind == coronapb.State_UNREACHABLE && b.wait > c.cfg.PollInterval && !b.asked {
		// A node that hears of nobody and reaches no origin has most likely lost its own
		// connection. An unreachable origin was not bothered, so the minimum interval does not
		// apply.
		b.wait, b.why = c.cfg.PollInterval, "not reachable at the last poll"
	}
	c.planLone(p, now.Add(b.wait+time.Duration(c.rand.Int64N(int64(b.wait/20)+1))), b.why)
	c.saidAlone(p, s, now)
}

// saidAlone sets the state of a lone poll.
func (c *Corona) saidAlone(p *lonePoll, s State, now time.Time) {
	s.Next, s.Why, s.Polled, s.Since = p.state.Next, p.state.Why, now, now
	if s.Kind == p.state.Kind {
		s.Since = p.state.Since
	}
	p.state = s
	c.localReaders.AloneStateChanged(p.key)
}

// showAlone shows what is new in a document. It reads the log and the shown items each time instead
// of keeping them, because a node may be cut off from thousands of feeds at once.
func (c *Corona) showAlone(p *lonePoll, r observation, verdict State, now time.Time) {
	c.localReaders.Recall(p.key, func(known *difference.Known) {
		if c.lonePolls[p.key] != p || p.ended {
			return
		}
		if r.page != nil {
			c.showPage(p, r, known, verdict, now)
			return
		}
		if reason := known.Suspicious(r.f); reason == "" {
			p.suspicion = time.Time{}
		} else {
			if p.suspicion.IsZero() {
				p.suspicion = now
			}
			if now.Sub(p.suspicion) < suspicionPeriodOf(p.private, p.interval) {
				c.stats.Failed++
				c.saidAlone(p, State{Kind: coronapb.State_NOT_A_FEED, Detail: reason + ifItStays}, now)
				return
			}
		}
		p.valid = r.valid
		c.app.Saw(p.key, &r.f.Head, r.secure(p.url))
		f := *r.f // the sequencer, if it is alive, needs the document unchanged
		f.Items = slices.Clone(f.Items)
		known.Recognise(&f)
		d := known.Diff(&f)
		d.Head = &f.Head
		c.saidAlone(p, verdict, now)
		c.localReaders.ShowAlone(p.key, d)
	})
}

// showPage shows a new version of a page, compared with the versions in the log.
func (c *Corona) showPage(p *lonePoll, r observation, known *difference.Known, verdict State, now time.Time) {
	if p.page == nil {
		m := known.Page().Clone()
		p.page = &m
	}
	var j *pageVerdict
	m := p.page.Clone()
	c.worker.Do(func() {
		j = r.page.judge(m, now)
		j.buildDelta(p.url)
	}, func() {
		if c.lonePolls[p.key] != p || p.ended {
			return
		}
		*p.page = j.after
		if j.Kind == page.Failed || j.err != nil {
			c.stats.Failed++
			c.saidAlone(p, State{Kind: coronapb.State_BROKEN, Detail: j.reason()}, now)
			return
		}
		p.valid = r.validAfter(p.page)
		c.saidAlone(p, verdict, now)
		if j.Kind == page.News {
			c.localReaders.ShowAlone(p.key, j.delta)
		}
	})
}

// HandOver reports what lone polls have found to the channel's sequencer, as a poller reports its
// changes. known are some items of the log, which show that the items belong to this channel.
func (c *Corona) HandOver(key overlay.ID, head *feed.Head, items []feed.Item, known []difference.Entry) {
	if head == nil || len(items) == 0 {
		return
	}
	f := &feed.Feed{Head: *head, Items: slices.Clone(items)}
	for _, e := range known {
		f.Items = append(f.Items, feed.Item{ID: e.ID, Hash: e.Hash})
	}
	f.Items = f.Items[:min(len(f.Items), feed.MaxItems)]
	c.keepReport(&pendingReport{nonce: c.rand.Uint64(), key: key, observation: observation{f: f, handedOver: true}, fingerprints: fingerprintsOf(f), since: c.clock.Now()})
}

// takeHanded takes items that a node found while it was cut off. The origin may no longer show
// them, so the sequencer learns nothing about the feed's document from them. It calls answer when
// the log holds them.
func (c *Corona) takeHanded(l *leaderState, r observation, answer func()) {
	if l.page || l.known.Suspicious(r.f) != "" {
		return
	}
	l.known.Recognise(r.f)
	d := l.known.Diff(r.f)
	d.Head = nil
	if d.Empty() {
		answer()
		return
	}
	l.inFlight++
	taken := c.app.Found(l.key, d, r.f, func(ok bool) {
		l.inFlight--
		if ok && c.leaders[l.key] == l {
			answer()
		}
	})
	if !taken {
		l.inFlight--
		return // the node offers them again
	}
	c.stats.Items += uint64(len(d.Changes))
	l.known.Add(d)
}
