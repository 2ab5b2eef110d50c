// Package tiers runs the three tiers of Cobra (NSDI 2007, section 3) on the nodes of a plan: crawlers poll the feeds of
// a list, filters pass on the articles that a query of a reflector matches, and reflectors keep the latest matches.
//
//	crawler ── articles ──► filter ── articles that match ──► reflector ──► readers
//	                        filter ◄── queries ────────────── reflector
//
// A node has one role. The plan (cobra/provision) says which nodes there are, how they are reached, and who sends to
// whom. Nodes accept messages of their neighbours in the plan only, whose ids the transport has verified.
//
// # Links
//
// A sender appends articles to one log on disk and sends each receiver those that are for it, in order, by the position
// of the article and of the one before. A receiver acknowledges what it has received and what it has passed on durably;
// only then does the sender delete. Lost frames are sent again, and a receiver that restarts goes on where its record
// says. So an article is on the wire at least once and is handed on once, in order, whatever restarts.
//
// An acknowledgement grants credit in bytes. "Each service maintains a 1MB data buffer for each upstream service", which
// is the credit of an idle receiver. What it cannot pass on stays in its buffer, the credit runs out, the sender's queue
// fills, and the sender stops in turn.
//
// # A full queue
//
// Blocking (the default, and the paper's choice): a filter does not take the next article while the queue of one of its
// receivers is full, and a crawler begins no poll. Articles that polls under way still bring are queued beyond the bound,
// because they are known to nobody else: at most those of maxPolls documents. Nothing is lost, but a feed may change
// faster than a stopped crawler polls it. Dropping: an article is not queued for a receiver whose queue is full; it is
// counted, and each frame tells the receiver the count. In both cases acknowledgements name the node that everybody
// waits for, which Status reports at each node upstream.
//
// # Queries
//
// Subscriptions are partitioned among the filters by the hash of their canonical query, and feeds among them by the hash
// of their URL (the out- and in-replicas of section 3.5). A reflector compares its queries with those that a filter has stored by
// digests of 1,024 buckets: at once after a change, and twice a minute. Any difference, whatever its cause, is mended by
// adding and removing single queries. "The reflector re-runs the matching algorithm", so a filter may pass on too much
// but never too little: a query that it cannot index lets all articles through.
//
// # Crawlers
//
// The crawler that the hash of a feed's URL names, its home, polls the feed or lets another crawler poll it that is nearer
// (section 3.7). Crawlers measure the latency of their polls, and of a few probes, and tell each other. Each assigns the feeds of
// its own share so that no crawler gets more than a bound of them; shares are samples of all feeds, so that this bounds
// and serves all feeds as well.
//
// A feed goes from one crawler to another by its record, with a number, its term, that grows by one each time. The sender
// polls no more, waits until the filters have taken what it found, commits that the feed is the other's, and only then sends the
// record until the receiver has committed it. Both remember the term and take none twice. So at no time do two
// crawlers poll a feed, whatever restarts and whichever messages are lost, late or repeated; nothing that one has found is
// found again by the other; and the articles of a feed stay in order. Only while it is on its way, for about
// a second, does nobody poll it. If a crawler is down, its feeds wait for it.
//
// After a change of plans, crawlers may not agree on who has a feed: some have taken the plan earlier, and some were down for
// several. So records name the plan by which a feed was handed over, and what was lent by another plan goes home. The one
// that has it sends it there, and the home asks the one to which it last gave the feed, if that is in the plan. Homes lend
// feeds again ten minutes later, when all have the plan.
//
// # Feeds that the list lacks
//
// Crawlers note the hosts to which new articles link, and look there for feeds by autodiscovery, within a budget of requests.
// They propose the feeds that they find to the operator, who may add them to the list; only feeds in the list are polled. Each host has one
// crawler that looks at it, chosen by the hash of the host's name; the other crawlers tell that one when an article links to the
// host. Such a message is sent once and is not acknowledged, because other articles will name the host again. Addresses come from strangers: the
// requests go to public ones only, and no site can fill the memory with its names.
//
// # Another plan
//
// Nodes take another plan while they run, each when it sees the file, and keep the links of the plan before. Every article
// belongs to the plan by which its crawler sent it: a crawler changes plans at a position of its log, and tells its filters.
// A filter matches the articles after that position only when it runs the same plan and all reflectors of the plan have
// placed their queries; those before it as ever. A reflector leaves queries at the filters of the plan before until these
// have matched everything up to the crawlers' positions, and takes articles from the filters of both plans. So nothing
// falls in between. What arrives twice, because a query was at two filters, or a feed at two crawlers, the application
// drops by its id. A node takes a third plan only when nothing of the first is under way; nodes that left the plan and are
// silent for ten minutes count as gone. A crawler queues what such a filter had not acknowledged for the filters of the present
// plan, and reflectors drop what they have already.
//
// # Parts
//
// Tiers receives messages and time. outbox is the log and the links downstream, inbox a link upstream, crawler, filter
// and queries what the roles do; locality, assignment and handover are the crawlers' part of who polls what, frontier and
// discovery find feeds that the list lacks, changes is the way from one plan to the next, and rescue is what becomes of
// articles whose receiver never returns. The application of a reflector (internal/daemon) matches and keeps articles.
package tiers

//go:generate protoc --proto_path=tierspb --go_out=tierspb --go_opt=paths=source_relative tierspb/tiers.proto
