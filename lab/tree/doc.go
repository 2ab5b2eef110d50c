// Package tree measures the trees of overlay/scribe over real sockets, and GossipSub beside
// them: the same topics, followers and items, on as many hosts.
//
//	plan      who follows what, and what is published: one seed, both systems
//	host      a host of the trees: loop, libp2p's endpoint, overlay.Node, scribe
//	grove     all of them: join, subscribe, publish
//	rest      what they say and weigh when nothing is published
//	shape     what the trees look like, and whether they all stand
//	peer      a host of GossipSub
//	swarm     all of those, connected at random
//	tally     what was delivered, how often, how soon
//	traffic   what was sent, by what it was for
//	judge     the figures beside what was asked for
//	speed     how many envelopes one core opens in a second
//
// # What is real
//
// Hosts are in one process and speak QUIC on loopback, each with a socket, an identity and,
// in the trees, a loop of its own. Items are of so many random bytes, each signed by who
// publishes it, in the envelopes in which entries go down feeds' trees; every receiver
// checks the signature. The trees are scribe alone, without overlay/owner and feedtree: two
// hundred whole nodes with a quarter of a million logs are more than one machine carries.
// So no item is held by a quorum before it goes down, and what that costs (the envelope once
// for each owner but one, whatever the number of followers) is in no figure.
//
// GossipSub is that of go-libp2p-pubsub with its default degrees and the settings of
// overlay/libp2p: items have no signature but their publishers', since a second one would
// only make it dearer. Its hosts are connected at random, with as many connections each as the
// hosts of the trees need in the mean: for the overlay alone (leaf, contacts and spares, at
// either end), before there is a tree, or for these and all edges of trees.
//
// # What is counted
//
//	wanted      pairs of an item and a follower who is not its publisher
//	bytes       of frames, and of GossipSub's messages: what both hand to libp2p. What QUIC
//	            and streams add is in neither.
//	delivery    an item that has come over a link to a follower, for the first time. The
//	            publisher's own copy, which comes to it down the tree, is one; that of a
//	            follower who is the tree's root, which no link brings, is none.
//	heap        of the trees: what is garbage as soon as no Scribe is held any more, measured
//	            when no item is remembered and links have closed that have nothing to carry, give
//	            or take what the heap differs by when nothing is done. Beside it, what there is
//	            more than before the subscriptions, the connections that trees bring included; of
//	            GossipSub, which brings none, there is only that.
//	idle        messages and bytes that a host sends while nothing is published. Watching
//	            peers in trees makes the overlay say more than before, too; that counts.
package tree
