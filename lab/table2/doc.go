// Package table2 is the laboratory's world for the paper's simulation (Corona, NSDI
// 2006, §5.1): 1,024 members, 100,000 channels and 5,000,000 subscriptions, six hours
// long, in one process, with the real messages.
//
// A [Workload] is what the members read, by the dice; a [World] is the members, who
// subscribe to it: they are in the trees of their channels with the weight of their
// clients, and each channel has owners and a sequencer. A [Tally] counts what they send
// each other.
//
// Half of the members run beside the other half: what members share with others is that of
// their lane ([sim.Config]), and what is measured of the polls of both is put together second
// by second. Garbage is collected between the turns of the lanes.
//
// Two ways to poll stand beside those of whole nodes: the paper's by its formula ([FormulaOf]), and
// FeedTree's volunteers (§5 there), of whom nothing is simulated but when they choose to poll.
//
// The package leaves out readers: nobody keeps logs but the owners.
package table2
