// Package deployment lets real nodes and simple feed readers poll real feeds on one machine, and compares
// them.
//
// An HTTP server serves feeds that gain items over time (feedserver.go). Legacy readers each poll each of
// their feeds once in a polling interval (legacy.go). Nodes serve clients that read the same feeds, and
// together poll at most as often as the readers (fleet.go). One run measures for both sides:
//
//	polls       requests at the server, by sender
//	wait        the mean time until the next poll, of all readers, as an integral over time
//	shown       the time from the publication of an item until a reader has it
//
// The caller chooses how fast a run is: a polling interval of 20 seconds can stand for one of half an hour,
// and everything that depends on the interval is shortened with it. Messages and requests still take their
// real time, so a run shows more of that time than reality would.
//
// The caller also says how a node is made (see Opener). Nodes come from internal/daemon.
package deployment
