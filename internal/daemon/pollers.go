package daemon

import (
	"context"
	"fmt"
	"time"

	"tidings/corona"
	"tidings/corona/coronapb"
	"tidings/internal/news"
	"tidings/overlay"
	"tidings/overlay/libp2p"
	"tidings/overlay/wedge"
	"tidings/proxy"
)

// maxPollers bounds the pollers of a channel that are listed. Popular channels have hundreds.
const maxPollers = 64

// Pollers returns the members that poll a channel, as far as this node knows them; see proxy.Subscriptions.
func (l *channelList) Pollers(ctx context.Context, url string) (p proxy.Pollers, err error) {
	err = l.do(ctx, func() {
		key := l.key(url)
		if s, ok := l.node.NodeOf(key).Feeds.Subscription(key); ok && !attributesOf(s).Quiet { // a quiet subscription is no matter of this node's neighbours
			p = l.pollers(key, time.Now())
		}
	})
	if err != nil {
		return p, fmt.Errorf("pollers of %s: %w", url, err)
	}
	return p, nil
}

// pollers returns the known pollers of a key. In a wedge of ranks they are the members nearest to the key, and the turns of
// all follow from the turn of one.
func (l *channelList) pollers(key overlay.ID, now time.Time) (p proxy.Pollers) {
	slot, polls := l.node.Corona.Slot(key)
	if !polls {
		return p
	}
	p.Interval = slot.Interval
	o := l.node.Overlay
	add := func(c *overlay.Contact, next time.Time) {
		m := proxy.Member{ID: c.ID.String(), PeerID: libp2p.PeerIDString(c.Peer.ID), Role: proxy.RoleLeaf}
		if c.ID == o.ID() {
			m.Role = proxy.RoleSelf
		}
		p.Pollers = append(p.Pollers, proxy.Poller{Member: m, Next: proxy.OptionalTime(next)})
	}
	nearest := o.Leaf().NearestN(key, min(slot.Of, maxPollers))
	// The turns of the others can be computed only if this node has the turn that its distance from the key gives it. A member
	// that declines, or that has several turns, shifts those of others.
	fits := l.network.Wedge == "rank" && l.network.Phases == "even" && o.Leaf().Covers(key) && slot.Of <= o.Leaf().Len() &&
		slot.Rank < len(nearest) && nearest[slot.Rank].ID == o.ID()
	if !fits {
		add(o.Self(), slot.Next)
		return p
	}
	for rank, c := range nearest {
		switch {
		case c.ID == o.ID():
			add(c, slot.Next)
		case slot.Why != "": // this node's own poll is put off, so it does not tell the turns of others
			add(c, time.Time{})
		default:
			add(c, turnOf(rank, slot, now))
		}
	}
	return p
}

// turnOf returns the next turn of a rank, given the slot of another rank in the same order.
func turnOf(rank int, slot corona.Slot, now time.Time) time.Time {
	phase := time.Duration(wedge.Phase(rank, slot.Of) * float64(slot.Interval))
	turn := slot.Next.Add(phase - slot.Phase)
	if late := now.Sub(turn); late > 0 && slot.Interval > 0 {
		turn = turn.Add((late/slot.Interval + 1) * slot.Interval)
	}
	if early := turn.Sub(now); early > slot.Interval && slot.Interval > 0 {
		turn = turn.Add(-(early / slot.Interval * slot.Interval))
	}
	return turn
}

// PollSoon asks for a poll of a channel; see proxy.Subscriptions.
func (l *channelList) PollSoon(ctx context.Context, url string) (err error) {
	if doErr := l.do(ctx, func() {
		key := l.key(url)
		s, ok := l.node.NodeOf(key).Feeds.Subscription(key)
		_, private := corona.Origin(url)
		switch {
		case !ok:
			err = proxy.ErrNoSubscription
		case attributesOf(s).Quiet:
			err = fmt.Errorf("%w by request: the request would tell other nodes who follows it quietly", proxy.ErrForbidden)
		case private && !l.allowPrivate:
			err = proxy.ErrForbidden
		default:
			l.node.Corona.HintChannel(key)
		}
	}); doErr != nil {
		err = doErr
	}
	if err != nil {
		return fmt.Errorf("poll %s: %w", url, err)
	}
	return nil
}

// pollSoon plans the poll of a private feed for now, or for when the last one is old enough. A feed whose polls fail keeps
// its pauses.
func (p *privateFeeds) pollSoon(name string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.byName[name]
	if f == nil || f.trial {
		return fmt.Errorf("poll %s: %w", name, proxy.ErrNoSubscription)
	}
	at := time.Now()
	if earliest := f.State.Polled.Add(corona.HintGap); earliest.After(at) {
		at = earliest
	}
	if f.State.Kind == coronapb.State_OK && at.Before(f.State.Next) {
		f.plan(at, "somebody asked for it")
		p.signal()
	}
	return nil
}

// Pollers returns the nodes that poll a feed, as far as this node knows them. Only this node polls a private feed.
func (d *Daemon) Pollers(ctx context.Context, url string) (p proxy.Pollers, err error) {
	if isPrivateName(url) {
		return p, nil
	}
	return d.channelList.Pollers(ctx, url)
}

// PollSoon asks for a poll of a feed.
func (d *Daemon) PollSoon(ctx context.Context, url string) error {
	if isPrivateName(url) {
		return d.private.pollSoon(url)
	}
	return d.channelList.PollSoon(ctx, url)
}

// EachNewItem calls each with every new item of a feed; see proxy.News.
func (n newsReader) EachNewItem(url string, since time.Time, each func(proxy.NewItem)) {
	n.Journal.EachNewItem(url, since, func(i news.NewItem) { each(proxy.NewItem(i)) })
}

// HealthOf returns what the journal has about the health of a feed; see proxy.News.
func (n newsReader) HealthOf(url string, limit int) (changes []proxy.HealthChange, err error) {
	events, err := n.Journal.HealthOf(url, limit)
	for i := range events {
		changes = append(changes, healthChangeOf(&events[i]))
	}
	return changes, err
}

func healthChangeOf(e *news.Event) proxy.HealthChange {
	return proxy.HealthChange{At: e.Time, Kind: e.Health.Kind, Text: e.Health.Text, Since: proxy.OptionalTime(e.Health.Since)}
}
