package corona

import (
	"cmp"
	"fmt"
	"net/url"
	"time"

	"tidings/corona/coronapb"
	"tidings/corona/websub"
	"tidings/difference"
	"tidings/difference/page"
	"tidings/internal/env"
	"tidings/internal/feed"
)

const (
	// pushedInterval is the polling interval of a channel whose hub is trusted.
	pushedInterval = 6 * time.Hour
	// pushedPollGap is the longest time between two polls of such a channel, also while its hub delivers.
	pushedPollGap = 36 * time.Hour
	// silentFactor is the time without news, in mean times between updates, after which the sequencer looks whether its hub
	// has left something out. With pushGrace, and the time until the next upkeep, that is within two such times. Updates come
	// at random, so that this costs a request for about every fifth update.
	silentFactor = 1.75
	// pushGrace is how much later than a poll a hub may deliver an item. Hubs need seconds.
	pushGrace = time.Minute
	// maxLatePushes is the number of notifications in a row after which a hub counts as late. One may be a correction of the
	// author.
	maxLatePushes = 2
	// pushOrderPause is the time between two orders to subscribe. A member that has not answered for pushPatience is replaced,
	// and one that has got no order for pushOrderLife unsubscribes.
	pushOrderPause = 5 * time.Minute
	pushPatience   = 12 * time.Minute
	pushOrderLife  = 30 * time.Minute
	// pushedLookGap is the time between two requests to owners to fetch the document of a channel whose hub is trusted, only
	// to confirm what was pushed.
	pushedLookGap = 28 * time.Hour
	// HintGap is the least time between two fetches of a channel that hints cause, because anybody may hint.
	HintGap = 5 * time.Minute
)

// pushing is what the sequencer of a channel knows of its hub.
type pushing struct {
	topic      websub.Topic             // that the channel's documents name; zero: none
	member     env.PeerID               // that is to subscribe; "": none
	status     coronapb.PushStatus_Kind // as the member last said
	fault      string                   // why the hub is not relied on, for people; "": it is, or nothing is known yet
	orderedAt  time.Time                // when the member was last told
	answeredAt time.Time                // when it last answered, or was chosen
	since      time.Time                // when it was last subscribed anew
	trusted    bool                     // the hub delivers news before polls find them
	heardAt    time.Time                // when it was last certain that the hub had left nothing out
	missedAt   time.Time                // when a poll found an item that the hub had not delivered; zero: none
	late       int                      // late notifications in a row
	unsettled  bool                     // this node's last poll has shown the log to be ahead of the document
	hinted     bool                     // a fetch is wanted because of a hint
	hintedAt   time.Time                // when a hint last caused a fetch
	lookedAt   time.Time                // when owners last were to fetch the document, to confirm what was pushed
}

// pushed reports whether the channel's news comes from its hub, so that it is hardly polled.
func (p *pushing) pushed() bool {
	return p != nil && p.trusted && p.status == coronapb.PushStatus_SUBSCRIBED && p.member != ""
}

// isMember reports whether a member is the one that is to subscribe.
func (p *pushing) isMember(id env.PeerID) bool { return p != nil && p.member == id }

// hub names the hub, for people.
func (p *pushing) hub() string {
	u, err := url.Parse(p.topic.Hub)
	if err != nil {
		return p.topic.Hub
	}
	return u.Host
}

// pushes has members subscribe at the hubs of the channels that this node leads, and finds out whether these deliver.
type pushes struct {
	*base
	callbacks   *callbacks
	allocator   *allocator
	monitor     *monitor
	fetch       func(l *leaderState, now time.Time) // fetches a channel at once
	order       func(l *leaderState, pollers int, now time.Time)
	setInterval func(l *leaderState, f *feed.Feed)
}

// named takes the topic that a document of the channel names.
func (ps *pushes) named(l *leaderState, t websub.Topic, now time.Time) {
	var topic websub.Topic
	if l.push != nil {
		topic = l.push.topic
	}
	if t == topic {
		return
	}
	was := l.push.pushed()
	ps.send(l, websub.Topic{}, false, now)
	l.push = &pushing{topic: t}
	if ps.upkeep(l, now); was {
		ps.changed(l, now)
	}
}

// inherit continues with the member that the sequencer before had chosen, if it is there.
func (ps *pushes) inherit(l *leaderState, p *pushing, now time.Time) {
	if p == nil {
		return
	}
	l.push = &pushing{topic: p.topic, member: p.member, trusted: p.trusted, heardAt: p.heardAt, answeredAt: now, since: now}
	if p.trusted {
		l.push.status = coronapb.PushStatus_SUBSCRIBED // until the member says otherwise
	}
	if l.push.heardAt.After(now) { // the other sequencer's clock was ahead
		l.push.heardAt = now
	}
}

// upkeep has a member subscribed, and looks whether the hub is silent.
func (ps *pushes) upkeep(l *leaderState, now time.Time) {
	p := l.push
	if p == nil {
		return
	}
	if p.topic.Hub != "" {
		ps.choose(l, now)
		if now.Sub(p.orderedAt) >= pushOrderPause {
			ps.send(l, p.topic, false, now)
		}
	}
	ps.watch(l, now)
}

// watch ends the trust in a hub that has left something out, and looks whether a silent one has.
func (ps *pushes) watch(l *leaderState, now time.Time) {
	p := l.push
	switch last := now.Sub(l.fetchedAt.Time()); {
	case p.pushed() && !p.missedAt.IsZero() && now.Sub(p.missedAt) >= pushGrace:
		ps.fail(l, "it has not delivered an item that polls have found", now)
	case l.fetching != 0 || l.domain.limitedUntil.After(now):
	case p.hinted && now.Sub(p.hintedAt) >= ps.scaled(HintGap):
		ps.look(l, now)
	case p.pushed() && last >= ps.patience(l, now) && now.Sub(p.heardAt) >= ps.patience(l, now):
		ps.look(l, now)
	}
}

// look fetches a channel because its hub has said nothing, or somebody has given a hint.
func (ps *pushes) look(l *leaderState, now time.Time) {
	if ps.fetch(l, now); l.fetching == 0 {
		return // the domain allows no request now: the hint waits
	}
	ps.stats.PushLooks++
	if l.push.hinted {
		l.push.hinted, l.push.hintedAt = false, now
	}
}

// patience is how long a hub may be silent before the sequencer looks whether it has left something out.
func (ps *pushes) patience(l *leaderState, now time.Time) time.Duration {
	d := time.Duration(silentFactor * float64(l.updateRate.interval(now)))
	if !l.private {
		d = max(d, ps.scaled(minPublicInterval))
	}
	return d
}

// choose chooses the member that subscribes: the one nearest to the key of those that hubs can reach. It keeps the present
// one as long as that answers; otherwise the next one takes over, the spare.
func (ps *pushes) choose(l *leaderState, now time.Time) {
	p := l.push
	var first, other env.PeerID
	leaf := ps.node.Leaf()
	for _, m := range leaf.NearestN(l.key, leaf.Len()) {
		switch {
		case !m.Callbacks:
		case m.Peer.ID == p.member && now.Sub(p.answeredAt) < pushPatience:
			return
		case first == "":
			first = m.Peer.ID
		case other == "":
			other = m.Peer.ID
		}
	}
	was := p.pushed()
	if first == p.member && other != "" {
		first = other // the present one does not answer
	}
	if first != p.member && p.member != "" {
		ps.stats.PushMoved++
		ps.send(l, websub.Topic{}, false, now) // it may only seem to be gone
	}
	p.member, p.status, p.answeredAt, p.orderedAt = first, coronapb.PushStatus_ASKED, now, time.Time{}
	if was {
		ps.changed(l, now)
	}
}

// send orders the chosen member to subscribe, or with an empty topic to unsubscribe.
func (ps *pushes) send(l *leaderState, t websub.Topic, renew bool, now time.Time) {
	if l.push == nil || l.push.member == "" {
		return
	}
	to := l.push.member
	l.push.orderedAt = now
	m := &coronapb.PushOrder{Key: l.key[:], Url: l.url, Hub: t.Hub, Topic: t.URL, Renew: renew}
	if to == ps.node.Self().Peer.ID {
		ps.callbacks.onOrder(to, m)
		return
	}
	ps.base.send(ps.peer(to), env.Control, &coronapb.Message{Body: &coronapb.Message_PushOrder{PushOrder: m}})
}

// onStatus takes what the chosen member says of its subscription.
func (ps *pushes) onStatus(l *leaderState, from env.PeerID, m *coronapb.PushStatus) {
	p, now := l.push, ps.clock.Now()
	if !p.isMember(from) {
		ps.stats.Strangers++
		return
	}
	if m.Hint {
		ps.hint(l, now)
	}
	was := *p
	p.answeredAt, p.status = now, m.Kind
	switch m.Kind {
	case coronapb.PushStatus_DENIED, coronapb.PushStatus_FAILED:
		p.fault = truncate(m.Detail, maxDetail)
	case coronapb.PushStatus_SUBSCRIBED:
		if was.status == m.Kind {
			break
		}
		if p.since = now; p.trusted {
			p.fault = ""
		}
		if p.trusted && l.fetching == 0 {
			ps.look(l, now) // for what was pushed to nobody in between
		}
	}
	if p.pushed() != was.pushed() || p.fault != was.fault {
		ps.changed(l, now)
	}
}

// hint notes that a fetch of the channel may find something. A channel without readers is not fetched, and one whose polls
// fail keeps its pauses, because anybody may hint.
func (ps *pushes) hint(l *leaderState, now time.Time) {
	ps.stats.PushHints++
	if l.state.Kind != coronapb.State_OK {
		return
	}
	if l.push == nil {
		l.push = new(pushing)
	}
	l.push.hinted = true
	ps.watch(l, now)
}

// delivered takes the part of a proven notification that the log lacked. A hub is trusted if that is news, or was until a
// moment ago.
func (ps *pushes) delivered(l *leaderState, d difference.Delta, now time.Time) {
	p := l.push
	news := hasNewItem(d)
	inTime := !p.missedAt.IsZero() && now.Sub(p.missedAt) < pushGrace
	if !news && !inTime {
		return
	}
	p.missedAt, p.hinted = time.Time{}, false
	if news {
		l.updateRate.addUpdate(now)
	}
	limit := cmp.Or(l.lag, l.unpushed/2) + pushGrace
	var dates []time.Time
	topic := p.topic
	ps.worker.Do(func() { dates = datesOf(d.Changes) }, func() {
		if l.ceased || l.push != p || p.topic != topic {
			return
		}
		if age, ok := ageOf(dates, now, maxLag*l.unpushed); ok && age > limit {
			if p.late++; p.late >= maxLatePushes && p.trusted {
				ps.fail(l, fmt.Sprintf("it delivers items late, the last one after %v", age.Round(time.Second)), now)
			}
			return
		}
		was := p.pushed()
		p.late, p.trusted, p.heardAt, p.fault = 0, true, now, ""
		if !was {
			ps.changed(l, now)
		}
	})
}

// ageOf returns the age of the newest item that has a date; ok is false if none has one that says when the item appeared.
func ageOf(dates []time.Time, now time.Time, most time.Duration) (age time.Duration, ok bool) {
	for _, at := range dates {
		if d := now.Sub(at); !at.IsZero() && d >= 0 && d <= most && (!ok || d < age) {
			age, ok = d, true
		}
	}
	return age, ok
}

func hasNewItem(d difference.Delta) bool {
	for i := range d.Changes {
		if !d.Changes[i].Edited {
			return true
		}
	}
	return false
}

// polled takes the part of a polled document that the log lacked. own says that this node has polled.
func (ps *pushes) polled(l *leaderState, d difference.Delta, own bool, now time.Time) {
	p := l.push
	switch {
	case p == nil || p.topic.Hub == "" || l.known.Len() == 0: // the first document is no news
	case !hasNewItem(d):
		if own && p.missedAt.IsZero() {
			p.heardAt = now
		}
	case !p.trusted, p.pushed() && p.missedAt.IsZero() && now.Sub(p.since) >= pushGrace: // before, hubs could not deliver it
		p.missedAt = now
	}
}

// fail ends the trust in a hub, and asks it for a new lease: it may have forgotten the subscription.
func (ps *pushes) fail(l *leaderState, why string, now time.Time) {
	ps.stats.PushFailed++
	p := l.push
	p.trusted, p.missedAt, p.late, p.fault = false, time.Time{}, 0, truncate(why, maxDetail)
	ps.send(l, p.topic, true, now)
	ps.changed(l, now)
}

// interval is the polling interval of a channel whose hub is trusted; ok is false if the channel has none.
func (ps *pushes) interval(l *leaderState) (interval time.Duration, why string, ok bool) {
	interval = ps.scaled(pushedInterval)
	return interval, "the feed's hub pushes what is new", l.push.pushed()
}

// proven reports whether a channel needs no poll now: since the last one its hub has delivered an item, less than a polling
// interval ago. Only polls find what the origin takes back, so there is one in a day and a half, and more of them if one has found some.
func (ps *pushes) proven(l *leaderState, now time.Time) bool {
	p, interval := l.push, ps.scaled(pushedInterval)
	return p.pushed() && !p.unsettled && p.heardAt.After(l.state.Polled) && now.Sub(p.heardAt) < interval && now.Sub(l.state.Polled) < ps.scaled(pushedPollGap)-interval/2
}

// confirm reports whether owners are to fetch the document of a channel now, to confirm what was pushed. The sequencer then
// fetches it, too, because it asks the owners about what it has seen itself.
func (ps *pushes) confirm(l *leaderState, now time.Time) bool {
	if now.Sub(l.push.lookedAt) < ps.scaled(pushedLookGap) {
		return false
	}
	if l.push.lookedAt = now; l.fetching == 0 {
		ps.fetch(l, now)
	}
	return true
}

// topicOf returns the hub and the topic that a document names; the zero value if there is no hub to be asked. f is the
// document of a feed.
func topicOf(a env.Answer, f *feed.Feed, isPage bool) (t websub.Topic) {
	d := websub.Document{URL: a.FinalURL, Header: a.Links}
	if isPage {
		d.Base, d.Links = page.HubsOf(a.Body)
	} else if f != nil {
		d.Links = page.Hubs{Self: f.Links.Self, Hubs: f.Links.Hubs}
	}
	if t, ok := websub.Discover(d); ok {
		return t
	}
	return websub.Topic{}
}

// changed chooses the polling interval of a channel again, because its hub is trusted or no longer, and tells readers.
func (ps *pushes) changed(l *leaderState, now time.Time) {
	ps.setInterval(l, nil)
	ps.order(l, max(l.desiredPollers, 1), now)
	ps.allocator.decideSoon(now)
	ps.monitor.setState(l, l.state, now)
	ps.note(l)
}
