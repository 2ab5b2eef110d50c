// Package sim runs a network of real nodes in virtual time, from one seed.
//
// The nodes are built by the same functions as in production and encode the same frames. They use the
// outside world only through the interfaces of internal/env, and this package implements these with the
// same guarantees. One goroutine takes events from one calendar in the order of their times and hands
// each to its node. Nothing else runs, so one seed always gives the same run, bit for bit, and
// [World.TraceHash] tells whether two runs were the same.
//
//	w := sim.New(sim.Config{Seed: 1})
//	a, b := w.Host(sim.HostConfig{Open: true}), w.Host(sim.HostConfig{Open: true})
//	a.Boot(build) // func(env.Env) env.Node
//	b.Boot(build)
//	b.Found(a)
//	w.At(w.Now().Add(time.Hour), func() { a.Crash(false) })
//	w.Run(2 * time.Hour)
//
// # Worlds, hosts and swarms
//
// A [World] has hosts. A [Host] is a machine: an identity, an address, a disk, a place on the map, and a
// node while it is up. A [Topology] says how long frames travel between each pair of hosts; they arrive in
// order unless [NetworkFaults] say otherwise. A host that is not open can be reached only over a link that
// it opened itself. [King] is the topology with round-trip times that were measured in the Internet.
//
// A [Swarm] is a world whose hosts run tidings nodes, with checkers of the invariants below.
//
// # Lanes
//
// A world with several Lanes in its Config can use as many processors. Each lane handles the events of its
// own hosts for a window of time (Config.Lookahead) that no frame is faster than, and the lanes are
// synchronised between two windows. The goroutines are the caller's (Config.Parallel). The result is the
// same, event for event, whether lanes run in parallel or in turn. Objects that hosts of several lanes
// share, such as a log handler or an origin, must be safe for concurrent use.
//
// # Faults
//
// Each of these is a method of the world or of a host, and can be undone:
//
//	World.SetNetworkFaults  frames are lost, duplicated or delayed
//	World.Partition         hosts of different sides cannot reach each other
//	World.PartitionOneWay   one side does not hear the other, but is heard by it
//	Host.Crash              the node dies, with or without a hint to its peers; writes in progress may be torn
//	Host.SetDisk            the disk is full or broken; see DiskFault
//	Host.SetClock           the clock jumps, or is wrong in the next life
//	Host.Pause              the process stops and goes on later, so that everything is late
//	Host.SetServiceTime     each event takes the host some time, so that queues form
//	Swarm.Churn             peers leave and others arrive, after sessions with a heavy tail
//	Peer.DropForwards       the peer drops what it should pass on about any feed
//	Swarm.GrowWithLiars     some members lie about the overlay
//
// Topics (env.Topics) fail as GossipSub does; see topics.go.
//
// A host whose disk is lost is replaced by a new host with a new key. A node without its records does not
// know what it has signed, and must not sign again with the same key.
//
// # Safety, then liveness
//
// A [Scenario] is a network under load into which a plan of [Fault] values is injected: a random plan from
// its seed, or one read from a file. During the faults only safety is checked: nothing that must never
// happen happens. Then the network is left alone, and after [RecoveryLimit] all invariants must hold.
// tidings-lab sim faults runs hundreds of scenarios.
//
// # Invariants
//
// Each invariant has a name, which a [Violation] contains. The constants are named after the violation.
//
//	I1   every reader of a feed is shown each item once    NotShown, ShownAndGone, ItemTakenBack, ShownTwice
//	I2   positions that readers were shown only grow       PositionWentBack
//	I3   several owners have seen an item                  not checked
//	I4   no position is signed twice                       TwoEntries
//	I5   an epoch has one sequencer                        TwoSequencers
//	I6   an acknowledged subscription is not lost          SubscriptionLost at its node; LostChild, WrongWeight in the tree
//	I7   the polling budget of a host is kept              not checked here: tests of corona; RankNotServedOnce covers a part
//	I8   tables and queues are bounded                     Overgrown, StrayOwner
//	I9   after faults: one head, one sequencer, complete   SeveralHeads, NotOneSequencer, LostChild, SeveralRoots,
//	     trees, each rank polled once, true sums           WrongLeaf, SlowLookup, RankNotServedOnce, ServedWithoutOrder, WrongSum
//	I10  no acknowledged write is lost by a crash          SubscriptionLost, TwoEntries, ShownAndGone; on real disks: internal/store
//
// Filters have DispatchedTwice and NotDispatched. The invariants of the overlay and its trees have no
// number: WrongRoot, NoAcknowledgement, StaleCount, Cycle, Duplicate, Lost. For each checker there
// is a bug that it must catch: planted.patch adds the bugs to a copy of the code, where planted_test.go runs.
//
// WrongRoot, NoAcknowledgement and Lost excuse hosts that were recently impaired ([Host.LastImpaired]).
// Others rightly take a paused or partitioned host for dead, and two members may both be the root of a key
// until they have met again.
//
// # Random numbers
//
// Every host has separate random streams for the frames it sends, for its disk, worker and fetcher, for
// topics, and, in each life, for its node. The actions of one host therefore do not change the random
// numbers of another, and one fault more or less does not change the rest of the run.
//
// # Not modelled
//
// Links have no bandwidth: the size of a frame is counted, but costs no time. Origins are a function; the
// limits per web server (two connections, a second between requests) belong to the real fetcher.
package sim
