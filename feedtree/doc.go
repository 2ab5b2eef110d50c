// Package feedtree sends the new entries of a feed down the feed's tree, and makes sure that every subscriber gets
// all of them.
//
// It implements FeedTree (Sandler, Mislove, Post and Druschel, IPTPS 2005, §4–5) over one log per feed. When a quorum
// stores an entry, the log's sequencer (overlay/owner) publishes the entry on the feed's tree (overlay/scribe).
// Subscribers verify it, add it to their own copy of the log and show what is new.
//
// # Nothing is lost silently
//
// A subscriber notices missing entries in several independent ways:
//
//   - An entry that does not continue the subscriber's log shows a gap.
//   - Once a minute (less often with many parents) a child compares the heads of its logs with each parent, in one
//     message for all feeds that share the link (link.go).
//   - Heads come down a second tree, the shadow tree, whose root is half the ring away. An entry that does not follow
//     its head within five seconds is pulled, and announced to the nodes below (deliveries.go).
//   - Every eight minutes, if nothing certain was heard, the head is compared with one of the feed's owners,
//     independently of all trees (audit.go).
//   - The sequencer of a feed without new entries sends a heartbeat each beat interval: it signs where the log ends.
//     Parents pass heartbeats on together with the digests. An overdue heartbeat counts as a gap (beat.go).
//
// A parent that fails to deliver three existing entries in a row is left, and remembered (deliveries.go).
//
// A gap is pulled from the parents, the owners and siblings. If all of them fail, the node asks the origin, at a
// random time within a polling interval (repair.go). A node that joins late or was offline catches up in the same way.
//
// A node that hears nothing certain about a feed for a polling interval polls the feed itself (cutoff.go).
//
// # What a reader sees
//
// The window of a feed holds the items that its log has brought: those of a week or 200 items, whichever is more.
// Items are told apart by (id, content hash), so that nothing is shown twice, whatever path and branch of the log
// brought it (window.go).
//
// # Publishers
//
// A feed can have a publisher, who signs its items (difference.Publication). Publish brings a publication to the
// sequencer (push.go). The sequencer accepts publications in their order; those that arrive while an entry waits for
// its quorum share the next one (accept.go). The log names the publisher's key as the origin does, and each follower
// decides for itself whether to trust that key (pin.go, trust.go). Origins are asked for the key at a pace that other
// nodes cannot raise (origin.go). What the publisher states itself, that nothing follows its last item, goes to every
// follower, too, so that the end of the log is not the sequencer's word alone (statement.go).
//
// # Witnesses
//
// Items without a publisher are the word of the node that found them, until most owners of the feed have signed that
// they saw them at the origin themselves (sighting.go, certifier.go, witnessed.go).
//
// # How to use it
//
// A FeedTree belongs to one goroutine, which calls Deliver with messages from scribe's trees, Receive with messages
// from peers, and Run. Subscribe and Read serve readers; Append and Committed serve the sequencer. The wire
// specification is feedtreepb/feedtree.proto.
//
// Package corona decides when origins are polled, overlay/owner who may number entries, and internal/feed what a feed
// is.
package feedtree

//go:generate protoc --proto_path=feedtreepb --go_out=feedtreepb --go_opt=paths=source_relative feedtreepb/feedtree.proto
