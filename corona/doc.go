// Package corona polls channels for those who read them.
//
// It is Corona (Ramasubramanian, Peterson and Sirer, NSDI 2006, §3): of all who
// read a channel, one node polls it for the others. In this first part that one is
// the channel's sequencer, and it polls once in a polling interval; the owners
// beside it hold the channel's record and take over (overlay/owner). Wedges of
// many pollers, and the optimiser that sizes them, come on top of it.
//
// # A poll
//
//	poll      ask the origin, conditionally (env.Fetcher)
//	detect    read the document (off the loop), compare its items with those that
//	          are known (difference.Known)
//	hand over what is new goes up as a finding, to become an entry of the log
//
// A failed poll changes nothing but the channel's state: an error page, a
// truncated document or another feed in its place never removes an item.
//
// # What is believed, and when
//
//	a feed with an item, a title or a site that is known    at once
//	a feed without items                                    at once: it has none at present, and none is taken away
//	a feed that has nothing in common with what is known    when it stays for an hour (doubtFor), or
//	                                                        at once when it is replaced by yet another
//	anything else                                           never
//
// In place of a feed, a host that lost its database, or a domain that was sold, shows
// another one: it may be right, too. Until it is believed the state is "not a feed";
// then all of it is handed over, as it was when it was first seen and as it is, so that
// nothing is lost to caution. The validators of an empty document are not kept. A poll
// that the fetcher has no room for is none: it waits for a minute, and nothing is said.
//
// # What subscribers are told
//
// Another state, or other words, at once; polls that fail, each as far as it is worth
// it; good polls not at all. State.Projected says how it stands meanwhile, for whoever
// knows until when the poller lived. Words beside "ok" say what readers lack of the
// document.
//
// # Politeness
//
// The interval is the network's, stretched by what the origin hints (ttl, sy:,
// max-age), at least fifteen minutes, at most a day, and passed over in skipHours
// and skipDays. 429 and 503 stop the polls of the whole registrable domain for as
// long as Retry-After says. Failures back off. Origins on private addresses, where
// the node may ask them at all, are spared none of this but floors and hints: they
// are the reader's own.
//
// # What members tell of their channels
//
// For the optimiser, members add up what they know of the channels that they lead
// (overlay/sums): honeycomb's Bins or Clusters, as share.go writes and checks them. From the
// sum of all each member sees what is spent in the whole network, too, and corrects what it
// aims at (balance.go).
//
// # How to use it
//
// A Corona is an object for one goroutine, driven by Answered and Run. Lead and
// Cease say which channels this node polls.
//
// The package leaves to internal/fetch how an origin is asked, to overlay/owner who
// polls, and to feedtree what becomes of a finding.
package corona

//go:generate protoc --proto_path=coronapb --go_out=coronapb --go_opt=paths=source_relative coronapb/corona.proto coronapb/share.proto
