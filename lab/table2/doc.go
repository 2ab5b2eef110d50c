// Package table2 repeats the paper's simulation (Corona, NSDI 2006, §5.1): 1,024 members, 100,000 channels and
// 5,000,000 subscriptions, for six hours of virtual time, in one process, with the real messages.
//
// A [Workload] is what the members read, drawn at random. In a [World] the members subscribe to it: they are
// in the trees of their channels with the weight of their clients, and each channel has owners and a
// sequencer. A [Tally] counts the messages.
//
// The members run in two lanes in parallel ([sim.Config]). State that members share belongs to their lane,
// and the measurements of both lanes are combined every second. Garbage is collected while no lane runs.
//
// Two ways to poll are shown beside those of whole nodes: the paper's scheme by its formula ([FormulaOf]),
// and FeedTree's volunteers (§5 there), of whom only the decisions to poll are simulated.
//
// There are no readers, so only owners keep logs.
package table2
