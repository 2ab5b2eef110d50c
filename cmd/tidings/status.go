package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"tidings/proxy"
)

// A statusCommand is "tidings status".
type statusCommand struct {
	client `embed:""`
	JSON   bool `name:"json" help:"Print one JSON object."`
}

// Run prints the node's status.
func (c *statusCommand) Run(ctx context.Context, s streams) error {
	raw, answer, err := getAnswer[proxy.Status](ctx, c.client, "status")
	switch {
	case err != nil:
		return err
	case c.JSON:
		return printRaw(s.out, raw)
	}
	_, err = fmt.Fprint(s.out, statusTable(answer, terminalOf(s.out), time.Now()))
	return err
}

// statusTable formats a node's status for people.
func statusTable(st proxy.Status, t terminal, now time.Time) string {
	table := table{terminal: t, columns: []column{{}, {elastic: 1, wrap: true}}}
	line := func(name, text string, c colour) {
		if text != "" {
			table.row(cell{name, faint}, cell{text, c})
		}
	}
	line("state", st.State, stateColour(st.State))
	line("network", st.Network, bold)
	line("scheme", st.Scheme, plainText)
	line("settings", settingsOf(st), plainText)
	line("ids", proxy.IDsText(st.Settings["ids"]).String(), plainText)
	line("members", membersText(st.EstimateN), plainText)
	line("peers", strconv.Itoa(st.Peers)+" connected", plainText)
	line("subscriptions", strconv.Itoa(st.Subscriptions), plainText)
	line("feeds", fmt.Sprintf("%d kept for the network, %d polled", st.ChannelsOwned, st.ChannelsPolled), plainText)
	line("decision", decisionText(st), plainText)
	line("messenger", messengerText(st.Messenger), plainText)
	if n := st.SearchTokens; n != nil {
		line("tokens", fmt.Sprintf("%d, with %s", n.Tokens, proxy.Plural(n.Searches, "search", "searches")), plainText)
	}
	if h := st.Hosting; h != nil {
		line("hosting", hostingText(h), plainText)
		line("candidates", discoveryText(h.Discovery), plainText)
		for _, l := range h.Links {
			line(l.Way+" "+l.Name, fmt.Sprintf("%d articles wait (%d bytes), %d dropped, heard %s", l.Waiting, l.Bytes, l.Dropped, ago(l.Heard, now)), plainText)
		}
	}
	line("up for", span(time.Duration(st.UptimeS*float64(time.Second))), plainText)
	line("version", st.Version, plainText)
	line("id", st.ID, plainText)
	line("peer id", st.PeerID, plainText)
	if len(st.Addresses) == 0 {
		line("addresses", "none that other nodes can reach", plainText)
	}
	for i, a := range st.Addresses {
		name := "addresses"
		if i > 0 {
			name = " "
		}
		line(name, a, plainText)
	}
	for _, w := range st.Warnings {
		line("warning", w.String(), yellow)
	}
	for _, r := range st.RejectedItems {
		item := r.URL
		if r.Key != "" {
			item = fmt.Sprintf("item %d of %s, signed by %s", r.Seq, r.URL, r.Key)
		} else if item == "" {
			item = "an item"
		}
		line("refused", item+", "+ago(r.At, now)+": "+r.Why, yellow)
	}
	return table.String()
}

// settingsOf lists the settings of the node's network.
func settingsOf(st proxy.Status) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(st.Settings)) {
		if st.Settings[name] == "" {
			continue // a network without authorities
		}
		parts = append(parts, name+" "+st.Settings[name])
	}
	return strings.Join(parts, ", ")
}

// hostingText describes what a node does in a hosting centre.
func hostingText(h *proxy.Hosting) string {
	text := fmt.Sprintf("%s, a %s: %s since its start", h.Name, h.Role, proxy.Plural(int(h.Articles), "article", "articles"))
	switch {
	case h.Role == "crawler":
		text += ", " + proxy.Plural(h.Feeds, "feed", "feeds")
		if l := h.CrawlList; l != nil && l.Failing > 0 {
			text += fmt.Sprintf(" (the last poll of %d failed)", l.Failing)
		}
		if l := h.CrawlList; l != nil && l.Wrong > 0 {
			text += fmt.Sprintf(", %s of the list without an address", proxy.Plural(l.Wrong, "entry", "entries"))
		}
	case h.Role == "reflector" && !h.Placed:
		text += ", " + proxy.Plural(h.Queries, "query", "queries") + ", which its filters do not have yet"
	default:
		text += ", " + proxy.Plural(h.Queries, "query", "queries")
	}
	switch {
	case h.Retired && h.Settled:
		text += "; not in the topology any more, and may be stopped"
	case !h.Settled:
		text += "; the last change of the topology is not complete"
	}
	if h.WaitsFor != "" {
		text += "; waits for " + h.WaitsFor
	}
	if h.TopologyError != "" {
		text += "; does not take the topology of its file"
	}
	return text
}

// discoveryText describes how a crawler looks for feeds.
func discoveryText(d *proxy.Discovery) string {
	switch {
	case d == nil:
		return ""
	case d.Budget == 0:
		return proxy.Plural(d.Candidates, "feed", "feeds") + "; the node looks for no others"
	}
	return fmt.Sprintf("%s, from %s that articles name; %d requests since its start, at most %d an hour",
		proxy.Plural(d.Candidates, "feed", "feeds"), proxy.Plural(d.Hosts, "host", "hosts"), d.Requests, d.Budget)
}

// messengerText describes the node's messenger.
func messengerText(m *proxy.Messenger) string {
	switch {
	case m == nil:
		return ""
	case !m.Connected:
		return strings.TrimSuffix(m.Account+", not connected: "+m.Error, ": ")
	}
	return m.Account + ", connected, with " + proxy.Plural(len(m.Contacts), "contact", "contacts")
}

// decisionText describes how a node decides how many nodes poll each channel that it leads.
func decisionText(st proxy.Status) string {
	var text string
	switch {
	case st.Overbooked:
		text = "one poller per feed, which is already more than the network may poll"
	case st.Lambda == nil:
		return ""
	default:
		text = fmt.Sprintf("lambda = %.3g, with %s of other nodes", *st.Lambda, proxy.Plural(st.Clusters, "tradeoff cluster", "tradeoff clusters"))
	}
	var levels []string
	for l, n := range st.Levels {
		if n > 0 {
			levels = append(levels, fmt.Sprintf("%d at level %d", n, l))
		}
	}
	if len(levels) > 0 {
		text += "; this node leads " + strings.Join(levels, ", ")
	}
	return text
}

// membersText describes the size of a network.
func membersText(n int) string {
	switch n {
	case 0:
		return "not known to this node, because only members of the network count them"
	case 1:
		return "1 (this node alone)"
	}
	return "about " + strconv.Itoa(n)
}
