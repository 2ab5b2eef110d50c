package daemon

import (
	"fmt"
	"time"

	"tidings/corona/coronapb"
	"tidings/feedtree"
	"tidings/proxy"
)

// clockTime is how texts for people name a moment.
const clockTime = "2006-01-02 15:04 UTC"

// unheard says since when nobody was heard.
func unheard(since time.Time) string {
	return fmt.Sprintf("no other node of the network has been heard of since %s, for %s", since.UTC().Format(clockTime), proxy.FormatSpan(time.Since(since)))
}

// cutOffFinding is what the doctor says of a node that hears of nobody.
func cutOffFinding(c feedtree.CutOff, subscriptions int) proxy.Finding {
	what := unheard(c.Since)
	switch {
	case subscriptions == 0:
	case c.Feeds == 0:
		what += fmt.Sprintf(": from %s on, this node polls its subscriptions itself", c.Since.Add(c.After).UTC().Format(clockTime))
	default:
		what += fmt.Sprintf(": this node polls %d of its %s itself", c.Feeds, proxy.Plural(subscriptions, "subscription", "subscriptions"))
	}
	return proxy.Finding{
		Level: levelNote, What: what,
		Do: "check the network connection of this machine, and whether nodes run at the --bootstrap addresses; the node rejoins by itself, and no item is shown twice",
	}
}

// cutOffFrom says of a feed that this node hears nothing of it from the network, and what it does about that.
// c has the state of the node's own polls already, if it makes any.
func cutOffFrom(c *proxy.Channel, s feedtree.Subscription, p polls) {
	words := "the network has said nothing about this feed since " + s.Heard.UTC().Format(clockTime) + ": this node polls it itself"
	if p.Kind != coronapb.State_OK && p.Kind != coronapb.State_NEW {
		c.Error += "; " + words
		return
	}
	c.State, c.Since, c.Error = proxy.StateCutOff, proxy.OptionalTime(s.Heard), words
}

// waiting says of a feed of a node that hears of nobody from when on the node polls the feed itself.
func waiting(c proxy.Channel, s feedtree.Subscription, cut *feedtree.CutOff) proxy.Channel {
	if cut == nil || s.Alone || s.Led || c.State != proxy.StateOK && c.State != proxy.StateNew {
		return c
	}
	c.State, c.Since = proxy.StateCutOff, proxy.OptionalTime(cut.Since)
	c.Error = unheard(cut.Since) + ": this node polls the feed itself from " + s.Heard.Add(cut.After).UTC().Format(clockTime) + " on"
	return c
}

// cutOff is how a node fares that hears of nobody; nil: it does hear of others. It is for the loop.
func (d *Daemon) cutOff() *feedtree.CutOff {
	if c, ok := d.node.Feeds.CutOff(); ok {
		return &c
	}
	return nil
}
