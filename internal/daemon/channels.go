package daemon

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"tidings/corona"
	"tidings/corona/coronapb"
	"tidings/difference"
	"tidings/feedtree"
	"tidings/internal/feed"
	"tidings/internal/node"
	"tidings/internal/store"
	"tidings/overlay"
	"tidings/proxy"
)

// logReadTimeout bounds how long a list waits for logs that the node has not read yet. The titles of feeds
// come from their logs. After the timeout the list shows what is known.
const logReadTimeout = 2 * time.Second

// maxLogsRead bounds the logs that a list of all subscriptions reads. The node reads the others by and by after its start; until
// then a feed is listed by the title that the user, or an imported list, gave it.
const maxLogsRead = 1000

// channelList lists the subscriptions with what this node knows of their polls and publishers.
type channelList struct {
	*nodeLoop
	subscriptions *subscriptions
	disk          *store.Disk
	private       *privateFeeds
	allowPrivate  bool // the node may poll origins on private addresses
}

// List returns all subscriptions; see proxy.Subscriptions.
func (l *channelList) List(ctx context.Context) (channels []proxy.Channel, err error) {
	err = l.Each(ctx, func(c *proxy.Channel) { channels = append(channels, *c) })
	return channels, err
}

// Each passes all subscriptions to see; see proxy.Subscriptions.
func (l *channelList) Each(ctx context.Context, see func(*proxy.Channel)) error {
	var unread []overlay.ID
	all, err := l.subscriptionKeys(ctx)
	if err != nil {
		return fmt.Errorf("list: %w", err)
	}
	for keys := range slices.Chunk(all, listedAtOnce) {
		if err := l.do(ctx, func() {
			for _, key := range keys {
				if s, ok := l.node.NodeOf(key).Feeds.Subscription(key); ok && s.Version == 0 {
					unread = append(unread, key)
				}
			}
		}); err != nil {
			return fmt.Errorf("list: %w", err)
		}
		if len(unread) >= maxLogsRead {
			unread = unread[:maxLogsRead]
			break
		}
	}
	if err := l.readLogs(ctx, unread); err != nil {
		return fmt.Errorf("list: %w", err)
	}
	return l.parts(ctx, all, func(part []proxy.Channel) error {
		for i := range part {
			see(&part[i])
		}
		return nil
	})
}

// CountShared returns how many subscriptions the network knows; see proxy.Subscriptions.
func (l *channelList) CountShared(ctx context.Context) (n int, err error) {
	if err = l.do(ctx, func() { n = l.node.CountSubscriptions() }); err != nil {
		return 0, fmt.Errorf("list: %w", err)
	}
	return n, nil
}

// each calls do with each subscription, in the order of their keys, until do fails. It does not hold all at a time, and reads no logs.
func (l *channelList) each(ctx context.Context, do func(*proxy.Channel) error) error {
	all, err := l.subscriptionKeys(ctx)
	if err != nil {
		return fmt.Errorf("list: %w", err)
	}
	return l.parts(ctx, all, func(part []proxy.Channel) error {
		for i := range part {
			if err := do(&part[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// parts passes subscriptions, and after them the private feeds, to do, some at a time, until do fails. The slice is reused, so do must
// not keep it.
func (l *channelList) parts(ctx context.Context, of []overlay.ID, do func([]proxy.Channel) error) error {
	var cut *feedtree.CutOff
	if err := l.do(ctx, func() { cut = cutOff(l.node) }); err != nil {
		return fmt.Errorf("list: %w", err)
	}
	failing, part := l.disk.Stats().Failing, make([]proxy.Channel, 0, listedAtOnce)
	for keys := range slices.Chunk(of, listedAtOnce) {
		part = part[:0]
		if err := l.do(ctx, func() {
			for _, key := range keys {
				if s, ok := l.node.NodeOf(key).Feeds.Subscription(key); ok {
					part = append(part, withStoreError(withCutOff(l.channelOf(s), s, cut), failing))
				}
			}
		}); err != nil {
			return fmt.Errorf("list: %w", err)
		}
		if err := do(part); err != nil {
			return err
		}
	}
	return do(l.private.list())
}

// withStoreError returns a channel with the state of a failing store, if the store fails. Polls still succeed
// then, but new items do not reach readers.
func withStoreError(c proxy.Channel, failing string) proxy.Channel {
	if failing != "" && (c.State == proxy.StateOK || c.State == proxy.StateNew) {
		c.State, c.Since = proxy.StateUnsaved, nil
		c.Error, c.Do = "this node cannot save new items: "+failing, diskRemedy.String()
	}
	return c
}

// channelOf returns a subscription as lists show it.
func (l *channelList) channelOf(s feedtree.Subscription) (c proxy.Channel) {
	a := l.subscriptions.attributes(s)
	c = proxy.Channel{
		URL: s.URL, Key: s.Key.String(), Kind: proxy.KindOf(s.URL), Items: s.Items, State: proxy.StateNew,
		Since: proxy.OptionalTime(s.Since), Added: proxy.OptionalTime(s.Since), Auto: a.Auto, Subscribers: s.Weight,
	}
	if s.Items > 0 {
		c.Provenance, c.State, c.Newest = feedtree.Single, proxy.StateOK, proxy.OptionalTime(l.node.NodeOf(s.Key).Feeds.Newest(s.Key))
	}
	c.MinProvenance, c.Note, c.Tags, c.Title, c.Site = a.RequiredProvenance, a.Note, a.Tags, a.Title, a.Site
	if c.Title == "" {
		c.Title = feed.PlainTitle(s.Title)
	}
	if c.Site == "" {
		c.Site = feed.AbsoluteLink(originURL(s.URL), s.Link)
	}
	if p := s.Publisher; p != nil {
		c.Publisher, c.PublisherSince, c.Published = difference.Fingerprint(p.Key), proxy.OptionalTime(p.Since), p.Seq
		c.FormerKeys, c.KeyChange = formerKeys(s.URL, p)
		if p.Seq > 0 {
			c.Provenance = feedtree.ByPublisher
		}
	}
	if c.MinProvenance == feedtree.Witnessed {
		c.Waiting = l.node.NodeOf(s.Key).Feeds.Waiting(s.Key)
	}
	if c.Provenance == feedtree.Single && 2*s.Witnessed > s.Items {
		c.Provenance = feedtree.Witnessed
	}
	if v, ok := l.node.NodeOf(s.Key).Owners.View(s.Key); ok && v.Epoch != nil {
		c.Owners, c.Pollers = len(v.Epoch.Owners), 1
		c.Subscribers = max(c.Subscribers, v.Weight)
	}
	defer addCircuit(&c, l.node, s)
	defer addKeyState(&c, s)
	defer addProblem(&c, s) // after the others, except for a changed key
	defer addSilence(&c, s) // after addMissing
	defer addMissing(&c, s)
	polls, known := pollStateOf(l.node, s, time.Now())
	if !known {
		return c
	}
	c.State, c.Error, c.Since, c.Moved, c.Why = polls.String(), polls.Detail, proxy.OptionalTime(polls.Since), polls.Moved, polls.Why
	c.PushedBy, c.HubFault = polls.Hub, polls.HubFault
	c.Subscribers = max(c.Subscribers, polls.Readers)
	c.Pollers = max(c.Pollers, polls.Pollers)
	if polls.pollerGone {
		c.Pollers = 0
	}
	if polls.Kind != coronapb.State_OK {
		c.Do = remedy(c.URL, c.State, l.allowPrivate)
	}
	l.addSlot(&c, s.Key, &polls)
	c.LastPoll, c.NextPoll = proxy.OptionalTime(polls.Polled), proxy.OptionalTime(polls.Next)
	c.Level = pollingLevel(polls.State, l.node.Overlay.Count(0))
	if polls.Budget > 0 {
		c.Budget = &polls.Budget
	}
	if polls.Kind == coronapb.State_OK && polls.Hub == "" {
		c.DetectionExpectedS = l.expectedDetection(polls)
	}
	if polls.polledHere {
		c.Polls, c.Pollers = true, 1
		addCutOff(&c, s, polls)
	}
	if polls.Lag > 0 && polls.Hub == "" { // otherwise it is that of earlier polls
		c.DetectionObservedS = new(polls.Lag.Seconds())
	}
	return c
}

// stateKeyChanged is the state of a feed whose key was changed, and perhaps not by its publisher.
const stateKeyChanged = "key changed"

// addKeyState adds a warning about another key, as loud as ssh's about a changed host key.
func addKeyState(c *proxy.Channel, s feedtree.Subscription) {
	if s.Publisher == nil {
		return
	}
	seen := ""
	if s.Seen != nil {
		seen = difference.Fingerprint(s.Seen)
	}
	switch {
	case s.Doubt != nil:
		c.ClaimedKey, c.State, c.Since = difference.Fingerprint(s.Doubt.Key), stateKeyChanged, nil
		c.Error = fmt.Sprintf("other nodes say that the publisher's key changed from %s to %s, and the old key does not confirm this: items signed with the new key are shown as unconfirmed, and items signed with the old key as the publisher's", c.Publisher, c.ClaimedKey)
		switch {
		case attributesOf(s).Quiet:
			c.Error += "; this node does not ask the web server about feeds that it follows quietly"
		case seen == "":
			c.Error += "; this node has not yet read which key the web server names, and reads it within a polling interval"
		case seen == c.Publisher:
			c.Error += "; the web server named the old key at " + s.SeenAt.UTC().Format(time.DateTime) + " UTC, so those nodes may lie"
		default:
			c.Error += "; the web server named " + seen + " at " + s.SeenAt.UTC().Format(time.DateTime) + " UTC"
		}
		if s.Objectors > 0 {
			c.Error += "; " + proxy.Plural(s.Objectors, "other node", "other nodes") + " also read the old key there"
		}
		c.Do = "ask the publisher for the fingerprint of its key; if it is " + c.ClaimedKey + ", run: tidings trust " + proxy.ShellWord(c.URL)
	case seen != "" && !s.Publisher.Valid(s.Seen): // polls may still read a key that the present key has replaced in good order
		c.State, c.Since = stateKeyChanged, nil
		c.Error = fmt.Sprintf("the web server named the key %s at %s UTC, and the network does not know that key: items signed with %s may not be the publisher's", seen, s.SeenAt.UTC().Format(time.DateTime), c.Publisher)
		c.Do = "ask the publisher for the fingerprint of its key; if it is not " + c.Publisher + ", read the feed without tidings: " + c.URL
	}
}

// formerKeys returns the former keys of a feed, the last one first, and a text that says how the present one
// replaced them. A key changed by the publisher and one changed by an intruder look alike, so a person has to
// judge.
func formerKeys(url string, p *difference.Pin) (former []proxy.FormerKey, text string) {
	for _, t := range slices.Backward(p.Former) {
		former = append(former, proxy.FormerKey{Key: difference.Fingerprint(t.Key), Revoked: t.Revoked})
	}
	if len(former) == 0 {
		return nil, ""
	}
	text = fmt.Sprintf("the publisher's key was changed from %s to %s: ", former[0].Key, difference.Fingerprint(p.Key))
	how := "over HTTPS"
	if !strings.HasPrefix(url, "https://") {
		how = "at its private address, without HTTPS"
	}
	switch n := len(p.Witnesses); {
	case !former[0].Revoked:
		text += "the old key named the new one before, and its items stay the publisher's"
	case n > 0:
		text += fmt.Sprintf("the web server names the new key, as other nodes read %s (%d of them), and items of the old key are shown as revoked", how, n)
	default:
		text += "this node read the new key from the web server, or somebody ran tidings trust, and items of the old key are shown as revoked"
	}
	for _, k := range former[1:] {
		if k.Revoked {
			text += fmt.Sprintf("; items of %s, which was withdrawn before, are shown as revoked", k.Key)
		}
	}
	return former, text
}

// stateIncomplete is the state of a feed whose log lacks items that it should have.
const stateIncomplete = "incomplete"

// addMissing adds that the log leaves out items that the publisher signed, or has entries that cannot be
// read. Other errors of the feed take precedence.
func addMissing(c *proxy.Channel, s feedtree.Subscription) {
	c.Missing, c.Unreadable = s.Lacks+s.Unseen, s.Unreadable
	if c.Missing == 0 && s.Unreadable == 0 || c.Error != "" && c.State != proxy.StateOK {
		return
	}
	c.State, c.Since = stateIncomplete, nil
	since := ""
	if s.Unseen > 0 {
		since = ", since " + s.UnseenSince.UTC().Format(time.DateTime) + " UTC"
	}
	if c.Error = "the network lacks " + proxy.Plural(c.Missing, "item", "items") + " that the publisher signed" + since + "; the node asks the web server for what is missing"; s.Unreadable > 0 {
		c.Error = proxy.Plural(s.Unreadable, "entry", "entries") + " of this feed's log cannot be read; the web server is asked for what is missing"
	}
	c.Do = "also read the feed without tidings: " + c.URL
}

// statePublisherSilent is the state of a feed whose publisher is overdue by its own promise.
const statePublisherSilent = "publisher silent"

// addSilence adds a warning about a publisher that is overdue, unless something worse is known.
func addSilence(c *proxy.Channel, s feedtree.Subscription) {
	if s.Silent.IsZero() || s.Publisher == nil {
		return
	}
	c.PublisherSilent = proxy.OptionalTime(s.Silent)
	if c.State != proxy.StateOK {
		return
	}
	c.State, c.Since = statePublisherSilent, c.PublisherSilent
	c.Error = fmt.Sprintf("the publisher promises to sign at least every %v that nothing is missing, and has not since %s UTC: its node is off or its clock is wrong, or the nodes that keep the feed hide what it says",
		s.Publisher.Beat, s.Silent.UTC().Format(time.DateTime))
	c.Do = "if this lasts, also read the feed without tidings: " + c.URL
}

// stateProblem is the state of a feed whose log differs from what this node has seen at the web server.
const stateProblem = "problem"

// addProblem adds a warning about a log that differs from the web server.
func addProblem(c *proxy.Channel, s feedtree.Subscription) {
	p := s.Problem
	if p == nil {
		return
	}
	first, last := p.First.UTC().Format(time.DateTime), p.Last.UTC().Format(time.DateTime)
	c.State, c.Since = stateProblem, proxy.OptionalTime(p.Last)
	if c.Error = fmt.Sprintf("the network shows %q as an item of this feed, and this node did not find it at the web server at %s UTC and at %s UTC", p.Title, first, last); p.Lacked {
		c.Error = fmt.Sprintf("the web server showed this node the item %q at %s UTC and at %s UTC, and the network does not have it", p.Title, first, last)
	}
	if p.Confirmed {
		c.Error += "; another node reports the same: most of the nodes that keep the feed may lie, or the web server shows other items in some places"
	} else {
		c.Error += "; no other node has reported the same yet: the web server may show this node other items than the others, or most of the nodes that keep the feed may lie"
	}
	c.Do = "read the feed without tidings: " + c.URL
}

// addSlot adds this node's own part in the polls of a channel.
func (l *channelList) addSlot(c *proxy.Channel, key overlay.ID, p *pollState) {
	slot, ok := l.node.Corona.Slot(key)
	if !ok {
		return
	}
	if c.Polls = true; l.network.Wedge == "rank" {
		c.Rank = &slot.Rank // assignments by polling level have no ranks
	}
	c.PhaseS = new(slot.Phase.Seconds())
	if slot.Polled.After(p.Polled) {
		p.Polled = slot.Polled
	}
	if comesFirst(slot.Next, p.Next, time.Now()) {
		p.Next, c.Why = slot.Next, cmp.Or(slot.Why, c.Why)
	}
}

// comesFirst reports whether a poll planned here comes before the next poll of other nodes. If that time has
// passed, the others have polled or put the poll off: pollers report failures only now and then.
func comesFirst(own, others, now time.Time) bool {
	return !own.IsZero() && (others.IsZero() || own.Before(others) || others.Before(now))
}

// pollingLevel returns the polling level of a channel. For pollers by rank it is the level of a base-16 wedge
// with as many members.
func pollingLevel(s corona.State, members int) *float64 {
	switch {
	case s.Level > 0:
		return new(float64(s.Level - 1))
	case s.Pollers > 0 && s.Pollers <= members:
		return new(math.Round(100*math.Log(float64(members)/float64(s.Pollers))/math.Log(16)) / 100)
	}
	return nil
}

// expectedDetection returns the mean time from a change to the next poll, in seconds.
func (l *channelList) expectedDetection(p pollState) *float64 {
	switch {
	case p.Interval > 0 && p.Pollers > 1 && l.network.Phases != "even":
		return new(p.Interval.Seconds() / float64(p.Pollers+1))
	case p.Interval > 0 && p.Pollers > 0:
		return new(p.Interval.Seconds() / float64(2*p.Pollers))
	case p.period > 0:
		return new(p.period.Seconds() / 2)
	}
	return nil
}

// A pollState is the state of a feed's polls as far as this node knows.
type pollState struct {
	corona.State
	period     time.Duration // between two polls; 0: unknown
	leads      bool          // this node leads the feed
	pollerGone bool          // the node that polled it is gone
	polledHere bool          // this node is cut off from the feed and polls it itself
}

// pollerGoneText is shown for a feed whose poller is gone.
const pollerGoneText = "the node that polled this feed is gone: another one takes over"

// pollStateOf returns the state of a feed's polls; ok is false if no node has reported any yet.
func pollStateOf(n *node.Node, s feedtree.Subscription, now time.Time) (p pollState, ok bool) {
	n = n.NodeOf(s.Key)
	if polled, leads := n.Corona.View(s.Key); leads {
		p.State, p.leads = polled.State, true
	} else if reported, err := corona.ParseState(s.State); err == nil && len(s.State) > 0 {
		p.State = reported
	} else if recorded, known := corona.NotedState(n.Owners.Note(s.Key)); known { // a new owner has not heard from the poller yet
		p.State = recorded
	} else if !s.Alone {
		return p, false
	}
	if own, ok := n.Corona.Alone(s.Key); ok {
		return p.withOwnPolls(own, s.Heard), true
	}
	if !p.Polled.IsZero() && !p.Next.IsZero() {
		p.period = p.Next.Sub(p.Polled)
	}
	if p.leads {
		return p, true
	}
	aliveUntil, gone := pollerStatus(n, s, now)
	if p.State = p.Projected(now, aliveUntil); gone {
		p.pollerGone = true
		p.Next, p.Why = time.Time{}, pollerGoneText
		if p.Kind == coronapb.State_OK {
			p.Detail = pollerGoneText
		}
	}
	return p, true
}

// withOwnPolls returns the state of a feed that this node polls itself. Until its first poll, the state that
// the network reported last stays.
func (p pollState) withOwnPolls(own corona.State, heard time.Time) pollState {
	if own.Kind == coronapb.State_NEW && !p.Polled.IsZero() {
		p.State = p.Projected(heard, heard)
		p.Next, p.Why = own.Next, own.Why
	} else {
		own.Readers = p.Readers
		p.State = own
	}
	p.polledHere, p.period, p.Interval, p.Pollers = true, own.Interval, own.Interval, 1
	return p
}

// pollerStatus returns until when the poller of a feed is known to have been alive, and whether it is known
// to be gone. A node knows which members of its own leaf live; of others it knows only when they last signed
// something.
func pollerStatus(n *node.Node, s feedtree.Subscription, now time.Time) (aliveUntil time.Time, gone bool) {
	v, ok := n.Owners.View(s.Key)
	o := n.Overlay
	if !ok || v.Epoch == nil || o.State() != overlay.Active {
		return s.Confirmed, false
	}
	if o.Leaf().Has(o.IDOf(v.Epoch.Sequencer)) != nil {
		return now, false
	}
	return s.Confirmed, o.Leaf().Covers(s.Key)
}
