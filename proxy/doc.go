// Package proxy is what a reader on this machine sees of its node: feeds to
// point a feed reader at, a JSON interface for programs, and pages for people.
//
//	/f/<token>/https://host/feed.xml    reads a feed, and subscribes to it
//	/https://host/feed.xml              reads it; subscribes if it is read again
//	/feed?url=…&format=&limit=          the same, in the format that is asked for
//	/k/<token>.{atom,rss,json}          reads a keyword feed
//	/api/v1/{list,status,doctor,…}      for programs that have the token
//	/  /show  /add  /opml               for people whose browser has a cookie
//	/readyz  /healthz  /metrics         for monitoring
//
// The query behind an address belongs to the origin. The token is made of the
// node's secret and the address, so that an address that leaks lets nobody
// subscribe to anything else; subscribe, the OPML export and the pages hand out
// addresses of that form. To read without a token leaves no trace at first: who
// comes back for the same feed after a minute, and is no browser, means to stay.
//
// # Feeds
//
// A feed goes out in the format of its source unless another is asked for, with the
// source's own bytes as far as the format is the source's. Those bytes are a
// stranger's: feed readers clean what they show, as they must with any feed, and
// a proxy that did it for them would break what it carries. The headers see to
// it that a browser runs nothing of it. What we write ourselves is clean
// (clean.go): the pages, and items in another format than their source's.
//
// A keyword feed (keywords.go) has articles of many feeds, under identities of its own and
// with their source beside them, and all of it is clean. Its token is the subscription's number under
// a key made of the node's secret: nothing is kept for it, nobody can guess one, and it is good until
// the subscription ends. Its ETag is made of the articles' numbers, so that nothing need be read for
// who has them.
//
// Every other answer has a strong ETag and, from the first whole second after it changed, a
// Last-Modified that never goes back: some clients look at nothing else, and take it for what
// they have if the time is no later, even when the node was started anew within that second.
// It is compared with what the reader has: see [rendition.unchanged]. It says when
// the source was seen last (X-Tidings-Age, in seconds), how the feed is
// (X-Tidings-State), whether it comes from a subscription or from the node's
// cache (X-Tidings-Source) and, if it is not fresh, why (X-Tidings-Stale). An
// origin that is away does not show: its last copy does. No answer is ever a
// 226, whatever A-IM asks for: readers that send the header mistake the answer
// for a fault.
//
// # Localhost is hostile ground
//
// Any page a person looks at can send requests to this machine, and any name can
// be made to point at it. So requests must name a host that is ours, else 421;
// other sites' pages are refused, also at feeds, as the time that an answer takes
// would tell whether the feed is subscribed to; and a GET changes nothing without a
// token in its path, nor a POST from another site. From other machines, and by the
// name that [Config.BaseURL] adds, only addresses with a token are answered. Requests
// that a proxy has passed on are refused unless [Config.TrustedProxies] has its
// address, and then they count as those of other machines. So do all requests from
// that address, with or without a forwarding header, unless they are known to be the own
// user's or show the token.
//
// Other users of this machine reach its port as well. The pages and the JSON
// interface therefore answer the node's own user alone, who is known by the
// connection (on Linux), by [Config.Token], or by a cookie that stands for it (access.go). Feeds and what monitoring asks for stay open: feed readers know
// nothing but addresses. The JSON interface asks for the header "Tidings: 1" besides,
// which no web page can send.
//
// Connections that say nothing keep nobody out (crowd.go).
//
// The package leaves to others what a node is (whoever implements
// [Subscriptions] and [Keywords]), which address to listen on, what a feed is (internal/feed)
// and how origins are asked.
package proxy
