// Package fetch asks origins for documents, politely, and treats every origin as possibly malicious.
//
// A [Client] is an [env.Fetcher]. Requests wait in a queue for each host, so that a slow host delays no
// other host. At most two requests to one host run at a time, and they start at least a second apart.
// A redirect is a request of its own and waits in the queue of its target. The client returns the
// validators, the freshness of the document and the origin's wish for fewer requests, and its caller
// decides when to ask again. It makes a second attempt itself only where it would ask in another way: at
// another address of the host if the first one is silent, or with text/html in Accept after a 406. It
// remembers for some hours which way worked (lesson.go). A caller that can merge it may ask for what has changed in a feed
// alone (RFC 3229). A partial document that was not asked for is an error.
//
// A malicious origin meets limits on time, on headers, and on bytes before and after decompression.
// Malicious addresses meet a guard on the IP address that is dialled, after names have been resolved:
// it allows only public addresses, and only the ports 80 and 443. With Config.AllowPrivate, for a
// laboratory or a home, the client also asks private origins, on any port and without a pause. A public
// origin cannot redirect it there. A redirect from HTTPS to HTTP is followed by HTTPS or not at
// all. The client uses no Referer and no proxy. Cookies live for one fetch and go to the site that set
// them alone (redirect.go).
//
// The package does not know what a document means (internal/feed), whether it changed (difference) or
// when to poll (corona).
package fetch
