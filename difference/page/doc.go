// Package page finds the content of a page, and what has changed in it.
//
// It is the difference engine of Corona (NSDI 2006, §3.4) for documents that are no feeds:
// of an HTML page it takes the core, numbered lines of text as a reader would copy them out,
// and leaves out what changes from one fetch to the next without telling anybody anything.
//
//	Read    the core of any document           read.go
//	HTML    that of a page                     html.go, region.go, names.go, target.go, side.go
//	Text, JSON, XML                            data.go
//	Diff    how one core becomes another       patch.go, message.go
//	Memory  which looks at a page bring news   memory.go, marks.go, turn.go, odd.go
//	Update  what a log keeps of a version      update.go
//	Entry   what readers see of a change       entry.go
//
// # What is left out of HTML
//
// What is never text (scripts, styles, templates, drawings, frames, what is typed in) goes at
// once. Regions that may be noise are marked as they are met: by their element (nav, footer,
// aside ...), their role, by being hidden, or by a word in their class or id that names such
// a region (menu, breadcrumb, cookie, share ...). When the page is at its end it is known
// how much text each of them has, and one that holds a good part of the page is no noise,
// whatever it is called; one that only a word for navigation marks has to be links, mostly. Of
// what is left, runs of lines that are links with short labels and little else are menus, and go too,
// unless they are a good part of the page. A page of which nothing would be left has all of its text.
// From one look to the next, what is near such a bound stays on the side on which it was.
//
// No rule names a site. The names are those that the Web's conventions give (HTML, WAI-ARIA),
// and what authors of pages in any language write into their classes, in English.
//
// # Links
//
// A line has its links with their targets, as [text](target): where one leads is content. In
// targets, what says nothing about that is left out: what follows visitors about, sessions,
// and long tokens without meaning.
//
// # What changes by itself
//
// How long ago something was, and how many have seen it, is left out of short lines at once
// (volatile.go). Other lines that count, and places that are another at each look, are
// learned from one look to the next; marks.go says how they earn their marks, and lose
// them. Memory keeps them as readers have them until something else is news.
//
// Replicas that lag tell nothing, and neither does what stands in a page's place: an error, a
// log-in, a test for people (odd.go).
//
// # How it reads
//
// In one pass over the tokens, without a tree: there is no depth that it refuses, and the
// elements that are open are all it keeps beside the text. See the limits in core.go.
//
// The wire specification is pagepb/page.proto.
package page

//go:generate protoc --proto_path=pagepb --go_out=pagepb --go_opt=paths=source_relative pagepb/page.proto
