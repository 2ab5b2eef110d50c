// Package corona polls channels for those who read them.
//
// It is Corona (Ramasubramanian, Peterson and Sirer, NSDI 2006, §3): some of all members poll a
// channel, each once in a polling interval and at a time of its own, and what one of them finds
// all readers get. How many they are is chosen so that the network as a whole detects changes
// as soon as may be, and polls no oftener than its readers would (honeycomb).
//
// # Who does what
//
//	sequencer  leads the channel (overlay/owner): decides how many poll it, takes what they
//	           find, and makes it entries of the log                     lead.go, judge.go
//	pollers    have ranks in the channel's wedge (overlay/wedge), poll at their turn, and
//	           tell the sequencer what is new                            duty.go, find.go
//	both       ask the origin at most as often as it likes               schedule.go
//
// Mostly the sequencer is a poller, too. Who is neither has nothing to do with a channel, as far
// as polls go.
//
// # A poll
//
//	poll      ask the origin, conditionally (env.Fetcher), with the validators of the document
//	          that the log holds all of: a standing
//	read      the document off the loop: a print of each item, 24 bytes
//	find      has it a print that is not in the standing? Then the sequencer gets a reading of
//	          it: all prints, and the items that are new, if they are few
//	weigh     the sequencer wants of it what it knows not itself (difference.Known)
//	hand over what is new goes up as a finding, to become an entry of the log
//	stand     when all is held, the new standing goes down to all pollers
//
// So bodies travel once, prints go down to all, and of several who find the same one is asked.
// A failed poll changes nothing but the channel's state: an error page, a truncated document or
// another feed in its place never removes an item. One that fails tells the sequencer; as long as
// most pollers are well, so is the channel.
//
// # How many poll
//
// Each sequencer knows the tradeoff factors of its channels: q, the readers, from the tree; s,
// what a poll costs, mostly words that nothing has changed, in those of a mean one; u, the time
// between updates (rhythm.go).
// Of all others it knows the sum (share.go, overlay/sums). It solves the problem of the whole
// network with both, and orders as many ranks (decide.go). What is spent in the whole network is
// summed up as well, and corrects what is aimed at (balance.go). Small changes are not told.
//
// The paper's own form is a choice (Config): wedges of polling levels (level.go), tradeoff
// clusters, random phases, and each node of the wedge's tree decides for those behind it, by
// what it is told of the channel in its brief (brief.go).
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
// # Pages
//
// A channel whose address begins with page+ is a page and no feed (page.go). Each poller keeps a
// page.Memory of it, and leaves out what that takes for noise; what may be news goes to the
// sequencer, whole, and is judged there once more, by one memory for all. That one makes of a new
// version an entry for readers, and beside it the log has the version itself: a patch, now and
// then all of it. So who is sequencer next knows what readers have; which lines change by themselves
// it has learned as a poller, or reads in the note.
//
// # Politeness
//
// A registrable domain has a budget for the whole network (budget.go). Its steward, the
// owners of its key (overlay.StewardKey), shares it out among the domain's channels
// (steward.go, office.go, countersign.go, ledger.go): their sequencers ask it for grants
// (ask.go), each signed by a quorum of these owners (grant.go), for a number of pollers and
// some maintenance intervals. The grant goes to the wedge with its words, and every member
// looks at it before it polls (permit.go); it asks a channel once in its interval, however
// it is enlisted. Without a grant, only the member nearest to a channel's key asks for it,
// and a domain once in five minutes. Whom members believe to be the steward stands in
// charter.go. A Corona does all this once BePolite was called. Domains on private addresses
// are exempt where the node may ask them at all (Config.ExemptPrivate).
//
// What was granted counts until it expires, whoever is the steward: no more is ever out than
// the budget, as long as a quorum's memory of it lives. The parts of a parted network have a
// steward each, so that until it heals, and for three maintenance intervals after that, two
// parts may ask for two budgets. Owners that lie in a minority sign nothing that counts. A
// steward's sequencer that lies can say that there are many readers, and raise a budget to a
// request a second; who claims that a channel has many readers can, too. Or it grants
// nothing: then the domain's channels have a poller each.
//
// The interval is the network's, stretched by what the origin hints (ttl, sy:,
// max-age), at least fifteen minutes, at most a day, and passed over in skipHours
// and skipDays. 429 and 503 stop a member's polls of the whole registrable domain for as
// long as Retry-After says, and those of the channel's whole wedge when its sequencer has
// seen the same. Failures back off. Origins on private addresses, where
// the node may ask them at all, are spared none of this but floors and hints: they
// are the reader's own.
//
// # How to use it
//
// A Corona is an object for one goroutine, driven by Answered, Receive, Deliver and Run. Lead and
// Cease say of which channels this node is the sequencer, Serve and Release which it polls.
//
// The package leaves to difference and difference/page what is new in a document, to
// internal/fetch how an origin is asked, to overlay/owner who leads, to overlay/wedge which
// members poll, and to feedtree what becomes of a finding.
package corona

//go:generate protoc --proto_path=coronapb --go_out=coronapb --go_opt=paths=source_relative coronapb/corona.proto coronapb/share.proto coronapb/politeness.proto
