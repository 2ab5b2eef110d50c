// Package tree measures the trees of overlay/scribe over real sockets, and GossipSub for comparison: the
// same topics, followers and items, on the same number of hosts.
//
//	plan        followers and publications, from one seed, for both systems
//	host        a host of the trees: loop, libp2p endpoint, overlay.Node, scribe
//	treehosts   all hosts of the trees: join, subscribe, publish
//	idle        traffic and memory while nothing is published
//	shape       the shapes of the trees, and whether they are complete
//	gossiphosts all hosts of GossipSub, connected at random
//	tracker     deliveries: how many, how often, how soon
//	traffic     sent messages by purpose
//	marks       the figures and their targets
//	speed       envelopes that one core opens per second
//
// # What is real
//
// Hosts are in one process and use QUIC on loopback, each with a socket, an identity and, for the trees, a
// loop of its own. Items are random bytes, signed by their publishers in the envelopes that go down the
// trees of feeds; every receiver checks the signature. The trees are scribe alone, without overlay/owner
// and feedtree: two hundred whole nodes with a quarter of a million logs are too much for one machine. So
// items are not committed before they are multicast, and the cost of that (the envelope once for each
// owner but one, whatever the number of followers) is in no figure.
//
// GossipSub is go-libp2p-pubsub with its default degrees and the settings of overlay/libp2p. Items have no
// signature but their publishers'; a second one would only add cost. Its hosts are connected at random. The
// mean number of connections is what the hosts of the trees need: for the overlay alone (leaf, contacts and
// spares, at both ends) before there are trees, or for the overlay and all edges of trees.
//
// # What is counted
//
//	expected    pairs of an item and a follower that is not its publisher
//	bytes       of frames and of GossipSub's messages, as they are handed to libp2p; the overhead
//	            of QUIC and streams is not included
//	delivery    the first arrival of an item at a follower over a link. The publisher's own copy, which
//	            comes down the tree, counts. The copy of a follower that is the tree's root does not,
//	            because it needs no link.
//	heap        of the trees: the memory that is freed when all Scribes are dropped, measured when no
//	            item is remembered and unused links have closed, and the noise of that measurement. Also
//	            the growth since there were no subscriptions, including the connections that trees need;
//	            for GossipSub, which needs none, there is only the latter.
//	idle        messages and bytes that a host sends while nothing is published. Trees make the overlay
//	            watch more peers; that traffic is included.
package tree
