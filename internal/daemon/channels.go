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
	"tidings/overlay"
	"tidings/proxy"
)

// readTime is how long a list waits for the logs of feeds that were not read since the node has them: their titles
// are in them. After that it shows what is known.
const readTime = 2 * time.Second

// List returns all subscriptions; see proxy.Subscriptions.
func (d *Daemon) List(ctx context.Context) (of []proxy.Channel, err error) {
	wait, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	_, err = ask(wait, d, func(answer func(struct{})) {
		left := 1
		read := func(feedtree.Document) {
			if left--; left == 0 {
				answer(struct{}{})
			}
		}
		for _, s := range d.node.Feeds.Subscriptions() {
			if s.Version == 0 {
				left++
				d.node.Feeds.Read(s.Key, read)
			}
		}
		read(feedtree.Document{})
	})
	if err == nil || wait.Err() != nil {
		failing := d.disk.Stats().Failing
		err = d.do(ctx, func() {
			cut := d.cutOff()
			for _, s := range d.node.Feeds.Subscriptions() {
				of = append(of, saved(waiting(d.channelOf(s), s, cut), failing))
			}
		})
	}
	if err != nil {
		return nil, fmt.Errorf("list: %w", err)
	}
	return of, nil
}

// saved is a channel as it is while the store fails, if it does: the polls go well,
// and what they find is lost on the way to readers.
func saved(c proxy.Channel, failing string) proxy.Channel {
	if failing != "" && (c.State == proxy.StateOK || c.State == proxy.StateNew) {
		c.State, c.Since = proxy.StateUnsaved, nil
		c.Error, c.Do = "this node cannot save new items: "+failing, diskRemedy
	}
	return c
}

// channelOf is a subscription as lists show it.
func (d *Daemon) channelOf(s feedtree.Subscription) (c proxy.Channel) {
	c = proxy.Channel{
		URL: s.URL, Key: s.Key.String(), Title: s.Title, Kind: proxy.KindOf(s.URL), Items: s.Items, State: proxy.StateNew,
		Since: proxy.At(s.Since), Auto: attributesOf(s).Auto, Subscribers: s.Weight,
	}
	if s.Items > 0 {
		c.Provenance, c.State, c.Newest = feedtree.Single, proxy.StateOK, proxy.At(d.node.Feeds.Newest(s.Key))
	}
	a := attributesOf(s)
	c.Least, c.Tags, c.Title, c.Site = a.Least, a.Tags, cmp.Or(s.Title, a.Title), cmp.Or(s.Link, a.Site)
	if p := s.Publisher; p != nil {
		c.Publisher, c.PublisherSince, c.Published = difference.Fingerprint(p.Key), proxy.At(p.Since), p.Seq
		c.Former, c.KeyChange = formerKeys(s.URL, p)
		if p.Seq > 0 {
			c.Provenance = feedtree.ByPublisher
		}
	}
	if v, ok := d.node.Owners.View(s.Key); ok && v.Epoch != nil {
		c.Owners, c.Pollers = len(v.Epoch.Owners), 1
		c.Subscribers = max(c.Subscribers, v.Weight)
	}
	defer d.keyOf(&c, s)
	defer lacks(&c, s)
	polls, told := d.pollsOf(s, time.Now())
	if !told {
		return c
	}
	c.State, c.Error, c.Since, c.Moved, c.Why = polls.String(), polls.Detail, proxy.At(polls.Since), polls.Moved, polls.Why
	c.Subscribers = max(c.Subscribers, polls.Readers)
	c.Pollers = max(c.Pollers, polls.Pollers)
	if polls.orphaned {
		c.Pollers = 0
	}
	if polls.Kind != coronapb.State_OK {
		c.Do = remedy(c.URL, c.State, d.config.AllowPrivateOrigins)
	}
	d.turn(&c, s.Key, &polls)
	c.LastPoll, c.NextPoll = proxy.At(polls.Polled), proxy.At(polls.Next)
	c.Level = level(polls.State, d.node.Overlay.Count(0))
	if polls.Budget > 0 {
		c.Budget = &polls.Budget
	}
	if polls.Kind == coronapb.State_OK {
		c.DetectionExpectedS = d.expected(polls)
	}
	if polls.alone {
		c.Polls, c.Pollers = true, 1
		cutOffFrom(&c, s, polls)
	}
	if polls.Lag > 0 {
		c.DetectionObservedS = new(polls.Lag.Seconds())
	}
	return c
}

// stateKey is that of a feed whose key was changed, and not by its owner.
const stateKey = "key changed"

// keyOf adds what is said of another key, as loudly as ssh says it of a host's.
func (d *Daemon) keyOf(c *proxy.Channel, s feedtree.Subscription) {
	if s.Publisher == nil {
		return
	}
	seen := ""
	if s.Seen != nil {
		seen = difference.Fingerprint(s.Seen)
	}
	switch {
	case s.Doubt != nil:
		c.Claimed, c.State, c.Since = difference.Fingerprint(s.Doubt.Key), stateKey, nil
		c.Error = fmt.Sprintf("other nodes say that the publisher's key changed from %s to %s, and the old key does not confirm this: items signed with the new key are shown as unconfirmed, and items signed with the old key as the publisher's", c.Publisher, c.Claimed)
		switch seen {
		case "":
			c.Error += "; this node has not yet read which key the web server names, and reads it within a polling interval"
		case c.Publisher:
			c.Error += "; the web server named the old key at " + s.SeenAt.UTC().Format(time.DateTime) + " UTC, so those nodes may lie"
		default:
			c.Error += "; the web server named " + seen + " at " + s.SeenAt.UTC().Format(time.DateTime) + " UTC"
		}
		if s.Objectors > 0 {
			c.Error += "; " + proxy.Plural(s.Objectors, "other node", "other nodes") + " also read the old key there"
		}
		c.Do = "ask the publisher for the fingerprint of its key; if it is " + c.Claimed + ", run: tidings trust " + c.URL
	case seen != "" && !s.Publisher.Valid(s.Seen): // a key that named the present one before may be read for a while yet
		c.State, c.Since = stateKey, nil
		c.Error = fmt.Sprintf("the web server named the key %s at %s UTC, and the network does not know that key: items signed with %s may not be the publisher's", seen, s.SeenAt.UTC().Format(time.DateTime), c.Publisher)
		c.Do = "ask the publisher for the fingerprint of its key; if it is not " + c.Publisher + ", read the feed without tidings: " + c.URL
	}
}

// formerKeys are those that a feed had, the last one first, and how the present one came in their place. A
// key that its owner changes and one that somebody else has put there look alike: a person may know.
func formerKeys(url string, p *difference.Pin) (of []proxy.FormerKey, words string) {
	for _, t := range slices.Backward(p.Former) {
		of = append(of, proxy.FormerKey{Key: difference.Fingerprint(t.Key), Revoked: t.Revoked})
	}
	if len(of) == 0 {
		return nil, ""
	}
	words = fmt.Sprintf("the publisher's key was changed from %s to %s: ", of[0].Key, difference.Fingerprint(p.Key))
	how := "over HTTPS"
	if !strings.HasPrefix(url, "https://") {
		how = "at its private address, without HTTPS"
	}
	switch n := len(p.Witnesses); {
	case !of[0].Revoked:
		words += "the old key named the new one before, and its items stay the publisher's"
	case n > 0:
		words += fmt.Sprintf("the web server names the new key, as other nodes read %s (%d of them), and items of the old key are shown as revoked", how, n)
	default:
		words += "this node read the new key from the web server, or somebody ran tidings trust, and items of the old key are shown as revoked"
	}
	for _, k := range of[1:] {
		if k.Revoked {
			words += fmt.Sprintf("; items of %s, which was withdrawn before, are shown as revoked", k.Key)
		}
	}
	return of, words
}

// stateLacks is that of a feed whose log lacks items that it should have.
const stateLacks = "incomplete"

// lacks adds that the log leaves out what the publisher has signed, or has entries that nobody can
// read. Other troubles of the feed are said first.
func lacks(c *proxy.Channel, s feedtree.Subscription) {
	c.Missing, c.Unreadable = s.Lacks, s.Unreadable
	if s.Lacks == 0 && s.Unreadable == 0 || c.Error != "" && c.State != proxy.StateOK {
		return
	}
	c.State, c.Since = stateLacks, nil
	if c.Error = "the network lacks " + proxy.Plural(s.Lacks, "item", "items") + " that the publisher signed; the node asks the web server for what is missing"; s.Unreadable > 0 {
		c.Error = proxy.Plural(s.Unreadable, "entry", "entries") + " of this feed's log cannot be read; the web server is asked for what is missing"
	}
	c.Do = "also read the feed without tidings: " + c.URL
}

// turn adds what this node itself does for a channel.
func (d *Daemon) turn(c *proxy.Channel, key overlay.ID, p *polls) {
	t, ok := d.node.Corona.Slot(key)
	if !ok {
		return
	}
	if c.Polls = true; d.home.network.Wedge == "rank" {
		c.Rank = &t.Rank // polling levels have none
	}
	c.PhaseS = new(t.Phase.Seconds())
	if t.Polled.After(p.Polled) {
		p.Polled = t.Polled
	}
	if sooner(t.Next, p.Next, time.Now()) {
		p.Next, c.Why = t.Next, cmp.Or(t.Why, c.Why)
	}
}

// sooner says whether a poll that is planned here comes before the one that others are said to make. What
// they were to make before now they have made, or put off, and who polls tells of failures now and then only.
func sooner(own, others, now time.Time) bool {
	return !own.IsZero() && (others.IsZero() || own.Before(others) || others.Before(now))
}

// level is the polling level of a channel that so many of all members poll: of ranks, that of
// a wedge in base 16 with as many members.
func level(s corona.State, members int) *float64 {
	switch {
	case s.Level > 0:
		return new(float64(s.Level - 1))
	case s.Pollers > 0 && s.Pollers <= members:
		return new(math.Round(100*math.Log(float64(members)/float64(s.Pollers))/math.Log(16)) / 100)
	}
	return nil
}

// expected is the mean time in seconds from a change to the next poll.
func (d *Daemon) expected(p polls) *float64 {
	switch {
	case p.Interval > 0 && p.Pollers > 1 && d.home.network.Phases != "even":
		return new(p.Interval.Seconds() / float64(p.Pollers+1))
	case p.Interval > 0 && p.Pollers > 0:
		return new(p.Interval.Seconds() / float64(2*p.Pollers))
	case p.every > 0:
		return new(p.every.Seconds() / 2)
	}
	return nil
}

// polls say how the polls of a feed go, as far as this node knows.
type polls struct {
	corona.State
	every    time.Duration // between two; 0: unknown
	here     bool          // this node leads it
	orphaned bool          // who polled it is gone
	alone    bool          // this node is cut off from it, and polls it itself
}

// orphan is said of a feed whose poller is gone.
const orphan = "the node that polled this feed is gone: another one takes over"

// pollsOf returns how the polls of a feed go; ok is false if nobody has said so yet.
func (d *Daemon) pollsOf(s feedtree.Subscription, now time.Time) (p polls, ok bool) {
	polled, here := d.node.Corona.View(s.Key)
	told, err := corona.ParseState(s.State)
	noted, known := corona.NotedState(d.node.Owners.Note(s.Key))
	switch {
	case here:
		p.State, p.here = polled.State, true
	case err == nil && len(s.State) > 0:
		p.State = told
	case known: // who came lately has not heard from its poller yet
		p.State = noted
	case s.Alone:
	default:
		return p, false
	}
	if lone, ok := d.node.Corona.Alone(s.Key); ok {
		return p.polledAlone(lone, s.Heard), true
	}
	if !p.Polled.IsZero() && !p.Next.IsZero() {
		p.every = p.Next.Sub(p.Polled)
	}
	if p.here {
		return p, true
	}
	sure, gone := d.poller(s, now)
	if p.State = p.Projected(now, sure); gone {
		p.orphaned = true
		p.Next, p.Why = time.Time{}, orphan
		if p.Kind == coronapb.State_OK {
			p.Detail = orphan
		}
	}
	return p, true
}

// polledAlone says how the polls of a feed go that this node makes itself. Until the first of them stands
// what the network said last.
func (p polls) polledAlone(lone corona.State, heard time.Time) polls {
	if lone.Kind == coronapb.State_NEW && !p.Polled.IsZero() {
		p.State = p.Projected(heard, heard)
		p.Next, p.Why = lone.Next, lone.Why
	} else {
		lone.Readers = p.Readers
		p.State = lone
	}
	p.alone, p.every, p.Interval, p.Pollers = true, lone.Interval, lone.Interval, 1
	return p
}

// poller says until when the poller of a feed is known to have lived, and whether it is
// known to be gone. The members of its own leaf a node knows; of others it has what
// they last signed.
func (d *Daemon) poller(s feedtree.Subscription, now time.Time) (sure time.Time, gone bool) {
	v, ok := d.node.Owners.View(s.Key)
	o := d.node.Overlay
	if !ok || v.Epoch == nil || o.State() != overlay.Active {
		return s.Confirmed, false
	}
	if o.Leaf().Has(overlay.NodeID(o.Network(), v.Epoch.Sequencer)) != nil {
		return now, false
	}
	return s.Confirmed, o.Leaf().Covers(s.Key)
}
