package corona

import (
	"net/url"
	"time"

	"tidings/corona/coronapb"
	"tidings/corona/websub"
	"tidings/internal/env"
	"tidings/internal/feed"
	"tidings/internal/wire"
	"tidings/overlay"
)

// callbacks subscribes at hubs, because sequencers order it, and hands on what the hubs send.
type callbacks struct {
	*base
	requests   *requests
	reports    *reports
	up         pushed
	status     func(key overlay.ID, m *coronapb.PushStatus) // takes the status of a subscription for a channel that this node leads
	subscriber *websub.Subscriber                           // nil: hubs cannot call this node
	orders     map[string]pushOrder                         // until they lapse
	calendar   env.Calendar[string]                         // channels whose order may have lapsed, one entry for each
}

// pushed leads channels. It gets directly what a member would send to the sequencer.
type pushed interface {
	// leads says whether this node leads a channel.
	leads(key overlay.ID) bool

	// observed takes an observation.
	observed(key overlay.ID, r observation, now time.Time)
}

// pushOrder is the last order to subscribe for a channel.
type pushOrder struct {
	from  env.PeerID // "": an earlier run got it
	until time.Time
}

// open goes on with the subscriptions of earlier runs, if hubs can call this node at all.
func (cb *callbacks) open(store env.Store) {
	if cb.cfg.Callbacks == "" {
		return
	}
	cb.subscriber = websub.New(websub.World{Clock: cb.clock, Store: store, Rand: cb.rand, Log: cb.log, Post: cb.post}, cb.cfg.Callbacks, cb)
	for _, channel := range cb.subscriber.Channels() {
		cb.note(channel, "", cb.clock.Now())
	}
}

// post sends a form to a hub.
func (cb *callbacks) post(to, form string, then func(env.Answer)) {
	h := cb.requests.add(request{then: func(_ env.Handle, a env.Answer, _ observation, _ State, _ time.Time) { then(a) }})
	cb.requests.fetcher.Fetch(h, env.Request{URL: to, Form: form})
}

// note notes who has ordered a subscription, and until when the order is in force.
func (cb *callbacks) note(channel string, from env.PeerID, now time.Time) {
	_, planned := cb.orders[channel]
	until := now.Add(pushOrderLife)
	if cb.orders[channel] = (pushOrder{from, until}); !planned {
		cb.calendar.Add(until, channel)
	}
}

// onOrder takes the order of a sequencer. It comes from a member that may lead the channel.
func (cb *callbacks) onOrder(from env.PeerID, m *coronapb.PushOrder) {
	now, key := cb.clock.Now(), overlay.ID(m.Key)
	if cb.subscriber == nil || overlay.Key(cb.cfg.Network, m.Url) != key || !cb.mayLead(cb.node.IDOf(from), key) {
		cb.stats.Strangers++
		return
	}
	if spelled, err := feed.Canonical(m.Url); err != nil || spelled != m.Url {
		cb.stats.Garbage++
		return
	}
	if m.Hub == "" {
		cb.subscriber.Drop(m.Url)
		return
	}
	t := websub.Topic{Hub: m.Hub, URL: m.Topic}
	if !t.Valid() {
		cb.stats.Garbage++
		return
	}
	if !cb.subscriber.Want(m.Url, t, m.Renew) {
		cb.answer(from, &coronapb.PushStatus{Key: m.Key, Kind: coronapb.PushStatus_FAILED, Detail: "the node that is to subscribe has too many subscriptions"})
		return
	}
	cb.note(m.Url, from, now)
	cb.say(m.Url, false)
}

// say tells the sequencer of a channel how its subscription goes.
func (cb *callbacks) say(channel string, hint bool) {
	st, ok := cb.subscriber.Status(channel)
	if o := cb.orders[channel]; ok && o.from != "" {
		key := overlay.Key(cb.cfg.Network, channel)
		cb.answer(o.from, &coronapb.PushStatus{Key: key[:], Kind: st.Kind, Detail: truncate(st.Detail, maxDetail), Hint: hint})
	}
}

func (cb *callbacks) answer(to env.PeerID, m *coronapb.PushStatus) {
	if to == cb.node.Self().Peer.ID {
		cb.status(overlay.ID(m.Key), m)
		return
	}
	cb.send(cb.peer(to), env.Control, &coronapb.Message{Body: &coronapb.Message_PushStatus{PushStatus: m}})
}

// Changed implements websub.Events.
func (cb *callbacks) Changed(channel string) { cb.say(channel, false) }

// Notified implements websub.Events. The items of a proven notification go to the sequencer as a change report. All other
// notifications are hints.
func (cb *callbacks) Notified(n websub.Notification) {
	key := overlay.Key(cb.cfg.Network, n.Channel)
	_, isPage := feed.DocumentURL(n.Channel)
	var f *feed.Feed
	cb.worker.Do(func() {
		if n.Proven() && !isPage {
			f, _ = feed.Parse(n.Body, n.ContentType) // what is no feed is a hint
		}
	}, func() {
		now := cb.clock.Now()
		if f == nil || len(f.Items) == 0 {
			cb.say(n.Channel, true)
			return
		}
		cb.stats.Pushed++
		r := observation{f: f, handedOver: true, pushed: true, size: len(n.Body)}
		if cb.up.leads(key) {
			cb.up.observed(key, r, now)
		} else {
			cb.reports.keep(key, r, nil, now)
		}
	})
}

// next returns the time of the next run.
func (cb *callbacks) next() time.Time {
	if cb.subscriber == nil {
		return time.Time{}
	}
	return env.Sooner(cb.subscriber.Next(), cb.calendar.Next())
}

// run asks hubs, and ends the subscriptions that nobody has ordered for a while.
func (cb *callbacks) run(now time.Time) {
	if cb.subscriber == nil {
		return
	}
	for channel, _, ok := cb.calendar.Pop(now); ok; channel, _, ok = cb.calendar.Pop(now) {
		if o := cb.orders[channel]; now.Before(o.until) { // it was repeated
			cb.calendar.Add(o.until, channel)
			continue
		}
		delete(cb.orders, channel)
		cb.subscriber.Drop(channel)
	}
	cb.subscriber.Run(now)
}

// Confirm answers the question of a hub at the callback address that ends in path (websub.Subscriber).
func (c *Corona) Confirm(path string, query url.Values) websub.Response {
	if c.callbacks.subscriber == nil {
		return websub.Response{Status: 404}
	}
	return c.callbacks.subscriber.Confirm(path, query)
}

// Notify takes a notification at the callback address that ends in path.
func (c *Corona) Notify(path, signature, contentType string, body []byte) websub.Response {
	if c.callbacks.subscriber == nil {
		return websub.Response{Status: 404}
	}
	return c.callbacks.subscriber.Notify(path, signature, contentType, body)
}

// Hint tells those who lead the feed or the page at a canonical address that its document may have changed, and those who
// lead the few feeds of its domain: many sites announce the address of their home page only.
func (c *Corona) Hint(address string) {
	for _, channel := range [...]string{address, feed.PageChannel(address)} {
		c.HintChannel(overlay.Key(c.cfg.Network, channel))
	}
	if domain, private := Origin(address); !private {
		c.steward.hintSite(domain)
	}
}

// HintChannel tells the sequencer of a channel that its document may have changed. Only the key is sent, and a node that
// leads no such channel ignores it.
func (c *Corona) HintChannel(key overlay.ID) {
	m := &coronapb.Message{Body: &coronapb.Message_Hint{Hint: &coronapb.Hint{Key: key[:]}}}
	if c.leaders[key] != nil {
		c.take(key, "", m)
	} else {
		c.tell(key, m, false)
	}
}

// HubSubscriptions returns the number of channels for which this node subscribes at a hub.
func (c *Corona) HubSubscriptions() int {
	if c.callbacks.subscriber == nil {
		return 0
	}
	return c.callbacks.subscriber.Stats().Subscriptions
}

// breaksPushOrder and breaksPushStatus return the bound that a message breaks.
func breaksPushOrder(m *coronapb.PushOrder) string {
	if len(m.Url) > maxURL || len(m.Hub) > maxURL || len(m.Topic) > maxURL {
		return "push order"
	}
	return ""
}

func breaksPushStatus(m *coronapb.PushStatus) string {
	if len(m.Detail) > maxDetail || m.Kind > coronapb.PushStatus_FAILED {
		return "push status"
	}
	return ""
}

// wire encodes what the next sequencer has to know of a hub; nil if there is none.
func (p *pushing) wire() *coronapb.Push {
	if p == nil || p.topic.Hub == "" {
		return nil
	}
	return &coronapb.Push{Hub: p.topic.Hub, Topic: p.topic.URL, Member: []byte(p.member), Trusted: p.trusted, HeardMs: millis(p.heardAt)}
}

// pushingFrom decodes what another sequencer knew of a hub; nil if there is none.
func pushingFrom(m *coronapb.Push) *pushing {
	t := websub.Topic{Hub: m.GetHub(), URL: m.GetTopic()}
	if m == nil || !t.Valid() || len(m.Member) > maxMember || m.HeardMs > wire.MaxMillis {
		return nil
	}
	return &pushing{topic: t, member: env.PeerID(m.Member), trusted: m.Trusted, heardAt: timeOf(m.HeardMs)}
}

// maxMember bounds the name of a member, in bytes.
const maxMember = 64
