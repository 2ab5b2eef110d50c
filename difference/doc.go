// Package difference finds the real changes between two documents of a feed.
//
//	Known    fingerprints of a feed's known items  Recognise, Diff, Add
//	Delta    the new part of a document            Encode, Decode, Split
//	Window   the union of the deltas in a log      Apply, Forget, Entries, Hash
//
// A feed's document shows its latest items, and most differences between two documents are
// not news: a build date, a count of comments, an item that dropped off the end, another
// order, a replica that lags. A delta contains only items that are new, or new in this
// version, as the exact bytes of the document. A delta removes nothing: a window forgets
// what its log forgets. Items that the origin withdraws are marked (withdrawn.go).
//
// Replicas may show version A, then B, then A again. The last few versions of each item
// are remembered, so that each is reported once. An edit that is really taken back is
// reported when only the earlier version has been shown for a time (Sight).
//
// Some documents have counters in the texts of their items, as of comments or readers. An
// item that has only other numbers is reported until most items of the feed have been
// reported with other numbers once (change.go).
//
// A head is told when readers show something else of it: a title, not a build date. Its
// versions are kept as those of an item are (heads.go).
//
// Some documents give one id to several items. The identity of such an item has as many
// qualifiers as its document needs, and this number changes when another of these items
// comes or goes. Recognise finds the identity by which the item is known.
//
// The wire specification is differencepb/difference.proto.
//
// The package relies on feed for the identity and content of items. corona decides when to
// fetch a document and how to handle a suspicious one, and feedtree keeps the log. Pages
// are compared by difference/page: the delta of a page has an entry that shows the change,
// and the new version of the page.
package difference

//go:generate protoc --proto_path=differencepb --go_out=differencepb --go_opt=paths=source_relative differencepb/difference.proto
