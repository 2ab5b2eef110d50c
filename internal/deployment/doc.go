// Package deployment has real nodes poll real feeds, beside readers who poll for themselves.
//
// All is on this machine, and over real sockets: a street of feeds (feedserver.go), which an HTTP
// server serves and which gain items as time goes by; readers of the old kind, each of whom polls
// each of its feeds once in a polling interval (legacy.go); and nodes, whose clients read the same
// feeds, and which poll as often together at most (fleet.go). What both get is measured in one run:
//
//	polls       requests at the server, by who made them
//	wait        the mean time until the next poll, of all who read, as an integral over time
//	shown       the time from an item's coming to when a reader has it
//
// The time of a run is as short as the caller likes: a polling interval of 20 seconds stands for
// one of half an hour, and all that goes by it is shorter, too. What is not is the time that
// messages and requests take, so that a run shows more of it than the world would.
//
// How a node is made is left to the caller (see Opener): it is one of internal/daemon.
package deployment
