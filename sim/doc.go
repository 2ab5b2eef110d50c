// Package sim runs a network of real nodes in virtual time, from one seed.
//
// The nodes are those that run in the world: they are built by the same
// functions, encode the same frames and cannot tell the difference, because
// they touch the world only through the doors of internal/env, and this package
// keeps the promises of those doors a second time. One goroutine takes events
// from one calendar, in the order of their times, and gives each to its node. There
// is nothing else that moves, so one seed gives one run, bit for bit, and
// [World.TraceHash] says whether two runs were the same.
//
//	w := sim.New(sim.Config{Seed: 1})
//	a, b := w.Host(sim.HostConfig{Open: true}), w.Host(sim.HostConfig{Open: true})
//	a.Boot(build) // func(env.Env) env.Node
//	b.Boot(build)
//	b.Found(a)
//	w.At(w.Now().Add(time.Hour), func() { a.Crash(false) })
//	w.Run(2 * time.Hour)
//
// # What a world holds
//
// A [World] has hosts. A [Host] is a machine: an identity, an address, a disk, a
// place on the map, and a node while it is up. Frames take the time that a [Topology]
// gives each pair of hosts, in order unless [Faults] say otherwise; a host that is not
// open is reached only over a link that it opened itself. [King] is the topology with
// the round trip times that were measured in the Internet.
//
// # Lanes
//
// A world whose Config has several Lanes makes use of as many processors: hosts of one
// lane are run apart from those of the others, for a stride of time that no frame is faster
// than. Goroutines are the caller's, who gives Config.Beside; whether lanes go side by side
// or in turns, the world is the same, event for event. What hosts of several lanes use together
// besides, as a log's handler or an origin, has to bear that.
//
// # What befalls it
//
// Each of these is a verb of the world or of a host, and can be undone:
//
//	World.SetFaults    frames are lost, repeated, held back
//	World.Partition    sides do not reach each other
//	World.PartOneWay   one side is not heard by another, which it hears
//	Host.Crash         the node dies, seen or unseen; the disk stays, torn where it was written
//	Host.SetDisk       the disk has no room, or breaks; see DiskFault
//	Host.SetClock      the clock leaps, or is wrong in the next life
//	Host.Pause         the process stands still, and goes on: everything comes late
//	Host.SetPace       each event takes the host some time: queues form
//	Swarm.Churn        peers come and go, after sessions with a heavy tail
//	Peer.Swallow       the peer keeps what others should get from it of any feed
//	Swarm.GrowLying    peers that lie about the overlay
//
// Topics (env.Topics) fail as GossipSub does: topics.go says how.
//
// A disk that is lost makes a new host: who forgets what he has signed must not sign
// again in the same name.
//
// # Safety, then liveness
//
// A [Nemesis] is a world at work on which a plan of [Strike]s comes down: random ones,
// from its seed, or those of a story. While they last only safety is checked: that
// nothing wrong is done. When they are over the world is left alone, and after
// [Patience] all has to be right. tidings-lab sim faults runs them by the hundred.
//
// # Invariants
//
// What must hold has a name, which a [Violation] says. The numbers are those of the
// design's reliability note.
//
//	I1   all who read a feed have each item, once       NotShown, Forgotten, TakenBack, ShownTwice
//	I2   positions that are shown only grow             WentBack
//	I3   an item was seen by several owners             not yet: there are no witnesses
//	I4   no position is signed twice                    TwoEntries
//	I5   an epoch has one sequencer                     TwoSequencers
//	I6   an acknowledged subscription is not lost       Unsubscribed at its node; NoWay, WrongWeight in the tree
//	I7   a host's budget of polls is kept               not in sim: tests of corona; WrongRank is what holds of it
//	I8   tables and queues are bounded                  Overgrown, Stray
//	I9   after troubles: one head, one sequencer, trees OneHead, OneLeader, NoWay, OneRoot, WrongLeaf, TooSlow
//	     each rank polled once, true sums               WrongRank, Unordered, WrongSum
//	I10  no acknowledged write is lost by a crash       Unsubscribed, TwoEntries, Forgotten; on real disks: internal/store
//
// Of filters: NotDispatched, DispatchedTwice. Those of the overlay and its trees have no number there: WrongRoot, NoAck, WrongCount,
// Cycle, Twice, Missing. Each checker is seen to catch a bug that is planted for it:
// planted_test.go, internal/plant.
//
// WrongRoot, NoAck and Missing excuse those who were hindered a moment ago
// ([Host.Hindered]): who stands still, or is parted from others, is rightly taken for
// dead, and two may be the root of a key until they have met again.
//
// # Dice
//
// Every host has streams of its own for the frames it sends, for its other
// doors, and, anew for each life, for its node. What one host does therefore
// never changes the dice of another, and a fault more or less does not make
// another world.
//
// # What it leaves to others
//
// Links have no bandwidth: a frame's size is counted, not waited for. Origins
// are a function, and their politeness (two connections, a second between
// requests) is the real fetcher's. What is right and wrong in a run is for
// checkers to say.
package sim
