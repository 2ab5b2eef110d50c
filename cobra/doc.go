// Package cobra matches articles with keyword subscriptions and keeps a feed of
// the articles that each matched last (Rose, Murty, Pietzuch, Ledlie,
// Roussopoulos and Welsh, NSDI 2007, sections 3.2 and 3.3).
//
//	Article    a new entry of a channel
//	Filter     subscriptions, by number, and which of them an article matches
//	Reflector  a filter, the articles that matched, and whose they are, on a disk
//
// A Reflector is what a node runs. As in the paper it matches articles itself,
// "since the matching algorithm is so efficient"; a filter alone says whether it
// is worth sending one there.
//
// # What is kept
//
// A subscription's feed are the last k articles that match one of its clauses.
// Each clause has a ring of article numbers; the newest k of a union lie in the
// union of the newest k's, so that OR is a merge when somebody reads. An article
// is kept once, on the disk, while a ring has it and it is not too old.
//
// What an owner was told is kept is on the disk before: subscriptions when they
// are acknowledged, articles before a reader may miss them. Rings are written
// page by page, round after round; after a crash the articles behind a page are
// matched again.
//
// # When room is scarce
//
// It goes as in the paper: "a reflector will begin dropping the content of new
// articles that are received, saving to users' feeds only the articles' titles
// and URLs", and "if memory continues to dwindle then reflectors will begin
// dropping all incoming articles (while logging a warning that this is
// happening)". Articles that no ring has are swept then, and all is well again
// as soon as there is room.
//
// Neither type may be used by two goroutines at once. A Reflector runs on a loop
// of its own, behind a bounded queue: a match at forty million subscriptions
// takes as long as an acknowledgement may.
//
// The package leaves to others how articles come (internal/node), which
// addresses feeds have and who may read them (proxy).
package cobra

//go:generate protoc --proto_path=cobrapb --go_out=cobrapb --go_opt=paths=source_relative cobrapb/cobra.proto
