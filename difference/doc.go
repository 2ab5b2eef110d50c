// Package difference finds what truly changed between two documents of a feed.
//
//	Known    fingerprints of what a feed has said    Recognise, Diff, Add
//	Delta    what a document says beyond that        Encode, Decode, Split
//	Window   the union of what a log has brought     Apply, Forget, Entries, Hash
//
// A feed's document is a view of its last items, and most of what differs between
// two of them is no news: a build date, a count of comments, an item that rolled
// off the end, another order, another replica that lags behind. A delta has only
// items that nobody has seen, or not in this version, as the exact bytes of the
// document. Nothing is ever removed by a delta; a window forgets what
// its log forgets.
//
// Replicas may show version A, then B, then A again. The last few versions of each
// item are remembered, so that each is told once. The price is that an edit which
// is truly taken back is not told.
//
// Some documents give one id to several items. Such an item goes by as much beyond
// its id as its document asks for, which changes when another comes or goes; Recognise
// finds it again under the identity it had.
//
// The wire specification is differencepb/difference.proto.
//
// The package leaves to feed what an item's identity and content are, to corona
// when to ask for a document and what to do about one that is suspicious, and to
// feedtree the log. Pages are the affair of difference/page: of a channel that is one, a delta has
// the entry that shows a change, and the version that the page is in now.
package difference

//go:generate protoc --proto_path=differencepb --go_out=differencepb --go_opt=paths=source_relative differencepb/difference.proto
