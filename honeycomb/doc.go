// Package honeycomb decides how many nodes poll each channel.
//
// It is the optimiser of Corona (Ramasubramanian, Peterson and Sirer, NSDI 2006, §3.2):
//
//	min. Σ f(l)   s.t.   Σ g(l) ≤ T
//
// over channels, each of which chooses one l of a few. More pollers find an update sooner
// and ask the origin oftener. With n of them at even phases, polling interval tau, q
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
// (the paper's Table 1). What a channel may choose is its cut: Levels are the sizes of the
// wedges round its id, one for each digit of base 16 or base 2 that members share with it;
// Ranks are all numbers from 1 to N, of the members nearest to it.
//
// # Slopes and the bracket
//
// Each channel's choices, of which only those on the lower convex hull matter, are a row of
// steps. A step costs dg and saves df; its slope is df/dg, and slopes fall along the row.
// All steps of all channels are taken by falling slope, until one does not fit. Without it
// the choice is the paper's L_d, with it L_u. They differ in one channel, and with f* the
// best that any choice within T could do,
//
//	f(L_u) ≤ f* ≤ f(L_d)
//
// because every beginning of that row of steps is the optimum for the load it has: no
// choice lies below the Lagrangian's line with slope lambda. L_d keeps the constraint, and
// is the answer.
//
// The steps are not sorted. Of Levels, a sample says about where T is reached; the steps
// near there add up in a histogram over the bits of their slopes, and only those of one bin
// are looked at one by one. With Ranks, where a channel has as many steps as the network
// has members, n is evaluated as a function of lambda, and only the steps in the last
// interval are listed. Steps of one slope come in an order that the channels' keys give.
//
// # What others say
//
// A node knows its own channels. Of all others it hears sums, a Rest, of which there are
// two kinds. Both are added up (Merge) in whatever order, each channel once.
//
//	Bins      cost of all steps, by slope, on one grid that is the same everywhere
//	Clusters  the paper's: at most 16 for each polling level, of channels with about
//	          the same f/g, each an average channel; orphans in a slack cluster
//
// Bins say what others would spend at any lambda, and exactly so at the edges of bins:
// nodes that heard the same choose alike, and together they keep T to a tenth of a percent.
// Clusters stand for convex functions by averages, and keep a bias however often they are
// exchanged.
//
// # How to use it
//
//	NewBins(p, own)        what to tell others; Merge what they tell
//	Solve(p, own, rest)    the choice for each own channel, and lambda
//
// Minimise is the same for any f and g. Ideal is the bound: what could be reached if n were
// a real number. Measure says what a choice is worth.
//
// Nothing here has a state, and nothing panics on what comes from outside: factors of a
// channel are moved into bounds that have names, and Check refuses sums that no honest node
// tells.
//
// The package leaves to corona where factors come from, how sums travel, which members
// poll, when, and how often a decision may change.
package honeycomb
