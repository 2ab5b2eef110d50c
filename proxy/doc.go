// Package proxy is the interface of a node for readers: feeds for feed readers, a JSON API for programs, and web
// pages for people.
//
//	/f/<token>/https://host/feed.xml    reads a feed, and subscribes to it
//	/https://host/feed.xml              reads it; subscribes if it is read again
//	/feed?url=…&format=&limit=          the same, in a chosen format
//	/k/<token>.{atom,rss,json}          reads a keyword feed
//	POST to any of these                 asks for news of it by WebSub (hub.go)
//	/s/  /s/api/searches                lets others make searches with a token (searches.go)
//	/api/v1/events                      streams what is new (events.go)
//	/api/v1/{list,status,doctor,…}      for programs that have the token
//	/  /subscriptions  /show  /opml  …  for people whose browser has a cookie (pageRoutes)
//	/live                               streams what changes on a page that is open (live.go)
//	/readyz  /healthz  /metrics         for monitoring
//
// The query behind a feed's address belongs to the origin. A token is derived from the node's secret and the feed's
// address, so a leaked address lets nobody subscribe to anything else. The subscribe command, the OPML export and
// the pages hand out addresses with tokens. Reading without a token subscribes only later: a reader that reads the
// same feed again after a minute, and is no browser, is taken for a regular reader.
//
// # Feeds
//
// A feed is sent in the format of its source unless the request names another. Parts that are in the source's
// format are sent byte for byte. They come from strangers. Feed readers sanitise what they display, as they must
// for any feed, and a proxy that did it for them would damage the content. Response headers keep a browser from
// running any of it. Everything that this package writes itself is sanitised (sanitiser.go): the pages, and items in
// another format than their source's. A browser in which the node's user opens the address of a subscription is led to
// its page (readable.go).
//
// A keyword feed (keywords.go) contains articles of many feeds, with identities of its own and with their sources,
// all sanitised. Its token is the subscription's number, encrypted with a key derived from the node's secret.
// Tokens need no storage, cannot be guessed, and are valid until the subscription ends. The ETag of a keyword feed
// depends only on the numbers of its articles, so nothing has to be read for a reader that has them.
//
// The answer to a request for any other feed has a strong ETag. From the first whole second after a change it also
// has a Last-Modified, which never goes back: some clients compare only that time, and keep what they have if the time
// is no later, even after a restart of the node within that second. [rendered.unchanged] compares both with what the
// reader has.
// Headers tell when the source was last seen (X-Tidings-Age, in seconds), the state of the feed (X-Tidings-State),
// whether it comes from a subscription or from the node's cache (X-Tidings-Source), and why it is not fresh
// (X-Tidings-Stale). If an origin is down, readers get its last copy. A reader that asks for what is new since its version
// (A-IM: feed) gets that with status 226 if it is known to merge it (delta.go). Others take a 226 for an error.
//
// # Requests that are refused
//
// Any web page that a person visits can send requests to this machine, and any DNS name can point to it. Therefore
// requests must name a host that belongs to the node, or they get 421. Pages of other sites are refused, even for
// feeds, because the response time would tell whether somebody here subscribes. A GET changes nothing without a
// token in its path, and neither does a POST from another site. Requests from other machines, or by the name in
// [Config.BaseURL], are answered only for addresses with a token, and at the page of searches. Requests forwarded by a proxy are refused, unless
// the proxy's address is in [Config.TrustedProxies]; they then count as requests from another machine. All requests
// from such an address count as that, with or without a forwarding header, unless they are known to come from the
// node's own user or show the token.
//
// Other users of this machine can reach the port, too. The pages and the API therefore answer only the node's own
// user, who is recognised by the connection (on Linux), by [Config.Token], or by a cookie that stands for the token
// (access.go). Feeds and monitoring stay open, because feed readers know nothing but addresses. The API also
// requires the header "Tidings: 1", which no web page can send.
//
// Idle connections cannot keep readers out (connlimit.go).
//
// The package does not implement the node itself (see [Subscriptions] and [Keywords]). It does not choose the
// address to listen at, and it does not parse or fetch feeds (internal/feed, internal/fetch).
package proxy
