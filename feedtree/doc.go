// Package feedtree sends what is new in a feed down the feed's tree, and sees to
// it that every subscriber has all of it.
//
// It is FeedTree (Sandler, Mislove, Post and Druschel, IPTPS 2005, §4–5) over one
// log per feed. The log's sequencer (overlay/owner) has an entry held by a quorum
// and publishes it on the feed's tree (overlay/scribe); subscribers verify it,
// take it into their own copy of the log and show what is new.
//
// # Nothing is lost silently
//
//   - An entry that does not follow on what a subscriber has shows a gap.
//   - Once a minute, with many parents less often, each child compares with each parent, in
//     one message for all feeds whose trees have an edge on their link, the heads of their logs.
//   - Heads come down a second tree, the shadow, whose root stands half the ring away: what has
//     not followed its head in five seconds is pulled, and passed on to those below (shadow.go).
//   - Each eight minutes at least a feed is compared with one of its owners, past all trees (audit.go).
//   - A feed that is silent for a beat interval sends a heartbeat: the sequencer
//     signs where the log ends. It rides from parent to child beside the digests.
//     One that is overdue by half is as good as a gap.
//
// A parent that has not brought three entries in a row that there were is left, and remembered.
//
// A gap is pulled: from the parent, from the owners, from siblings; and when all of
// them fail, the origin is asked, jittered over a polling interval (Application).
// Who comes late, and who was offline, catches up in the same way.
//
// A feed of which nothing certain was heard for a polling interval is polled by this node itself (cutoff.go).
//
// # What a reader sees
//
// The window of a feed is the union of its items that the log brought: at least a
// week or 200 items. Items are told apart by (id, content hash), so that nothing
// is shown twice, whatever path it took, and whichever lineage of the log.
//
// # Publishers
//
// A feed can have a publisher, who signs its items (difference.Publication): Publish brings them to
// the sequencer (push.go), which takes them in their order, and puts those that come while an entry is on
// its way together into the next one (accept.go). Whose the feed is stands in the
// log, as the origin names it, and each follower looks whether it believes that (pin.go, sight.go).
//
// # How to use it
//
// A FeedTree is an object for one goroutine, driven by Deliver (what scribe
// brings), Receive and Run. Subscribe and Read serve readers; Append and Held
// serve the sequencer. The wire specification is feedtreepb/feedtree.proto.
//
// The package leaves to corona when origins are polled, to overlay/owner who may
// number entries, and to internal/feed what a feed is.
package feedtree

//go:generate protoc --proto_path=feedtreepb --go_out=feedtreepb --go_opt=paths=source_relative feedtreepb/feedtree.proto
