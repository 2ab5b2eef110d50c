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

// A lonePoll is a channel that this node polls for its own readers, because it hears of nobody who
// polls it for them (feedtree/cutoff.go). It has no wedge, no sequencer and no grant: the node is one
// feed reader among others, and keeps to the interval, floors, hints and back-off of a poller. What it
// finds goes to readers here, and to nobody else.
type lonePoll struct {
	key      overlay.ID
	url      string
	domain   *domain
	private  bool
	hints    feed.Hints
	fresh    time.Duration // max-age of the last answer
	valid    validators    // of the last document that was shown
	page     *page.Memory  // of a channel that is a page; nil: it was not looked at yet
	doubt    time.Time     // since when documents look like another feed; zero: they do not
	interval time.Duration
	why      string // the rule that set interval
	state    State
	fails    int
	asked    time.Time
	waiting  env.Handle // for an answer; 0: none
	// ended says that other nodes poll the channel again. The lonePoll is kept until its next poll would have
	// been due: otherwise an unstable network would make this node forget the origin's wishes.
	ended bool
}

// LocalReaders are the readers of this node, whom lone polls are for.
type LocalReaders interface {
	// Recall hands to then what is known here of a channel: its log, and what is shown beside it.
	Recall(key overlay.ID, then func(*difference.Known))

	// ShowAlone shows what a lone poll has found.
	ShowAlone(key overlay.ID, d difference.Delta)

	// SaidAlone tells that Alone says something new of a channel.
	SaidAlone(key overlay.ID)
}

// ServeReaders makes PollAlone possible. Without it a Corona makes no lone polls.
func (c *Corona) ServeReaders(local LocalReaders) { c.local = local }

// lonePhase is the part of an interval over which those spread that lose their network at one moment, in
// eighths. The rest is for the answer, so that news is there within two intervals.
const lonePhase = 7

// PollAlone begins to poll a channel for the readers of this node alone, at a time of its own within an
// interval, or ends that.
func (c *Corona) PollAlone(key overlay.ID, url string, on bool) {
	p := c.lone[key]
	switch {
	case on && p != nil:
		p.ended = false
	case on:
		now := c.clock.Now()
		name, private := originOf(url)
		p = &lonePoll{key: key, url: url, domain: c.domain(name, private), private: private}
		p.interval, p.why = c.intervalOf(private, p.hints, 0, 0)
		p.state = State{Kind: coronapb.State_NEW, Since: now}
		c.lone[key] = p
		c.planLone(p, now.Add(time.Duration(c.rand.Int64N(int64(min(p.interval, c.cfg.PollInterval)/8*lonePhase)))), "")
	case p != nil:
		if p.ended = true; p.waiting != 0 {
			p.waiting = 0 // what it brings is of no use any more
			c.planLone(p, p.asked.Add(p.interval), "")
		}
	}
}

// Alone returns how the polls go that this node makes of a channel for itself alone; ok is false if it
// makes none.
func (c *Corona) Alone(key overlay.ID) (s State, ok bool) {
	p := c.lone[key]
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
			// All who were told the same would come when the hour is over.
			at, why = to.Add(time.Duration(c.rand.Int64N(int64(p.interval)))), "the feed's skipHours and skipDays"
		}
	}
	if why == "" {
		why = p.why
	}
	p.state.Next, p.state.Why = at, why
	c.loneCal.Add(at, p.key)
}

func (p *lonePoll) isPage() bool {
	_, is := feed.AtOrigin(p.url)
	return is
}

// loneDue asks the origin, unless it is to be left alone, or this node has asked it as a poller.
func (c *Corona) loneDue(p *lonePoll, now time.Time) {
	if p.ended {
		c.leave(p.domain)
		delete(c.lone, p.key)
		return
	}
	if p.waiting != 0 { // the answer never came
		c.stats.Late++
		delete(c.polls, p.waiting)
		p.waiting = 0
	}
	if rest := p.domain.rest; !p.private && rest.after(now) {
		c.planLone(p, rest.time().Add(time.Duration(c.rand.Int64N(int64(p.interval)))), p.domain.name+" asks for fewer requests")
		return
	}
	if d := c.duties.Get(p.key); d != nil && d.polled && now.Sub(d.asked.time()) < p.interval && !p.isPage() {
		c.planLone(p, d.asked.time().Add(p.interval), "") // what that poll brought was shown, too
		return
	}
	c.handle++
	p.waiting, p.asked = c.handle, now
	c.polls[c.handle] = poll{key: p.key, kind: lone}
	url, isPage := feed.AtOrigin(p.url)
	c.stats.Lone++
	c.planLone(p, now.Add(patience), "")
	c.fetcher.Fetch(c.handle, env.Request{
		URL: url, Robots: isPage, ETag: p.valid.etag, LastModified: p.valid.lastModified, ValidatedURL: p.valid.url,
	})
}

// loneAnswered takes the answer to such a poll.
func (c *Corona) loneAnswered(h env.Handle, key overlay.ID, a env.Answer, r reading, verdict State, now time.Time) {
	p := c.lone[key]
	if p == nil || p.waiting != h {
		return // the network has spoken meanwhile
	}
	p.waiting = 0
	if p.domain.see(a); a.Err == env.ErrBusy {
		c.stats.Busy++
		c.planLone(p, now.Add(busyFor/2+time.Duration(c.rand.Int64N(int64(busyFor)))), "other requests to its host go before")
		return
	}
	p.private = a.Private || a.Err != "" && p.private
	if verdict.Kind != coronapb.State_OK {
		c.loneFailed(p, a, verdict, now)
		return
	}
	p.fails, p.fresh = 0, r.fresh
	if r.f != nil {
		p.hints = r.f.Hints
	}
	p.interval, p.why = c.intervalOf(p.private, p.hints, p.fresh, 0)
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

// loneFailed plans the next poll after one that failed.
func (c *Corona) loneFailed(p *lonePoll, a env.Answer, s State, now time.Time) {
	c.stats.Failed++
	p.fails++
	b := c.backOff(s, a, p.fails, p.interval, p.private, p.domain.name)
	if b.spare > 0 {
		c.spare(p.domain, now.Add(b.spare))
	}
	if s.Kind == coronapb.State_UNREACHABLE && b.wait > c.cfg.PollInterval && !b.asked {
		// A node that hears of nobody and reaches no origin has most likely lost its own line. An origin
		// that was not reached was not bothered, so the floor does not count either.
		b.wait, b.why = c.cfg.PollInterval, "not reachable at the last poll"
	}
	c.planLone(p, now.Add(b.wait+time.Duration(c.rand.Int64N(int64(b.wait/20)+1))), b.why)
	c.saidAlone(p, s, now)
}

// saidAlone notes how a poll went.
func (c *Corona) saidAlone(p *lonePoll, s State, now time.Time) {
	s.Next, s.Why, s.Polled, s.Since = p.state.Next, p.state.Why, now, now
	if s.Kind == p.state.Kind {
		s.Since = p.state.Since
	}
	p.state = s
	c.local.SaidAlone(p.key)
}

// showAlone shows what is new in a document. The log and what is shown beside it are read for that each
// time, and not kept: a node may be cut off from thousands of feeds at once.
func (c *Corona) showAlone(p *lonePoll, r reading, verdict State, now time.Time) {
	c.local.Recall(p.key, func(known *difference.Known) {
		if c.lone[p.key] != p || p.ended {
			return
		}
		if r.page != nil {
			c.showPage(p, r, known, verdict, now)
			return
		}
		if words := known.Suspicious(r.f); words == "" {
			p.doubt = time.Time{}
		} else {
			if p.doubt.IsZero() {
				p.doubt = now
			}
			if now.Sub(p.doubt) < doubted(p.private, p.interval) {
				c.stats.Failed++
				c.saidAlone(p, State{Kind: coronapb.State_NOT_A_FEED, Words: words + ifItStays}, now)
				return
			}
		}
		p.valid = r.valid
		c.app.Saw(p.key, &r.f.Head, r.secure(p.url))
		f := *r.f // the sequencer, if it lives, is to have the document as it was read
		f.Items = slices.Clone(f.Items)
		known.Recognise(&f)
		d := known.Diff(&f)
		d.Head = &f.Head
		c.saidAlone(p, verdict, now)
		c.local.ShowAlone(p.key, d)
	})
}

// showPage shows a new version of a page, by the memory that the log's versions have left.
func (c *Corona) showPage(p *lonePoll, r reading, known *difference.Known, verdict State, now time.Time) {
	if p.page == nil {
		m := known.Page().Clone()
		p.page = &m
	}
	var j *judgement
	m := p.page.Clone()
	c.worker.Do(func() {
		j = r.page.judge(m, now)
		j.tell(p.url)
	}, func() {
		if c.lone[p.key] != p || p.ended {
			return
		}
		*p.page = j.after
		if j.Kind == page.Failed || j.err != nil {
			c.stats.Failed++
			c.saidAlone(p, State{Kind: coronapb.State_BROKEN, Words: j.reason()}, now)
			return
		}
		p.valid = r.validAfter(p.page)
		c.saidAlone(p, verdict, now)
		if j.Kind == page.News {
			c.local.ShowAlone(p.key, j.delta)
		}
	})
}

// HandOver tells the sequencer of a channel what lone polls have found, as a poller tells it what its polls
// find. known are some items of the log: they show that this is the channel's document.
func (c *Corona) HandOver(key overlay.ID, head *feed.Head, items []feed.Item, known []difference.Entry) {
	if head == nil || len(items) == 0 {
		return
	}
	f := &feed.Feed{Head: *head, Items: slices.Clone(items)}
	for _, e := range known {
		f.Items = append(f.Items, feed.Item{ID: e.ID, Hash: e.Hash})
	}
	f.Items = f.Items[:min(len(f.Items), feed.MaxItems)]
	c.hold(&found{nonce: c.rand.Uint64(), key: key, reading: reading{f: f, handed: true}, prints: prints(f), since: c.clock.Now()})
}

// takeHanded takes items that a node found while it was cut off. The origin may not show them any more, so
// the sequencer learns nothing about the feed's document from them. It calls answer when the log holds them.
func (c *Corona) takeHanded(l *lead, r reading, answer func()) {
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
	l.handing++
	taken := c.app.Found(l.key, d, r.f, func(ok bool) {
		l.handing--
		if ok && c.leads[l.key] == l {
			answer()
		}
	})
	if !taken {
		l.handing--
		return // it is offered again
	}
	c.stats.Items += uint64(len(d.Changes))
	l.known.Add(d)
}
