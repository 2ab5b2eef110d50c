package tiers

import (
	"cmp"
	"slices"
	"time"

	"tidings/cobra"
	"tidings/cobra/tiers/tierspb"
	"tidings/difference/page"
	"tidings/internal/env"
	"tidings/internal/feed"
)

const (
	// MaxDiscover bounds the requests an hour with which a crawler looks for feeds: one a second.
	MaxDiscover = 3600
	// pageBytes is how much of a page is read: what pages advertise is in their heads.
	pageBytes = 256 << 10
	// maxOutlinks bounds the links of an article that are followed up.
	maxOutlinks = 32
	// maxFeedTitle bounds the title of a found feed in characters.
	maxFeedTitle = 200
	// hostsInterval is the time between two writings of which hosts were named.
	hostsInterval = 10 * time.Second
	// heldTime is how long a host is left alone that the fetcher could not ask.
	heldTime = time.Hour
)

// A discovery looks for feeds that the list lacks. It has at most one request under way, and begins none while polls are due.
type discovery struct {
	*frontier
	handle  env.Handle // of the request under way; 0: none
	asked   *lead
	feed    *tierspb.FoundFeed // of asked, which is being read; nil: its page is looked at
	began   time.Time
	lookAt  time.Time // when the next request may begin
	writeAt time.Time
}

// loadHosts reads the hosts that are known.
func (c *crawler) loadHosts() error {
	c.hosts = &discovery{frontier: newFrontier()}
	if c.cfg.Discover > 0 {
		c.hosts.lookAt = c.clock.Now().Add(c.cfg.lookInterval()) // it may have asked just before it ended
	}
	var broken error
	err := c.store.Range([]byte(hostPrefix), func(key, value []byte) bool {
		broken = c.hosts.load(string(key[len(hostPrefix):]), value, c.cfg.Rules.Site)
		return broken == nil
	})
	return cmp.Or(err, broken)
}

// follow takes down to which hosts new articles of a feed link, and which home page the feed names.
func (c *crawler) follow(url, home string, articles []*cobra.Article) {
	if c.cfg.Discover == 0 || len(articles) == 0 {
		return
	}
	var pages []string
	site := c.cfg.Rules.Site(url)
	c.worker.Do(func() { home, pages = linksOf(c.cfg.Rules, url, home, site, articles) }, func() { c.tellNames(hashOf(site), home, pages) })
}

// linksOf returns the pages of other sites to which articles link, one for each article and host.
func linksOf(rules Rules, url, home, site string, articles []*cobra.Article) (start string, pages []string) {
	if home != "" {
		start, _ = feed.Resolve(url, home) // one that is no address is none
	}
	size := len(start)
	for _, a := range articles {
		seen := map[string]bool{}
		targets := page.Outlinks([]byte(a.HTML[:min(len(a.HTML), maxArticle)]), maxOutlinks)
		for _, target := range append(targets, a.Link) {
			address, err := feed.Canonical(target)
			if err != nil || seen[hostPart(address)] || rules.Site(address) == site {
				continue
			}
			seen[hostPart(address)] = true
			if size += len(address) + itemOverhead; size > maxBatch { // more than a frame has room for
				return start, pages
			}
			pages = append(pages, address)
		}
	}
	return start, pages
}

// tellNames notes what a site has named, or tells the crawlers that look at the hosts. What is lost is named again sometime.
func (c *crawler) tellNames(by uint64, home string, pages []string) {
	if c.near.self < 0 {
		return
	}
	parts := make([]*tierspb.Named, len(c.near.crawlers))
	part := func(url string) *tierspb.Named {
		p := &parts[c.near.home(hostPart(url))]
		*p = cmp.Or(*p, &tierspb.Named{By: by})
		return *p
	}
	if home != "" {
		part(home).Home = home
	}
	for _, url := range pages {
		p := part(url)
		p.Pages = append(p.Pages, url)
	}
	for i, p := range parts {
		switch {
		case p == nil:
		case i == c.near.self:
			c.onNamed(p)
		default:
			c.send(c.near.crawlers[i].Peer, env.Bulk, &tierspb.Message{Body: &tierspb.Message_Named{Named: p}})
		}
	}
}

func (c *crawler) onNamed(m *tierspb.Named) {
	if c.cfg.Discover == 0 {
		return
	}
	for i, url := range append(m.Pages, m.Home) {
		if canonical, err := feed.Canonical(url); err == nil && canonical == url {
			c.hosts.note(url, hashOf(c.cfg.Rules.Site(url)), m.By, i == len(m.Pages), c.clock.Now())
		}
	}
	c.wake()
}

// discover asks the next host, if the budget allows and no poll is due, and writes what has changed.
func (c *crawler) discover(now time.Time) (next time.Time) {
	d := c.hosts
	if len(d.changed) > 0 {
		if d.writeAt.After(now) {
			next = d.writeAt
		} else {
			c.writeHosts(func(error) {})
		}
	}
	if c.cfg.Discover == 0 || c.near.self < 0 || len(d.leads) == 0 {
		return next
	}
	if d.handle != 0 {
		if end := d.began.Add(pollTimeout); end.After(now) {
			return env.Sooner(next, end)
		}
		d.handle = 0 // its answer never came
	}
	if !d.lookAt.After(now) {
		d.lookAt = now.Add(c.cfg.lookInterval())
		if poll := c.cal.Next(); c.out.waiting() == nil && (poll.IsZero() || poll.After(now)) {
			c.look(now)
		}
	}
	return env.Sooner(next, d.lookAt)
}

// lookInterval is the time that one request takes from the budget.
func (cfg *Config) lookInterval() time.Duration { return time.Hour / time.Duration(cfg.Discover) }

func (c *crawler) writeHosts(then func(error)) {
	c.hosts.writeAt = c.clock.Now().Add(hostsInterval)
	c.store.Commit(c.hosts.records(), func(err error) {
		c.failed("hosts")(err)
		then(err)
	})
}

// look asks the next host for the page that was named, or for a feed that the page advertises. The addresses come from strangers,
// and may lead to public addresses only.
func (c *crawler) look(now time.Time) {
	d := c.hosts
	l := d.next(now, c.owns)
	if l == nil {
		return
	}
	c.last++
	d.handle, d.asked, d.feed, d.began = c.last|Handles, l, l.unread(), now
	r := env.Request{URL: l.Page, Public: true, Robots: true, Limit: pageBytes}
	if d.feed != nil {
		r = env.Request{URL: d.feed.Url, Public: true}
	}
	c.fetcher.Fetch(d.handle, r)
}

// onLook handles the answer of a host.
func (c *crawler) onLook(a env.Answer) {
	d := c.hosts
	h, l, found := d.handle, d.asked, d.feed
	c.stats.Looks += uint64(a.Requests)
	d.lookAt = later(d.lookAt, d.began.Add(time.Duration(a.Requests)*c.cfg.lookInterval()))
	var doc *feed.Feed
	var urls []string
	c.worker.Do(func() {
		if !a.HasDocument() {
			return
		}
		var err error
		if doc, err = c.cfg.Rules.Read(a.FinalURL, a); err != nil {
			doc, urls = nil, c.cfg.Rules.Advertised(a)
		}
	}, func() {
		if d.handle == h {
			d.handle = 0
		}
		defer c.wake()
		switch now := c.clock.Now(); {
		case d.leads[l.host] != l: // dropped meanwhile
			return
		case a.Err == env.ErrBusy:
			l.heldUntil = now.Add(max(heldTime, a.RetryAfter))
			return
		case found != nil:
			d.onFeed(l, found, a, doc)
		case a.HasDocument() && hashOf(c.cfg.Rules.Site(a.FinalURL)) != l.own:
			// It leads to another site. The host may be one that shortens addresses, and says nothing about that site.
			d.looked(l, nil, now)
			c.tellNames(l.own, "", []string{a.FinalURL})
		case doc != nil: // the page is a feed
			if d.looked(l, []string{a.FinalURL}, now); l.unread() != nil {
				d.onFeed(l, l.unread(), a, doc)
			}
		default:
			d.looked(l, urls, now)
		}
		c.writeHosts(func(error) {})
	})
}

// onFeed takes the answer for a feed that a page advertises. One that may come back stays, and is not asked for again until its
// page is.
func (d *discovery) onFeed(l *lead, found *tierspb.FoundFeed, a env.Answer, doc *feed.Feed) {
	url, title, format := found.Url, "", ""
	switch {
	case doc != nil:
		if a.Moved {
			url = a.FinalURL
		}
		title, format = feed.PlainTitle(doc.Head.Title), doc.Head.Format.String()
		title = string([]rune(title)[:min(len([]rune(title)), maxFeedTitle)])
	case !a.HasDocument() && !slices.Contains([]int{404, 410}, a.Status) && a.Err != env.ErrRefused && a.Err != env.ErrURL:
		found.Tried = true
		d.changed[l.host] = true
		return
	}
	d.read(l, found, url, title, format)
}

// Candidates returns the feeds that a crawler has found and its list lacks; see BestFirst. Other nodes have none.
func (t *Tiers) Candidates() []Candidate {
	if t.crawler == nil {
		return nil
	}
	return t.crawler.hosts.candidates()
}

// Dismiss lets a candidate not be proposed any more. done is called when that is durable, with false if there is no such
// candidate.
func (t *Tiers) Dismiss(url string, done func(found bool, err error)) {
	if t.crawler == nil || !t.crawler.hosts.dismiss(url) {
		done(false, nil)
		return
	}
	t.crawler.writeHosts(func(err error) { done(true, err) })
}
