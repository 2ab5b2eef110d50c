// Package corona polls channels on behalf of their subscribers.
//
// It implements Corona (Ramasubramanian, Peterson and Sirer, NSDI 2006, §3): some members of the
// network poll a channel, each once in a polling interval and at a time of its own, and a change
// that one of them finds reaches all readers. The number of pollers is chosen so that the network
// as a whole detects changes as early as possible, and polls no more often than its readers would
// by themselves (honeycomb).
//
// # Roles
//
//	sequencer  leads the channel (overlay/owner): decides how many nodes poll it, takes their
//	           change reports, and appends new items to the log       sequencer.go, observe.go, upkeep.go
//	poller     has ranks in the channel's wedge (overlay/wedge), polls in its slots, and
//	           reports changes to the sequencer                          poller.go, report.go
//	both       ask the origin no more often than it permits              interval.go
//
// The sequencer is usually a poller, too. A node without either role takes no part in the polls of
// a channel.
//
// # A poll
//
//	poll      ask the origin (env.Fetcher) conditionally, with the validators of the committed
//	          snapshot: the last document of which the log holds every item
//	parse     read the document off the loop; each item has a fingerprint of 24 bytes
//	report    if a fingerprint is not in the snapshot, send the sequencer an observation: all
//	          fingerprints, and the new items if they are small
//	dedupe    the sequencer requests the items that it does not have (difference.Known)
//	append    the new items go up to the log
//	commit    when a quorum holds all of them, the new snapshot goes down to all pollers
//
// So item bodies travel once and fingerprints go to all pollers. If several pollers find the same
// change, only one is asked for the items. A failed poll changes nothing but the channel's state:
// an error page, a truncated document or another feed in its place never removes an item. A poller
// whose poll fails tells the sequencer; as long as most pollers succeed, the channel counts as healthy.
// A poller that fails three times while others can read the channel, or may be able to, gives its
// ranks to another member (exclusion.go).
//
// # The number of pollers
//
// Each sequencer knows the tradeoff factors of its channels: q, the readers, from the tree; s, the
// cost of a poll relative to the mean channel, mostly of "not modified" responses; u, the time
// between updates (updaterate.go). For the channels of all other nodes it knows an aggregate
// (share.go, overlay/sums). With both it solves the problem of the whole network, and orders the
// resulting number of ranks (allocator.go). The actual load of the whole network is summed up as well,
// and corrects the load target (correction.go). Small changes are not ordered.
//
// The paper's own scheme is an option (Config): wedges of polling levels (scheme.go), tradeoff
// clusters and random phases. Each node of the wedge's tree then decides for the nodes behind it,
// with the channel parameters that it was told (params.go).
//
// # Which documents are accepted
//
//	a feed with a known item, title or site             at once
//	a feed without items                                at once; its items stay in the log
//	a feed that has nothing in common with the log      after an hour (suspicionPeriod), or at
//	                                                    once when yet another feed replaces it
//	anything else                                       never
//
// A host that has lost its database, or a domain that was sold, shows another feed, which may be
// correct. Until such a feed is accepted, the state is "not a feed". Then both the first suspicious
// document and the current one are taken, so that the delay loses nothing. The validators of an
// empty document are not kept. A poll for which the fetcher has no capacity is repeated after
// about a minute and changes no state.
//
// An item that is shown in an earlier version than the log has may come from a replica that lags. The
// edit was taken back if the sequencer sees only the earlier version for an hour. That version is then
// appended like an edit. In feeds with counters in their texts, a snapshot has the fingerprints of items
// without the numbers, so that pollers do not report other numbers (difference).
//
// # What subscribers are told
//
// Subscribers get a state with another kind or detail at once, failed polls with some delay, and
// successful polls not at all. State.Projected estimates the present state from the last one and
// the time at which the poller was last known to be alive. A detail beside the kind OK says which
// part of the document readers do not get.
//
// # Pages
//
// A channel whose address begins with page+ is a page and not a feed (page.go). Each poller keeps a
// page.Tracker of the page and leaves out what the tracker takes for noise. Possible news goes to the
// sequencer as a whole, which judges it by its own tracker. For a new version the sequencer appends
// an entry for readers, and the version itself as a patch, or now and then in full. So the next
// sequencer knows what readers have; which lines change by themselves it has learned as a poller,
// or reads in the note.
//
// # Politeness
//
// A registrable domain has a budget for the whole network (budget.go). Its stewards, the owners of
// its key (overlay.StewardKey), divide the budget among the domain's channels (steward.go,
// account.go, countersign.go, ledger.go). The sequencers of these channels request grants
// (claim.go). A grant is signed by a quorum of the stewards (grant.go), and allows a number of
// pollers for some maintenance intervals. It goes to the wedge with the channel's parameters, and
// every member checks it before it polls (permit.go). A member polls a channel at most once in its
// interval, however many orders it gets. Without a grant only the member nearest to the channel's key polls it, and
// polls the domain once in five minutes. Members follow a
// domain's stewards with an owner.Tracker. All of this is off until EnablePoliteness is called.
// Domains on private addresses are exempt where the node may fetch from them at all (Config.ExemptPrivate).
//
// A grant counts until it expires, whoever is the steward. The grants in force never exceed the
// budget, as long as a quorum remembers them. The parts of a partitioned network have separate
// stewards, so two parts may use two budgets until the partition heals and for three maintenance
// intervals after that. A minority of malicious stewards cannot make a valid grant. A malicious
// budget leader can overstate the number of readers and raise a budget to one request per second;
// so can a sequencer that overstates the readers of its channel. A budget leader can also grant
// nothing; then each channel of the domain has a single poller.
//
// The interval is the network's, stretched by what the origin hints (ttl, sy:updatePeriod,
// max-age), at least fifteen minutes and at most a day; there are no polls in skipHours and on skipDays. After
// 429 or 503 a member stops its polls of the whole registrable domain for the time in Retry-After.
// The channel's whole wedge stops if the sequencer has seen the same. Failures back off. Origins on
// private addresses, where the node may fetch from them at all, are subject to all of this except
// minimum intervals and hints, because they are the reader's own.
//
// # Components
//
// A Corona is made of components (type Corona lists them). A component has the state of one task,
// uses those listed before it, and asks later ones through a small interface or a function.
// The records of one channel, leaderState and assignment, have one part for each component that uses
// them.
//
// # Usage
//
// A Corona belongs to one goroutine and is driven by Answered, Receive, Deliver and Run. Lead and
// Cease say of which channels this node is the sequencer, Serve and Release which channels it polls.
//
// Other packages decide what is new in a document (difference, difference/page), fetch documents
// (internal/fetch), choose the sequencer (overlay/owner) and the pollers (overlay/wedge), and
// distribute new items (feedtree).
package corona

//go:generate protoc --proto_path=coronapb --go_out=coronapb --go_opt=paths=source_relative coronapb/corona.proto coronapb/share.proto coronapb/politeness.proto
