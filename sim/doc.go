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
// place on the map, and a node while it is up. A crash takes the node and what
// was on its way to it; the disk stays for the next node. Disks fail as a [DiskFault]
// says, and a host's clock is its own. Frames take the time that a [Topology] gives
// each pair of hosts, in order unless [Faults] say otherwise; a host that is not open
// is reached only over a link that it opened itself.
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
