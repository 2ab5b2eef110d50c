package corona

import (
	"math"
	"time"

	"tidings/corona/coronapb"
	"tidings/honeycomb"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/internal/wire"
	"tidings/overlay"
)

// Corona is one node's part in polling. It is not safe for concurrent use. It is made of components,
// each of which uses only those listed before it, and it passes them time, messages and answers.
type Corona struct {
	*base
	domains *domains
	permits *permits
	*steward
	*allocator
	*requests
	*lonePolls
	reports *reports
	*poller
	intake    *intake
	callbacks *callbacks
	*sequencer

	onDemand map[overlay.ID]bool // channels that FetchOnce fetches
}

// New returns a Corona without channels.
func New(e env.Env, node *overlay.Node, signer *wire.Signer, verify wire.Verifier, wedges Wedges, cfg Config, app Application) *Corona {
	cfg = cfg.withDefaults()
	b := &base{
		cfg: cfg, clock: e.Clock, net: e.Network, worker: e.Worker, rand: e.Rand, log: e.Log,
		node: node, signer: signer, verifier: verify, wedges: wedges, app: app,
	}
	c := &Corona{base: b, onDemand: map[overlay.ID]bool{}}
	c.domains = &domains{base: b, byName: map[string]*domain{}}
	c.permits = &permits{base: b, domains: c.domains, allowed: map[overlay.ID]env.Moment{}}
	c.steward = &steward{base: b, permits: c.permits, store: e.Store}
	c.allocator = newAllocator(b, c.permits)
	c.requests = &requests{base: b, domains: c.domains, fetcher: e.Fetcher, open: map[env.Handle]request{}, moves: map[overlay.ID]seenMove{}}
	c.lonePolls = &lonePolls{base: b, domains: c.domains, requests: c.requests, byKey: map[overlay.ID]*lonePoll{}}
	c.reports = &reports{base: b}
	c.poller = newPoller(b, c.domains, c.permits, c.allocator, c.requests, c.lonePolls, c.reports)
	c.intake = &intake{base: b}
	c.callbacks = &callbacks{base: b, requests: c.requests, reports: c.reports, orders: map[string]pushOrder{}}
	c.sequencer = newSequencer(b, c.domains, c.permits, c.allocator, c.requests, c.poller, c.intake, c.callbacks)
	c.steward.hint = c.HintChannel
	c.callbacks.open(e.Store)
	return c
}

// Next returns the time at which something is due, the zero time if nothing is.
func (c *Corona) Next() time.Time {
	next := c.poller.next()
	for _, at := range [...]time.Time{
		c.lonePolls.calendar.Next(), c.sequencer.calendar.Next(), c.reports.calendar.Next(), c.intake.calendar.Next(),
		c.decideAt, c.permits.calendar.Next(), c.steward.next(), c.callbacks.next(),
	} {
		next = env.Sooner(next, at)
	}
	return next
}

// Run does everything that is due and returns Next.
func (c *Corona) Run(now time.Time) time.Time {
	c.poller.run(now)
	c.lonePolls.run(now)
	c.sequencer.run(now)
	c.poller.repeatReports(now)
	c.intake.run(now)
	c.allocator.run(now, c.assignments.Len() > 0)
	c.permits.run(now)
	c.steward.run(now)
	c.callbacks.run(now)
	c.poller.checkOverdue(now)
	return c.Next()
}

// Answered takes the response to a request.
func (c *Corona) Answered(h env.Handle, a env.Answer) {
	if !c.poller.responded(h, a) {
		c.requests.answered(h, a)
	}
}

// FetchOnce fetches a document once, outside the schedule, for a reader of this node that has not
// subscribed or that no other node could serve. The result goes to Application.Fetched.
func (c *Corona) FetchOnce(key overlay.ID, url string) {
	if c.onDemand[key] {
		return
	}
	c.onDemand[key] = true
	c.stats.Asked++
	address, isPage := feed.DocumentURL(url)
	h := c.requests.add(request{url: url, offers: true, then: func(_ env.Handle, a env.Answer, r observation, verdict State, _ time.Time) {
		delete(c.onDemand, key)
		c.noteAddress(key, a)
		r.offer.Redirected = a.FinalURL != address
		switch {
		case verdict.Kind != coronapb.State_OK:
			r.f = nil
		case r.page != nil:
			r.f.Items = nil // of a page, readers read the changes only
		default:
			c.app.Saw(key, url, r.f, r.secure(url))
		}
		c.app.Fetched(key, r.f, r.offer, verdict)
	}})
	c.requests.fetcher.Fetch(h, env.Request{URL: address, Robots: isPage})
}

// Look fetches a channel's document only to confirm what other nodes have found, if this node may do that. The result goes
// to Application.Saw. A poller of a domain with a budget fetches it with its next poll, and Look returns false.
func (c *Corona) Look(key overlay.ID, url string) bool {
	if !c.poller.mayLook(key, url, c.clock.Now()) {
		if d := c.assignments.Get(key); d != nil {
			d.ensureExtra().inFull = true
		}
		return false
	}
	c.stats.Asked++
	address, isPage := feed.DocumentURL(url)
	h := c.requests.add(request{url: url, then: func(_ env.Handle, a env.Answer, r observation, verdict State, now time.Time) {
		c.noteAddress(key, a)
		d := c.assignments.Get(key)
		switch {
		case verdict.Kind == coronapb.State_LIMITED && d != nil:
			c.limitDomainOf(d, now.Add(rateLimitOf(a, 1)))
		case verdict.Kind != coronapb.State_OK:
		default:
			if d != nil {
				d.fetched = r.valid.digest()
			}
			r.tell(c.app, key, url)
		}
	}})
	c.requests.fetcher.Fetch(h, env.Request{URL: address, Robots: isPage})
	return true
}

// Stats returns the counters.
func (c *Corona) Stats() Stats {
	st := c.stats
	st.Channels, st.PolledFeeds = len(c.leaders), c.assignments.Len()
	return st
}

// Level returns the level down to which a channel's wedge should reach (wedge.Application). It is
// called on nodes that decide for others. They know the channel's tradeoff factors from its
// parameters, and the load of all others from the aggregate (Corona §3.3).
func (c *Corona) Level(key overlay.ID) int {
	d := c.assignments.Get(key)
	if !c.allocator.decided || d == nil {
		return math.MaxInt
	}
	p, interval := &d.target.params, d.schedule.Interval
	return c.allocator.levelOf(key, honeycomb.Channel{
		Subscribers: float64(p.readers), Size: p.size, Update: p.update, Interval: interval,
		MaxPollers: c.permits.pollerLimit(d.domain, d.extras().permit, p.readers, interval),
	})
}

// EnablePoliteness makes a Corona keep to the budgets of domains, if Config.Politeness is set. The
// node asks the domains' stewards for grants, and acts as a steward for the domains whose keys it
// owns. Without it, origins have no budgets, as in the paper.
func (c *Corona) EnablePoliteness(owners Owners) {
	if c.cfg.Politeness {
		c.domains.budgeted = true
		c.permits.owners = owners
		c.steward.enable(owners)
	}
}

// Receive takes a message from a poller or a sequencer.
func (c *Corona) Receive(from env.PeerID, body []byte) error {
	m, key, err := parse(body)
	if err != nil {
		return err
	}
	if p := m.GetPoliteness(); p != nil {
		c.steward.receive(from, p)
		return nil
	}
	c.take(key, from, m)
	return nil
}

// Deliver takes a message that was routed to a key. If this node is not the key's sequencer but
// knows it, the message is forwarded.
func (c *Corona) Deliver(key overlay.ID, body []byte) {
	m, of, err := parse(body)
	if p := m.GetPoliteness(); err == nil && p != nil {
		c.steward.deliver(key, p)
		return
	}
	if err != nil || of != key || m.GetChange() == nil && m.GetStatus() == nil && m.GetHint() == nil {
		c.stats.Garbage++
		return
	}
	if c.leaders[key] != nil {
		c.take(key, "", m)
	} else if to, ok := c.app.Leader(key); ok && to.ID != c.node.Self().Peer.ID {
		c.net.Send(to, env.Control, wire.AppendFrame(nil, wire.Corona, m))
	} // otherwise the poller repeats it
}

// take passes a message to the part of this node that handles it. from is empty if the message was
// routed to this node.
func (c *Corona) take(key overlay.ID, from env.PeerID, m *coronapb.Message) {
	l := c.leaders[key]
	if l == nil && (m.GetChange() != nil || m.GetStatus() != nil) {
		c.stats.Astray++
		return
	}
	switch b := m.Body.(type) {
	case *coronapb.Message_Change:
		c.intake.onChange(l, from, b.Change)
	case *coronapb.Message_Status:
		c.monitor.onStatusReport(l, b.Status)
	case *coronapb.Message_ItemChunk:
		if l != nil {
			c.intake.onItemChunk(l, from, b.ItemChunk)
		}
	case *coronapb.Message_PushOrder:
		c.callbacks.onOrder(from, b.PushOrder)
	case *coronapb.Message_PushStatus:
		if l != nil {
			c.sequencer.pushes.onStatus(l, from, b.PushStatus)
		}
	case *coronapb.Message_Hint:
		if l != nil {
			c.sequencer.pushes.hint(l, c.clock.Now())
		}
	case *coronapb.Message_ItemRequest:
		c.reports.onItemRequest(from, b.ItemRequest)
	case *coronapb.Message_Snapshot:
		// Only a node that got the report can know its nonce. Snapshots for all pollers come down
		// the wedge instead.
		if w := c.reports.byNonce(b.Snapshot.Nonce); w != nil && w.key == key {
			c.poller.onSnapshot(key, noticeFrom(b.Snapshot))
		}
	}
}
