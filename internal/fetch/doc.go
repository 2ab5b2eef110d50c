// Package fetch asks origins for documents: politely, and as if each of them
// meant harm.
//
// A [Client] is an [env.Fetcher]. What is asked for waits in a queue of its
// host, so that a slow host holds up nobody else; at most two requests of a host
// are under way, and a second passes between their beginnings. A redirect is a
// request of its own, which waits its turn where it leads. Nothing is asked
// twice: when to ask again is for the caller to say, who gets the validators,
// how long the document is fresh, and how long the origin wants to be left alone.
//
// Hostile origins meet bounds on time, on headers, on bytes as sent and as
// unpacked. Hostile addresses meet a guard on the very address that is dialled,
// after all names have been resolved: only public ones, on ports 80 and 443. With
// Config.AllowPrivate, a node in a laboratory or a home also asks private ones,
// on any port and without a pause; but a public origin cannot send it there. No
// cookie, no Referer and no proxy takes part.
//
// The package leaves to others what a document means (internal/feed), whether
// it changed (difference), and when to poll (corona).
package fetch
