// Package firehose brings each new entry of every channel to every filter, a node
// that matches all articles with keyword subscriptions (Cobra, NSDI 2007, sections
// 2 and 3: there crawlers send to filters over TCP, as a plan has it; here nobody
// plans, and both come and go).
//
// Channels are parted by their keys into a few shards. A shard has a key, and its
// owners (overlay/owner) stand between those who have news and those who want it:
//
//	sequencer of a channel ── report ──► owners of the shard ── broadcast ──► filters
//	                         acknowledged                       GossipSub
//
// # On the way
//
// When a quorum holds an entry, its sequencer reports it to all owners of the
// channel's shard, with the epoch that makes it the sequencer, until a quorum of
// them has it. The first owner, the shard's sequencer, broadcasts it on the shard's
// topic at once; another does if it does not hear it in time: so one that dies costs
// some seconds. Filters keep links to the owners, because GossipSub crosses nobody who
// takes no part, and are introduced to each other.
//
// # Whom to believe
//
// An owner believes a report if it comes from the sequencer of a certified epoch
// whose owners stand near the channel's key. A filter believes a broadcast if an
// owner of the shard has signed it, by an epoch whose owners it has looked up
// itself. It passes on nothing else.
//
// # Nothing is lost silently
//
// Every half minute an owner broadcasts a digest: the entries of the last minutes. A
// filter that lacks one asks for it: the owners of the shard, then those of the
// channel, in whose log it is. One that was away asks for the digests of up to an
// hour. What cannot be got is counted and said.
//
// # Nobody listens
//
// As long as no filter does, a shard has no owners, and sequencers are told so: they
// ask again when they have news, twice a minute at most.
//
// # How to use it
//
// A Firehose is an object for one goroutine, driven by Receive, Deliver, Run, and what
// it hears by its topics. Report serves a sequencer; a filter's articles come through
// Application. The wire specification is firehosepb/firehose.proto.
//
// The package leaves to overlay/owner who owns a shard, to feedtree what a channel's log
// holds, and to package cobra what an article matches.
package firehose

//go:generate protoc --proto_path=firehosepb --go_out=firehosepb --go_opt=paths=source_relative firehosepb/firehose.proto
