package daemon

import (
	"tidings/internal/locale"
	"tidings/overlay"
	"tidings/overlay/libp2p"
	"tidings/proxy"
)

// entryPointDoubts says why the network may be a false one.
func entryPointDoubts(e overlay.EntryPoints) (why locale.Text) {
	add := func(is bool, text locale.Text) {
		switch {
		case !is:
		case len(why) == 0:
			why = text
		default:
			why = locale.Say("%s; %s", why, text)
		}
	}
	add(e.Apart > 0, locale.Say("of the %d nodes asked through which this node can join, %d did not find the members that others find", e.Answering, e.Apart))
	add(e.Network, locale.Say("members of the network did not find the members that are found through the --bootstrap nodes or members of earlier runs"))
	add(e.Forgotten, locale.Say("none of the members that this node remembers from its last run is in the network"))
	add(e.NoPlace, locale.Say("members answer, but none of them shows this node its place in the network"))
	add(e.Claimed > 0, locale.Say("the network claims to have about %d members, but those that answer are as far apart as in a network of %d", e.Claimed, e.Likely))
	return why
}

// entryPointsFinding returns the doctor's finding about the entry points of a node. ok is false if there is nothing to
// say yet, or nothing to compare because the node has founded its network.
func entryPointsFinding(e overlay.EntryPoints) (f proxy.Finding, ok bool) {
	switch {
	case e.Doubtful():
		return proxy.Finding{
			Level: levelNote,
			What:  locale.Say("the network that this node meets may be a false one, made by somebody to hide or invent items: %s", entryPointDoubts(e)),
			Do:    locale.Say("give a second --bootstrap address, of somebody else whom you trust; until then, items may be missing"),
		}, true
	case e.Known == 1, !e.CheckedAt.IsZero() && e.Answering == 1:
		return proxy.Finding{
			Level: levelOK,
			What:  locale.Say("this node knows one node only through which it can join its network, so it has nothing to compare: if that node lied about the network, this node could hardly notice"),
			Do:    locale.Say("give a second --bootstrap address, of somebody else whom you trust, to have the two compared"),
		}, true
	case !e.CheckedAt.IsZero() && e.Apart > 0:
		return proxy.Finding{
			Level: levelOK,
			What:  locale.Say("of the %d nodes asked through which this node can join, %d did not find the members that all others find: they lie or are cut off, and the network itself is the right one", e.Answering, e.Apart),
		}, true
	case !e.CheckedAt.IsZero() && e.Answering > 1:
		return proxy.Finding{
			Level: levelOK,
			What:  locale.Say("the %d nodes asked through which this node can join (those at --bootstrap, and members of earlier runs) are in the same network", e.Answering),
		}, true
	}
	return f, false
}

// entryPointsStatus returns what the status says of the entry points.
func entryPointsStatus(e overlay.EntryPoints) proxy.EntryPoints {
	return proxy.EntryPoints{
		Known: e.Known, Answering: e.Answering, CheckedAt: proxy.OptionalTime(e.CheckedAt), Doubtful: e.Doubtful(),
		Apart: e.Apart, Bootstrap: e.Bootstrap, NetworkApart: e.Network, Forgotten: e.Forgotten, NoPlace: e.NoPlace, Claimed: e.Claimed, Likely: e.Likely,
	}
}

// refusalFinding returns the doctor's finding about a node that refused this one, or that this one refused.
func refusalFinding(r libp2p.Refusal) proxy.Finding {
	f := proxy.Finding{
		Level: levelNote,
		What:  locale.Say("%s and this node refused each other: %s", libp2p.PeerIDString(r.Peer), r.Reason),
		Do:    locale.Say("use another data directory for another network, or the same version and settings as the other nodes"),
	}
	if r.Network && r.Bootstrap {
		f.What = locale.Say("%s, a node at --bootstrap, is in another network than this node: %s", libp2p.PeerIDString(r.Peer), r.Reason)
		f.Do = locale.Say("ask somebody whom you trust for the name and the settings of the right network, and compare them with tidings status; to join another one, start the node with an empty --data directory and with addresses of that network only")
	}
	return f
}
