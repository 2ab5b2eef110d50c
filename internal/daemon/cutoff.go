package daemon

import (
	"time"

	"tidings/corona/coronapb"
	"tidings/feedtree"
	"tidings/internal/locale"
	"tidings/internal/node"
	"tidings/overlay"
	"tidings/proxy"
)

// timeFormat is the format of times in texts for people.
const timeFormat = "2006-01-02 15:04 UTC"

// noContactText says since when the node has had no contact with other nodes.
func noContactText(since time.Time) locale.Text {
	return locale.Say("no other node of the network has been heard of since %s, for %s", since.UTC().Format(timeFormat), proxy.SpanText(time.Since(since)))
}

// cutOffFinding returns the doctor's finding about a node without contact to other nodes.
func cutOffFinding(c feedtree.CutOff, subscriptions int) proxy.Finding {
	what := noContactText(c.Since)
	switch {
	case subscriptions == 0:
	case c.Feeds == 0:
		what = locale.Say("%s: from %s on, this node polls its subscriptions itself", what, c.Since.Add(c.After).UTC().Format(timeFormat))
	default:
		what = locale.Say("%s: this node polls %d of its %s itself", what, c.Feeds, locale.Say("%d subscriptions", subscriptions))
	}
	return proxy.Finding{
		Level: levelNote, What: what,
		Do: locale.Say("check the network connection of this machine, and whether nodes run at the --bootstrap addresses; the node rejoins by itself, and no item is shown twice"),
	}
}

// addCutOff adds that this node receives nothing of a feed from the network, and polls it itself. c already
// has the state of the node's own polls, if there were any.
func addCutOff(c *proxy.Channel, s feedtree.Subscription, p pollState) {
	text := "the network has said nothing about this feed since " + s.Heard.UTC().Format(timeFormat) + ": this node polls it itself"
	if p.Kind != coronapb.State_OK && p.Kind != coronapb.State_NEW {
		c.Error += "; " + text
		return
	}
	c.State, c.Since, c.Error = proxy.StateCutOff, proxy.OptionalTime(s.Heard), text
}

// withCutOff returns a channel of a node without contact to others. Its error says when the node begins to
// poll the feed itself.
func withCutOff(c proxy.Channel, s feedtree.Subscription, cut *feedtree.CutOff) proxy.Channel {
	if cut == nil || c.Quiet || s.Alone || s.Led || c.State != proxy.StateOK && c.State != proxy.StateNew {
		return c
	}
	c.State, c.Since = proxy.StateCutOff, proxy.OptionalTime(cut.Since)
	c.Error = noContactText(cut.Since).String() + ": this node polls the feed itself from " + s.Heard.Add(cut.After).UTC().Format(timeFormat) + " on"
	return c
}

// A Contact says whether, and how, a node is in contact with its network.
type Contact struct {
	Network string // name of the network
	State   overlay.State
	Size    int              // estimated number of members of the network
	CutOff  *feedtree.CutOff // nil: the node is in contact with others
}

// alone reports whether the node has no contact with other nodes. A client has contact, and does not know the size of its network.
func (c Contact) alone() bool {
	return c.CutOff != nil || c.Size <= 1 && c.State != overlay.Attached
}

// contact returns the node's contact, which belongs to the loop.
func (st *status) contact() Contact {
	o := st.node.Overlay
	return Contact{st.network.Name, o.State(), o.Stats().EstimatedN, cutOff(st.node)}
}

// cutOff returns since when the node has had no contact with others; nil: it has contact. It is called on the
// loop.
func cutOff(n *node.Node) *feedtree.CutOff {
	if c, ok := n.Feeds.CutOff(); ok {
		return &c
	}
	return nil
}

// quietAnswer is how long a quiet subscription may be new. Its first answer takes some seconds; in a network that is too small,
// a circuit stands and nothing ever comes through it.
const quietAnswer = 2 * time.Minute

// addCircuit adds that a subscription is quiet, and that no members stand between at present or bring nothing of the feed.
func addCircuit(c *proxy.Channel, n *node.Node, s feedtree.Subscription) {
	if connected, quiet := n.Quiet(s.Key); quiet {
		c.Quiet = true
		addQuietState(c, s, connected, time.Now())
	}
}

func addQuietState(c *proxy.Channel, s feedtree.Subscription, connected bool, now time.Time) {
	unheard := c.State == proxy.StateNew && now.Sub(s.Since) > quietAnswer
	if unheard || !connected && (c.State == proxy.StateOK || c.State == proxy.StateNew || c.State == proxy.StateCutOff) {
		c.State, c.Since = proxy.StateCutOff, proxy.OptionalTime(s.Heard)
		c.Error = "this node looks for two other members that stand between it and the feed, and for others that keep it; the network must have at least five members"
	}
}
