// Package cobra matches articles with keyword subscriptions and keeps a feed of the latest
// matches for each subscription (Rose, Murty, Pietzuch, Ledlie, Roussopoulos and Welsh, NSDI
// 2007, sections 3.2 and 3.3).
//
//	Article    a new entry of a channel
//	Filter     keyword subscriptions; finds those that an article matches
//	Reflector  a filter, the articles that matched, and the feeds, on disk
//
// A node runs a Reflector. As in the paper it matches articles itself, "since the matching
// algorithm is so efficient"; a Filter alone would only tell whether an article is worth sending
// to a reflector.
//
//	extract.go    the terms that an article contains
//	filter.go     subscriptions and their clauses
//	reflector.go  subscribing, matching and reading
//	backlog.go    older articles for new subscriptions
//	recent.go     recently received articles, to drop duplicates
//	store.go      articles on disk, and what is kept when room is short
//	pages.go      rings on disk
//	sweep.go      deletion of articles that no feed has
//
// # What is kept
//
// The feed of a subscription is the last k articles that match one of its clauses. Each clause
// has a ring of article numbers. The newest k of a union are among the newest k of its parts, so
// an OR query merges the rings of its clauses when its feed is read. An article is stored once,
// on disk, as long as a ring has it and it is not too old.
//
// A subscription is on disk before it is acknowledged. An article can be read at once, from
// memory until it is on disk. Rings are written page by page in rounds; after a crash, articles
// newer than a page are matched again.
//
// # When room is short
//
// As in the paper, "a reflector will begin dropping the content of new articles that are
// received, saving to users' feeds only the articles' titles and URLs", and "if memory continues
// to dwindle then reflectors will begin dropping all incoming articles (while logging a warning
// that this is happening)". Sweeps then run more often. They delete articles that no ring has,
// and once there is room again, articles are kept in full.
//
// Filter and Reflector are not safe for concurrent use. A Reflector runs on a loop of its own behind a bounded
// queue, because matching one article with forty million subscriptions takes as long as a peer
// waits for an acknowledgement.
//
// The package leaves to others how articles arrive (internal/daemon), which addresses feeds have
// and who may read them (proxy).
package cobra

//go:generate protoc --proto_path=cobrapb --go_out=cobrapb --go_opt=paths=source_relative cobrapb/cobra.proto
