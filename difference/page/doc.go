// Package page finds the content of a page and the changes in it.
//
// It is the difference engine of Corona (NSDI 2006, §3.4) for documents that are not feeds. The core of an HTML
// page is its content as lines of text, as a reader would copy them out, without the parts that change from one
// fetch to the next without saying anything.
//
//	Read     the core of any document            read.go
//	Scope    only what the channel's rule names        scope.go, number.go
//	HTML     the core of a page                  html.go, list.go, region.go, names.go, target.go, address.go, side.go
//	Text, JSON, XML                              data.go
//	Diff     the changes from core to core       patch.go, message.go
//	Tracker  the checks of a page over time      tracker.go, align.go, marks.go, rotation.go, returning.go, figure.go, replacement.go
//	Update   a version of a page in a log        update.go
//	Entry    an item that shows a change         entry.go
//	ShownBy  whether a node has seen a change itself       shown.go
//
// # What is left out of HTML
//
// Elements that are never text (scripts, styles, templates, drawings, frames, input fields) are dropped at
// once. Regions that may be noise are marked when they start: by their element (nav, footer, aside ...), their
// role, by being hidden, or by a word in their class or id that names such a region (menu, breadcrumb, cookie,
// share ...). At the end of the page the amount of text in each region is known. A region with a good part of
// the page's text is content, whatever its name. A region that is marked only by a word for navigation must
// consist mostly of links to be noise. Of the rest, runs of lines that are links with short labels are menus
// and dropped, too, unless they are a good part of the page. If nothing would remain, all text is content. A
// region near one of these bounds stays on its side from one check to the next.
//
// No rule names a site. The names are those of the Web's conventions (HTML, WAI-ARIA) and those that authors of
// pages in any language write into their classes, in English.
//
// # Links
//
// A line contains its links with their targets, as [text](target), because the target of a link is content.
// Parts of targets that say nothing about the destination are left out: tracking parameters, sessions, and long
// random tokens.
//
// # Volatile parts
//
// Relative times and numbers of viewers are removed from short lines at once (volatile.go). Other volatile
// parts are learned from one check to the next: counters, which are lines of which only numbers change, and
// rotating places, whose text is different at each check. marks.go says how they get and lose their marks. A
// Tracker keeps such parts as readers have them until something else changes. Blocks that come and go again and
// again are learned, too (returning.go). Prices and stocks are not volatile (figure.go).
//
// Where lines are broken, and in which order the items of an unordered list stand, is not news (align.go).
//
// Replicas that lag cause no change, and neither does a document in the place of the page: an error, a log-in
// page or a CAPTCHA (replacement.go, walls.go).
//
// # Parsing
//
// A page is parsed in one pass over its tokens, without a tree. If its channel names elements, a pass before makes a
// tree to find them (scope.go). Any depth is accepted, and only the open
// elements are kept besides the text. core.go has the limits.
//
// The wire specification is pagepb/page.proto.
package page

//go:generate protoc --proto_path=pagepb --go_out=pagepb --go_opt=paths=source_relative pagepb/page.proto
