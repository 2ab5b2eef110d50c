// Package firehose brings each new entry of every channel to every filter, a node that matches all articles with keyword
// subscriptions (Cobra, NSDI 2007, sections 2 and 3). In the paper crawlers send to filters over TCP, and a planner
// decides who sends to whom. Here there is no planner, and both kinds of nodes come and go.
//
// All channels are divided into a few shards by their keys. A shard has a key of its own, and the owners of that key
// (overlay/owner) connect the channels' sequencers with the filters:
//
//	sequencer of a channel ── report ──► owners of the shard ── broadcast ──► filters
//	                         acknowledged                       GossipSub
//
// # The way of an entry
//
// When a quorum has committed an entry, its sequencer reports it to all owners of the channel's shard until a quorum of
// them has it. The report contains the epoch that proves who the sequencer is. The shard's own sequencer broadcasts the
// entry on the shard's topic at once. If another owner does not hear the broadcast in time, it broadcasts the entry
// itself, so that a dead owner costs some seconds. Filters keep links to the owners, because GossipSub does not cross
// nodes outside the topic. The owners introduce filters to each other.
//
// # Trust
//
// An owner accepts a report if its sender is the sequencer in a certified epoch whose owners are near the channel's key. A
// filter accepts a broadcast if an owner of the shard signed it, in an epoch whose owners the filter has looked up
// itself. A filter relays nothing else.
//
// # Losses
//
// Every half minute an owner broadcasts a digest of the entries of the last minutes. A filter that lacks one of them asks
// the owners of the shard for it, then the owners of the channel, whose log contains it. A filter that was disconnected
// asks for digests of up to an hour. Entries that no node can send are counted and logged.
//
// # Without filters
//
// As long as no filter listens, a shard has no owners, and sequencers are told so. They ask again when they have news,
// twice a minute at most.
//
// # Use
//
// A Firehose is an object for one goroutine, driven by Receive, Run, and the frames of its topics. Report serves a
// sequencer. A filter's entries are delivered by Application. The wire specification is firehosepb/firehose.proto.
//
// # Parts
//
// A Firehose passes messages and time to one object for each shard, which passes them to its components: reporter is the
// node's part as a sequencer, keeper its part as an owner, filter its part as a filter, requests fetches what it lacks,
// and topic keeps the links. Two components serve all shards: transfers sends reports in parts, and progress saves how
// far a filter has come.
//
// Package overlay/owner decides who owns a shard, feedtree what a channel's log contains, and package cobra which
// subscriptions an article matches.
package firehose

//go:generate protoc --proto_path=firehosepb --go_out=firehosepb --go_opt=paths=source_relative firehosepb/firehose.proto
