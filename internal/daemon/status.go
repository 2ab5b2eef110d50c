package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"tidings/cobra/firehose"
	"tidings/cobra/tiers"
	"tidings/corona/coronapb"
	"tidings/difference"
	"tidings/internal/feed"
	"tidings/internal/locale"
	"tidings/internal/store"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/libp2p"
	"tidings/overlay/scribe"
	"tidings/proxy"
)

// status says how the node is, and what is wrong with it. It also keeps the journal.
type status struct {
	*nodeLoop
	config   Config
	dataDir  *dataDir
	host     *libp2p.Host
	disk     *store.Disk
	http     net.Listener // nil: readers are not served
	public   net.Listener // nil: hubs do not reach the node
	damage   *storeDamage // its count is set before the network is known
	channels *channelList
	keywords *keywords
	targets  *notifications
	contacts *messenger // nil: there is none
	history  *history
	hosting  *hosting
	tokens   *searchTokens
	log      *slog.Logger
}

// A Snapshot is the state of a node at one moment.
type Snapshot struct {
	Peer      string   // peer id of the node
	Listens   []string // multiaddrs at which the node listens
	Addrs     []string // addresses at which others can probably dial the node, to give to nodes that join
	Refusals  []libp2p.Refusal
	Transport libp2p.Stats
	Store     store.Stats

	// The following fields are zero while the node does not know its network.

	Contact
	Hash    wire.Hash
	ID      overlay.ID
	Depth   int          // bits in the prefix of the node's leaf
	Leaf    []overlay.ID // members of the leaf, the node included
	Slots   []overlay.Slot
	Counts  []int        // Counts[i] members share i bits with the node's id, 0 <= i <= Depth
	Hosts   []overlay.ID // members that act for the node while it is a client
	Overlay overlay.Stats
	Scribe  scribe.Stats

	EntryPoints overlay.EntryPoints

	Firehose firehose.Stats
	Hosting  tiers.State
	Feeds    int // number of subscriptions
	Hubs     int // number of subscriptions at hubs, for the network

	IDs         string               // of the network's members, see wire.Network
	Certificate *overlay.Certificate // of the node in a network of certificates; nil: none
	Revoked     bool                 // an authority has revoked it
	Reachable   bool                 // other nodes can dial the node
}

// Snapshot returns the state of the node.
func (st *status) Snapshot(ctx context.Context) (Snapshot, error) {
	s := Snapshot{
		Peer:      libp2p.PeerIDString(st.host.ID()),
		Listens:   st.host.ListenAddrs(),
		Addrs:     st.host.Addrs(),
		Refusals:  st.host.Refusals(),
		Transport: st.host.Stats(),
		Store:     st.disk.Stats(),
	}
	if !st.hasJoined() {
		return s, nil
	}
	if err := st.do(ctx, func() { st.addNodeState(&s) }); err != nil {
		return s, fmt.Errorf("status: %w", err)
	}
	return s, nil
}

// addNodeState adds the state of the layers, which belong to the loop.
func (st *status) addNodeState(s *Snapshot) {
	o := st.node.Overlay
	s.Contact = st.contact()
	s.Hash = wire.HashOf(st.dataDir.Descriptor)
	s.ID, s.Overlay, s.Scribe = o.ID(), o.Stats(), st.node.Scribe.Stats()
	s.IDs, s.Certificate, s.Revoked, s.Reachable = st.network.IDs, o.Certificate(), o.Revoked(), o.CanBeDialled()
	s.EntryPoints = o.EntryPoints()
	s.Firehose = st.node.Firehose.Stats()
	s.Hosting = st.node.Tiers.State()
	s.Feeds, s.Hubs = st.node.Feeds.CountSubscriptions(), st.node.Corona.HubSubscriptions()
	s.Depth, s.Leaf, s.Hosts = o.Leaf().Depth(), contactIDs(o.Leaf().Members()), contactIDs(o.Hosts())
	s.Slots = o.Slots()
	for bits := range s.Depth + 1 {
		s.Counts = append(s.Counts, o.Count(bits))
	}
}

func contactIDs(contacts []*overlay.Contact) []overlay.ID {
	var out []overlay.ID
	for _, c := range contacts {
		out = append(out, c.ID)
	}
	return out
}

// JoinAddresses returns the addresses through which other nodes can join, and the estimated number of members
// of the network. The number is 0 until this node is a member itself.
func (st *status) JoinAddresses(ctx context.Context) (addrs []string, members int, err error) {
	s, err := st.Snapshot(ctx)
	if err != nil || s.State != overlay.Active {
		return s.Addrs, 0, err
	}
	return s.Addrs, max(s.Size, 1), nil
}

// SentBytes returns how many bytes of frames the node has sent to others.
func (st *status) SentBytes() int {
	s := st.host.Stats()
	return int(s.Control.BytesOut + s.Bulk.BytesOut)
}

// Status returns the state of the node; see proxy.Subscriptions.
func (st *status) Status(ctx context.Context) (proxy.Status, error) {
	snap, err := st.Snapshot(ctx)
	if err != nil {
		return proxy.Status{}, err
	}
	s := proxy.Status{
		PeerID: snap.Peer, Addresses: snap.Addrs, Peers: snap.Transport.Connections,
		UptimeS: time.Since(st.opened).Round(time.Millisecond).Seconds(), Version: st.config.Version,
		Network: snap.Network, EstimateN: snap.Size, State: proxy.StateOK,
	}
	for _, f := range st.findings(snap) {
		if f.Level != levelOK {
			s.Warnings = append(s.Warnings, proxy.Warning{What: f.What, Do: f.Do})
		}
		switch {
		case f.Level != levelProblem:
		case f.What.String() == wrongNetworkText: // it is always the first problem
			s.State = proxy.StateRefused
		default:
			s.State = "trouble"
		}
	}
	if snap.Network == "" {
		s.State = "joining"
		return s, nil
	}
	if c := snap.CutOff; c != nil {
		s.CutOff, s.CutOffSince = true, proxy.OptionalTime(c.Since)
		if s.State == proxy.StateOK {
			s.State = proxy.StateCutOff
		}
	}
	s.Messenger, s.SearchTokens = st.contacts.Status(), st.tokens.counts()
	if s.Hosting = hostingStatus(snap.Hosting); s.Hosting != nil {
		s.Hosting.TopologyError, s.Hosting.Rates = st.hosting.notTaken(), st.hosting.ratesOf(snap)
		s.Hosting.CrawlList = st.hosting.crawlList(snap.Hosting)
		s.Hosting.Discovery = st.hosting.discovery(snap.Hosting)
	}
	s.ID, s.EntryPoints = snap.ID.String(), entryPointsStatus(snap.EntryPoints)
	s.Scheme, s.Settings = st.network.Scheme(), st.network.Settings()
	err = st.do(ctx, func() {
		s.ChannelsOwned = st.node.Owners.Stats().Owned
		s.ChannelsPolled = st.node.Corona.Stats().PolledFeeds
		s.Subscriptions = st.node.CountSubscriptions() + len(st.channels.private.list())
		for _, r := range st.node.Feeds.Refusals() {
			refused := proxy.RejectedItem{URL: r.URL, Seq: r.Seq, Why: r.Why, At: proxy.OptionalTime(r.At)}
			if r.Key != nil {
				refused.Key = difference.Fingerprint(r.Key)
			}
			s.RejectedItems = append(s.RejectedItems, refused)
		}
		if v, ok := st.node.Corona.Decision(); ok {
			s.Clusters, s.Levels, s.Overbooked = v.Clusters, v.Levels, !v.Fits
			if v.Fits { // otherwise lambda is infinite, which JSON cannot express
				s.Lambda = &v.Lambda
			}
		}
	})
	if err != nil {
		return s, fmt.Errorf("status: %w", err)
	}
	return s, nil
}

// Network returns the members that the node knows; see proxy.Subscriptions.
func (st *status) Network(ctx context.Context) (n proxy.Network, err error) {
	if !st.hasJoined() {
		return n, nil // there are no members yet
	}
	err = st.do(ctx, func() {
		o := st.node.Overlay
		n.Name, n.EstimateN = st.network.Name, o.Count(0)
		add := func(role string, c *overlay.Contact) {
			if slices.ContainsFunc(n.Members, func(m proxy.Member) bool { return m.ID == c.ID.String() }) {
				return
			}
			m := proxy.Member{ID: c.ID.String(), PeerID: libp2p.PeerIDString(c.Peer.ID), Role: role}
			if rtt := o.RTT(c.Peer.ID); rtt > 0 && role != proxy.RoleSelf {
				m.RTTMs = new(float64(rtt) / float64(time.Millisecond))
			}
			n.Members = append(n.Members, m)
		}
		add(proxy.RoleSelf, o.Self())
		for _, c := range o.Leaf().Members() {
			add(proxy.RoleLeaf, c)
		}
		for _, c := range o.Contacts() {
			add(proxy.RoleContact, c)
		}
	})
	if err != nil {
		return n, fmt.Errorf("network: %w", err)
	}
	n.History = st.history.all()
	return n, nil
}

// diskRemedy is the remedy for a store that cannot be written.
var diskRemedy = locale.Say("free space on the disk, or check its health")

// remedy returns what the user can do about the state of a subscription, other than wait; "" if nothing.
// private says that the node may poll origins on private addresses. If waiting does not help, the last resort
// is to stop following the feed.
func remedy(channel, state string, private bool) string {
	address, isPage := feed.DocumentURL(channel)
	stop := "; or stop following it: tidings unsubscribe " + proxy.ShellWord(channel)
	switch state {
	case kindName(coronapb.State_GONE):
		return "look for another feed of the site" + stop
	case kindName(coronapb.State_MISSING), kindName(coronapb.State_NOT_A_FEED):
		what := "open the address in a browser: "
		switch {
		case isPage:
			what += "the page may have moved"
		case state == kindName(coronapb.State_NOT_A_FEED):
			what += "the feed may have moved; to follow the page that is there, subscribe to " + feed.PageChannel(address)
		default:
			what += "the feed may have moved"
		}
		return what + stop
	case kindName(coronapb.State_BROKEN), kindName(coronapb.State_TOO_LARGE):
		if rule, _ := feed.WhatCounts(channel); !rule.IsZero() {
			return "compare what counts (" + rule.String() + ") with " + address + " in a browser, and subscribe with another selector" + stop
		}
		return "if this does not end, tell the owner of the site" + stop
	case kindName(coronapb.State_LIMITED):
		return "the node waits as long as the web server asks"
	case kindName(coronapb.State_REFUSED):
		if private {
			return "nodes never poll link-local addresses, their own addresses, or what robots.txt forbids: choose another address" + stop
		}
		return allowPrivateRemedy + stop
	}
	return ""
}

// allowPrivateRemedy is the remedy for an address that may have been refused because it is private.
const allowPrivateRemedy = "if the web server is yours and has a private address, run the node with --allow-private-origins (link-local addresses are never polled)"

// joinHint says how others can join the network of a node that is alone.
func joinHint(snap Snapshot) locale.Text {
	if len(snap.Addrs) == 0 {
		return locale.Say("other nodes cannot join through it, because it knows no address at which they can reach it: forward its port (4801 by default, TCP and UDP) on your router, or join another node with --bootstrap")
	}
	return locale.Say("to let other nodes join, give them this address for --bootstrap: %s", snap.Addrs[0])
}

// wrongNetworkText is the problem of a node that was started with the data directory of another network.
var wrongNetworkText = locale.Key("this data directory belongs to another network than the nodes at --bootstrap (another name or other settings), so they refuse this node")

// isRefused reports whether the node is alone and a node at --bootstrap refuses it as a node of another
// network.
func isRefused(snap Snapshot) bool {
	return snap.alone() &&
		slices.ContainsFunc(snap.Refusals, func(r libp2p.Refusal) bool { return r.Network && r.Bootstrap })
}

// findings returns the findings about the node itself.
func (st *status) findings(snap Snapshot) (findings []proxy.Finding) {
	add := func(level string, what, do locale.Text) {
		findings = append(findings, proxy.Finding{Level: level, What: what, Do: do})
	}
	switch {
	case snap.Network == "": // no node at --bootstrap has answered yet
		add(levelProblem, locale.Say("the node has not found its network yet"), locale.Say("check the --bootstrap addresses, and whether nodes run there"))
	case isRefused(snap):
		add(levelProblem, locale.Say(wrongNetworkText), locale.Say("start the node with an empty --data directory to join them; before that, save the subscriptions with tidings opml export --original FILE"))
	case snap.Revoked && st.config.Authority != nil: // also if no other member is left to which it could attach
		findings = append(findings, uncertifiedFinding(snap, true))
	case snap.CutOff != nil:
		findings = append(findings, cutOffFinding(*snap.CutOff, snap.Feeds))
	case snap.Size <= 1 && snap.State == overlay.Active:
		add(levelOK, locale.Say("the node is alone in its network and polls for itself"), joinHint(snap))
	case snap.State == overlay.Attached && snap.Reachable && snap.IDs == wire.CertificateIDs:
		findings = append(findings, uncertifiedFinding(snap, false))
	case snap.State == overlay.Attached && snap.Reachable && snap.IDs == wire.AddressIDs:
		add(levelNote, locale.Say("other nodes have all places of this node's block of addresses, so it takes part as a client: it reads and does not poll for others"),
			locale.Say("the node asks again each hour"))
	case snap.State == overlay.Attached:
		add(levelNote, locale.Say("other nodes cannot connect to this node, so it takes part through other nodes and does not poll for the network"),
			locale.Say("to help the network, forward its port (4801 by default, TCP and UDP) on your router"))
	case snap.State != overlay.Active:
		add(levelNote, locale.Say("the node is joining its network"), locale.Say("wait a few seconds"))
	default:
		add(levelOK, locale.Say("the node is a member of network %q, which has about %s", snap.Network, locale.Say("%d members", snap.Size)), nil)
	}
	if snap.Size > 1 {
		what := locale.Say("ids of members are %s", proxy.IDsText(snap.IDs))
		if c := snap.Certificate; c != nil {
			what = locale.Say("ids of members are %s; this node's own is valid until %s", proxy.IDsText(snap.IDs), c.NotAfter.Format(time.DateOnly))
		}
		add(levelOK, what, nil)
	}
	if a := st.config.Authority; a != nil {
		if err := a.Check(); err != nil {
			add(levelProblem, locale.Verbatim(err.Error()), nil)
		}
	}
	if f, ok := entryPointsFinding(snap.EntryPoints); ok && snap.CutOff == nil {
		findings = append(findings, f)
	}
	for _, r := range snap.Refusals {
		findings = append(findings, refusalFinding(r))
	}
	if f := snap.Firehose; st.config.Filter && snap.Network != "" {
		switch {
		case f.SilentShards > 0:
			what := locale.Say("this filter receives nothing at present of %d of %d parts of the network's feeds", f.SilentShards, firehose.DefaultShards)
			if f.SilentShards == firehose.DefaultShards {
				what = locale.Say("this filter receives nothing at present of all of the network's feeds")
			}
			add(levelNote, what, locale.Say("wait a minute: the filter asks for what it missed in the last hour"))
		case f.Missed+f.Gaps > 0:
			add(levelNote, locale.Say("since its start this filter missed %s, and was disconnected %s for longer than other nodes keep entries",
				locale.Say("%d entries", f.Missed), locale.Say("%d times", f.Gaps)), nil)
		default:
			add(levelOK, locale.Say("the filter receives all feeds of the network: %s since its start", locale.Say("%d new entries", f.Heard)), nil)
		}
	}
	findings = append(findings, hostingFindings(snap.Hosting, st.hosting.notTaken(), time.Now())...)
	findings = append(findings, crawlListFindings(st.hosting.crawlList(snap.Hosting))...)
	if snap.Store.Failing != "" {
		add(levelProblem, locale.Say("the store cannot be written: %s", snap.Store.Failing), diskRemedy)
	}
	if f, ok := st.damage.finding(st.config.Dir); ok && snap.Network != "" {
		findings = append(findings, f)
	}
	if st.dataDir.identityReplaced {
		add(levelNote, locale.Say("the node has a new id, because its store was lost or damaged"), nil)
	}
	if snap.Store.Damaged > 0 {
		add(levelNote, locale.Say("since the start, damage was found in %d records of the store; the node gets what is missing again from the network", snap.Store.Damaged), checkDisk)
	}
	if a := st.public; a != nil && snap.Network != "" {
		findings = append(findings, callbacksFinding(st.config.PublicURL, a.Addr(), snap.Hubs, snap.State == overlay.Active))
	}
	if a := st.http; a != nil {
		findings = append(findings, readersFinding(a.Addr().String(), st.config.BaseURL))
	}
	return findings
}

// readersFinding says at which URL feed readers reach a node that listens at an address.
func readersFinding(address, baseURL string) proxy.Finding {
	at, err := netip.ParseAddrPort(address)
	switch {
	case baseURL != "":
		address = strings.TrimSuffix(baseURL, "/") + "/"
	case err == nil && at.Addr().IsUnspecified():
		address = fmt.Sprintf("http://127.0.0.1:%d/", at.Port())
	default:
		address = "http://" + address + "/"
	}
	f := proxy.Finding{Level: levelOK, What: locale.Say("feed readers are served at %s", address)}
	if baseURL == "" && err == nil && !at.Addr().IsLoopback() {
		f.Do = locale.Say("readers on other machines are refused (421) until --base-url is the URL at which they reach the node, such as http://nas.example:%s", strconv.Itoa(int(at.Port())))
	}
	return f
}
