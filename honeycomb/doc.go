// Package honeycomb decides how many nodes poll each channel.
//
// It is the optimiser of Corona (Ramasubramanian, Peterson and Sirer, NSDI 2006, §3.2):
//
//	min. Σ f(l)   s.t.   Σ g(l) ≤ T
//
// over channels, each of which has one of several levels l. More pollers find an update sooner
// and poll the origin more often. With n pollers at even phases, polling interval tau, q
// subscribers, content size s and update interval u,
//
//	delay(n) = w tau / 2n     load(n) = s n
//
//	Lite       w = q                   least delay,  load ≤ a fraction of the subscriptions
//	Fair       w = q tau/u             the same
//	FairSqrt   w = q √(tau/u)          the same
//	FairLog    w = q ln tau / ln u     the same
//	Fast       w = q                   least load,   delay ≤ a target
//
// (the paper's Table 1). Granularity sets the numbers of pollers that a channel may have. With
// Levels these are the sizes of the wedges around its id, one for each digit of base 16 or 2
// that members share with the id. With Ranks it is any number from 1 to N, of the members
// closest to the id.
//
// # Slopes and the bracket
//
// Of each channel's choices only those on the lower convex hull matter; they form a row of steps.
// A step costs dg and saves df; its slope is df/dg, and slopes fall along the row. The steps of
// all channels are taken by falling slope, until one does not fit into T. The choice without that
// step is the paper's L_d, the choice with it L_u. They differ in one channel. With f* the
// smallest objective of any choice within T,
//
//	f(L_u) ≤ f* ≤ f(L_d)
//
// because after each step the choice is optimal for its load: no choice lies below the
// Lagrangian's line with slope lambda. The answer is L_d, which satisfies the constraint.
//
// The steps are not sorted. With Levels, lambda is estimated from a sample of the channels. The
// steps near that estimate are added up in a histogram over the bits of their slopes, and only
// the steps of one bin are taken one by one. With Ranks a channel has as many steps as the
// network has members, so n is computed as a function of lambda, and only the steps in the last
// interval of lambda are listed. Steps of equal slope are ordered by the channels' keys.
//
// # Aggregates of other nodes' channels
//
// A node knows its own channels. About all others it has a RemoteAggregate, of which there are
// two kinds. Both are merged in any order, and each channel counts once.
//
//	Bins      cost of all steps by slope, on one grid that all nodes share
//	Clusters  the paper's: at most 16 for each polling level, of channels with similar f/g,
//	          each represented by an average channel; orphans are in a slack cluster
//
// Bins tell what the other nodes spend at any lambda, and exactly at the edges of bins. Nodes
// with the same Bins decide alike, and together they meet T to a tenth of a percent. Clusters
// replace convex functions by averages, and the resulting bias stays however often nodes
// exchange them.
//
// # How to use it
//
//	NewBins(p, own)          the aggregate to publish; Merge the aggregates of others
//	Solve(p, own, remote)    the choice for each own channel, and lambda
//
// Ideal computes the bound that could be reached if n were a real number. Measure evaluates a
// choice.
//
// The package has no state, and no input from outside makes it panic: a channel's factors are
// moved into named bounds, and Check refuses aggregates that no honest node publishes.
//
// The package leaves to corona where factors come from, how aggregates travel, which members
// poll and when, and how often a decision may change.
package honeycomb
