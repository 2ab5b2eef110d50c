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
	page      *page.Tracker // nil: the channel is a feed, or was not fetched yet
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

// lonePolls are the channels that this node polls for its own readers.
type lonePolls struct {
	*base
	domains  *domains
	requests *requests
	lastPoll func(key overlay.ID) (at time.Time, ok bool) // this node's last poll as a poller of the channel

	byKey        map[overlay.ID]*lonePoll
	localReaders LocalReaders // nil: there are no lone polls
	calendar     env.Calendar[overlay.ID]
}

// run makes the polls that are due.
func (lp *lonePolls) run(now time.Time) {
	for key, at, ok := lp.calendar.Pop(now); ok; key, at, ok = lp.calendar.Pop(now) {
		if p := lp.byKey[key]; p != nil && p.state.Next.Equal(at) {
			lp.due(p, now)
		}
	}
}

// ServeReaders makes PollAlone possible. Without it a Corona makes no lone polls.
func (lp *lonePolls) ServeReaders(local LocalReaders) { lp.localReaders = local }

// lonePhaseEighths is the part of an interval, in eighths, over which nodes that lose their network
// at the same moment spread their first polls. The rest is left for the response, so that news
// arrives within two intervals.
const lonePhaseEighths = 7

// PollAlone starts to poll a channel for the readers of this node alone, at a random time within an
// interval. With on = false it stops.
func (lp *lonePolls) PollAlone(key overlay.ID, url string, on bool) {
	p := lp.byKey[key]
	switch {
	case on && p != nil:
		p.ended = false
	case on:
		now := lp.clock.Now()
		name, private := Origin(url)
		p = &lonePoll{key: key, url: url, domain: lp.domains.refer(name, private), private: private}
		p.interval, p.why = lp.rules().Interval(private, p.hints, 0, 0)
		p.state = State{Kind: coronapb.State_NEW, Since: now}
		lp.byKey[key] = p
		lp.plan(p, now.Add(time.Duration(lp.rand.Int64N(int64(min(p.interval, lp.cfg.PollInterval)/8*lonePhaseEighths)))), "")
	case p != nil:
		if p.ended = true; p.waiting != 0 {
			p.waiting = 0 // the response is no longer needed
			lp.plan(p, p.asked.Add(p.interval), "")
		}
	}
}

// Alone returns the state of this node's lone polls of a channel; ok is false if it makes none.
func (lp *lonePolls) Alone(key overlay.ID) (s State, ok bool) {
	p := lp.byKey[key]
	if p == nil || p.ended {
		return State{}, false
	}
	s = p.state
	s.Interval, s.Pollers = p.interval, 1
	return s, true
}

// plan sets the time of the next poll.
func (lp *lonePolls) plan(p *lonePoll, at time.Time, why string) {
	if !p.private {
		if to := skipsOf(p.hints).after(at); !to.Equal(at) {
			// A random delay keeps all nodes with the same hints from polling when the hour ends.
			at, why = to.Add(time.Duration(lp.rand.Int64N(int64(p.interval)))), "the feed's skipHours and skipDays"
		}
	}
	if why == "" {
		why = p.why
	}
	p.state.Next, p.state.Why = at, why
	lp.calendar.Add(at, p.key)
}

func (p *lonePoll) isPage() bool {
	_, is := feed.DocumentURL(p.url)
	return is
}

// due asks the origin, unless the origin is rate-limited or this node has just polled it as a
// poller.
func (lp *lonePolls) due(p *lonePoll, now time.Time) {
	if p.ended {
		lp.domains.release(p.domain)
		delete(lp.byKey, p.key)
		return
	}
	if p.waiting != 0 { // the response never came
		lp.stats.Late++
		delete(lp.requests.open, p.waiting)
		p.waiting = 0
	}
	if limitedUntil := p.domain.limitedUntil; limitedUntil.After(now) {
		lp.plan(p, limitedUntil.Time().Add(time.Duration(lp.rand.Int64N(int64(p.interval)))), p.domain.name+" asks for fewer requests")
		return
	}
	if at, ok := lp.lastPoll(p.key); ok && now.Sub(at) < p.interval && !p.isPage() {
		lp.plan(p, at.Add(p.interval), "") // that poll's document was shown, too
		return
	}
	p.waiting, p.asked = lp.requests.add(request{url: p.url, then: func(h env.Handle, a env.Answer, r observation, verdict State, now time.Time) {
		if p.waiting == h { // otherwise the poll was ended or repeated
			lp.answered(p, a, r, verdict, now)
		}
	}}), now
	url, isPage := feed.DocumentURL(p.url)
	lp.stats.Lone++
	lp.plan(p, now.Add(answerTimeout), "")
	lp.requests.fetcher.Fetch(p.waiting, env.Request{
		URL: url, Robots: isPage, ETag: p.valid.etag, LastModified: p.valid.lastModified, ValidatedURL: p.valid.url,
	})
}

// answered takes the response to a lone poll.
func (lp *lonePolls) answered(p *lonePoll, a env.Answer, r observation, verdict State, now time.Time) {
	p.waiting = 0
	p.domain.noteAddress(a)
	if verdict.Kind != coronapb.State_LIMITED || a.Err != "" { // otherwise backOff sets the limit
		if pause := p.domain.answered(a); pause > 0 {
			lp.domains.limit(p.domain, now.Add(pause))
		}
	}
	if a.Err == env.ErrBusy && a.RetryAfter > 0 {
		lp.plan(p, p.domain.limitedUntil.Time(), p.domain.name+" asks for fewer requests")
		return
	} else if a.Err == env.ErrBusy {
		lp.plan(p, now.Add(lp.requests.busyPause()), "waiting for other requests to its host")
		return
	}
	p.private = a.Private || a.Err != "" && p.private
	if verdict.Kind != coronapb.State_OK {
		lp.failed(p, a, verdict, now)
		return
	}
	p.fails, p.maxAge = 0, r.maxAge
	if r.f != nil {
		p.hints = r.f.Hints
	}
	p.interval, p.why = lp.rules().Interval(p.private, p.hints, p.maxAge, 0)
	lp.plan(p, p.asked.Add(p.interval), "")
	if r.f == nil {
		if p.page != nil {
			p.page.Unchanged(now)
		}
		lp.setState(p, verdict, now)
		return
	}
	lp.showAlone(p, r, verdict, now)
}

// failed plans the next poll after a failure.
func (lp *lonePolls) failed(p *lonePoll, a env.Answer, s State, now time.Time) {
	lp.stats.Failed++
	p.fails++
	b := lp.rules().BackOff(s, a, p.fails, p.interval, p.private, p.domain.name)
	if b.LimitDomain > 0 {
		lp.domains.limit(p.domain, now.Add(b.LimitDomain))
	}
	if s.Kind == coronapb.State_UNREACHABLE && b.Wait > lp.cfg.PollInterval && !b.Asked {
		// A node that hears of nobody and reaches no origin has most likely lost its own
		// connection. An unreachable origin was not bothered, so the minimum interval does not
		// apply.
		b.Wait, b.Why = lp.cfg.PollInterval, "not reachable at the last poll"
	}
	lp.plan(p, now.Add(b.Wait+time.Duration(lp.rand.Int64N(int64(b.Wait/20)+1))), b.Why)
	lp.setState(p, s, now)
}

// setState sets the state of a lone poll.
func (lp *lonePolls) setState(p *lonePoll, s State, now time.Time) {
	s.Next, s.Why, s.Polled, s.Since = p.state.Next, p.state.Why, now, now
	if s.Kind == p.state.Kind {
		s.Since = p.state.Since
	}
	p.state = s
	lp.localReaders.AloneStateChanged(p.key)
}

// showAlone shows what is new in a document. It reads the log and the shown items each time instead
// of keeping them, because a node may be cut off from thousands of feeds at once.
func (lp *lonePolls) showAlone(p *lonePoll, r observation, verdict State, now time.Time) {
	lp.localReaders.Recall(p.key, func(known *difference.Known) {
		if lp.byKey[p.key] != p || p.ended {
			return
		}
		if r.page != nil {
			lp.showPage(p, r, known, verdict, now)
			return
		}
		if reason := known.Suspicious(r.f); reason == "" {
			p.suspicion = time.Time{}
		} else {
			if p.suspicion.IsZero() {
				p.suspicion = now
			}
			if now.Sub(p.suspicion) < SuspicionPeriod(p.private, p.interval) {
				lp.stats.Failed++
				lp.setState(p, State{Kind: coronapb.State_NOT_A_FEED, Detail: reason + ifItStays}, now)
				return
			}
		}
		p.valid = r.valid
		lp.app.Saw(p.key, p.url, r.f, r.secure(p.url))
		f := *r.f // the sequencer, if it is alive, needs the document unchanged
		f.Items = slices.Clone(f.Items)
		known.Recognise(&f)
		d := known.Diff(&f)
		d.Head = &f.Head
		lp.setState(p, verdict, now)
		lp.localReaders.ShowAlone(p.key, d)
	})
}

// showPage shows a new version of a page, compared with the versions in the log.
func (lp *lonePolls) showPage(p *lonePoll, r observation, known *difference.Known, verdict State, now time.Time) {
	if p.page == nil {
		m := known.Page().Clone()
		p.page = &m
	}
	var j *pageVerdict
	m := p.page.Clone()
	lp.worker.Do(func() {
		j = r.page.judge(m, now)
		j.buildDelta(p.url)
	}, func() {
		if lp.byKey[p.key] != p || p.ended {
			return
		}
		*p.page = j.after
		if j.Kind == page.Failed || j.err != nil {
			lp.stats.Failed++
			lp.setState(p, State{Kind: coronapb.State_BROKEN, Detail: j.reason()}, now)
			return
		}
		p.valid = r.validAfter(p.page)
		lp.setState(p, verdict, now)
		if j.Kind == page.Changed {
			lp.localReaders.ShowAlone(p.key, j.delta)
		}
	})
}
