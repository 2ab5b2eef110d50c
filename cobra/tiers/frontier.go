package tiers

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"tidings/cobra/tiers/tierspb"
	"tidings/internal/env"
	"tidings/internal/wire"
)

const (
	hostPrefix = "tiers/host/" // then the host
	// maxHosts bounds the hosts that a crawler remembers, also those at which it has found nothing: more than the usual budget
	// looks at until it looks again. Each takes about 700 bytes of memory.
	maxHosts = 32_768
	// maxOnly bounds the hosts that one site alone has named: a site that names more displaces its own.
	maxOnly = 256
	// maxNamers bounds the sites that are remembered for a host. Beyond it hosts rank alike.
	maxNamers = 64
	// maxFound bounds the feeds of a host that are proposed, and as many are kept that are not to be.
	maxFound = 4
	// lookAge is how long ago a host was looked at when it is looked at again, if it has been named since then.
	lookAge = 30 * 24 * time.Hour
	// maxPage bounds the address of a page. Of a longer one the host's first page is looked at.
	maxPage = 512
)

// A frontier holds the hosts to which articles of the polled feeds link, and the feeds that were found there. It decides which
// host is looked at next. Hosts that more sites name come first, and stay when there are too many.
type frontier struct {
	leads   map[string]*lead   // by host
	only    map[uint64][]*lead // by the hash of a site: hosts that it alone has named
	listed  []uint64           // hashes of the feeds of the crawl list, in order
	changed map[string]bool    // hosts whose records on disk are old
}

// A lead is a host on which feeds are looked for.
type lead struct {
	host string
	own  uint64 // hash of the site of the host
	*tierspb.Host
	heldUntil time.Time // until when the host is not asked
}

func newFrontier() *frontier {
	return &frontier{leads: map[string]*lead{}, only: map[uint64][]*lead{}, changed: map[string]bool{}}
}

// hostPart returns the host and port of a canonical URL.
func hostPart(url string) string {
	_, rest, _ := strings.Cut(url, "://")
	host, _, _ := strings.Cut(rest, "/")
	return host
}

// feedHash returns the hash of a feed's address. http and https are taken for the same feed.
func feedHash(url string) uint64 {
	_, rest, _ := strings.Cut(url, "://")
	return hashOf(rest)
}

// listOf returns the hashes of a crawl list.
func listOf(urls []string) []uint64 {
	list := make([]uint64, len(urls))
	for i, url := range urls {
		list[i] = feedHash(url)
	}
	slices.Sort(list)
	return list
}

func (f *frontier) isListed(url string) bool {
	_, ok := slices.BinarySearch(f.listed, feedHash(url))
	return ok
}

// add adds a host as its record says.
func (f *frontier) add(l *lead) {
	f.leads[l.host] = l
	if l.isOnly() {
		f.only[l.By[0]] = append(f.only[l.By[0]], l)
	}
}

func (f *frontier) drop(l *lead) {
	f.forgetOnly(l)
	delete(f.leads, l.host)
	f.changed[l.host] = true
}

func (l *lead) isOnly() bool { return len(l.By) == 1 && !l.dismissed() }

func (l *lead) dismissed() bool {
	return slices.ContainsFunc(l.Feeds, func(feed *tierspb.FoundFeed) bool { return feed.Dismissed })
}

// forgetOnly is called before a host is no longer one that a single site has named.
func (f *frontier) forgetOnly(l *lead) {
	if !l.isOnly() {
		return
	}
	list := slices.DeleteFunc(f.only[l.By[0]], func(other *lead) bool { return other == l })
	if f.only[l.By[0]] = list; len(list) == 0 {
		delete(f.only, l.By[0])
	}
}

// others counts the sites besides the host's own that have named it.
func (l *lead) others() int {
	if slices.Contains(l.By, l.own) {
		return len(l.By) - 1
	}
	return len(l.By)
}

// note takes down that an article of a site links to a page, or that the page is the home of a feed of the site. own is the
// site of the page.
func (f *frontier) note(page string, own, by uint64, isHome bool, now time.Time) {
	host := hostPart(page)
	l := f.leads[host]
	switch {
	case l == nil:
		f.makeRoom(by)
		l = &lead{host: host, own: own, Host: &tierspb.Host{By: []uint64{by}, FirstMs: now.UnixMilli()}}
		f.add(l)
	case slices.Contains(l.By, by):
		if isHome { // each document says it again
			return
		}
	case len(l.By) < maxNamers:
		f.forgetOnly(l)
		l.By = append(l.By, by)
	}
	if len(page) > maxPage {
		scheme, _, _ := strings.Cut(page, "://")
		page = scheme + "://" + host + "/"
	}
	l.Page, l.LastMs = page, now.UnixMilli()
	l.Times++
	f.changed[host] = true
}

// makeRoom drops hosts for one that a site names.
func (f *frontier) makeRoom(by uint64) {
	if list := f.only[by]; len(list) >= maxOnly {
		f.drop(slices.MinFunc(list, byWorth))
	}
	if len(f.leads) >= maxHosts {
		for _, l := range slices.SortedFunc(maps.Values(f.leads), byWorth)[:maxHosts/16] { // sorting takes long
			f.drop(l)
		}
	}
}

// byWorth orders hosts by what would be lost with them, least first: what the operator has decided, how many sites name them, what
// was found.
func byWorth(a, b *lead) int {
	return cmp.Or(
		compareBools(a.dismissed(), b.dismissed()), cmp.Compare(a.others(), b.others()), compareBools(len(a.Feeds) > 0, len(b.Feeds) > 0),
		cmp.Compare(a.LastMs, b.LastMs), strings.Compare(a.host, b.host),
	)
}

func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// unread returns a feed of the host that is to be read, nil if there is none.
func (l *lead) unread() *tierspb.FoundFeed {
	for _, feed := range l.Feeds {
		if feed.Format == "" && !feed.Tried && !feed.Dismissed {
			return feed
		}
	}
	return nil
}

// isDue reports whether the host has something to be asked for.
func (l *lead) isDue(now time.Time) bool {
	again := l.LastMs > l.LookedMs && now.Sub(time.UnixMilli(l.LookedMs)) >= lookAge
	return !l.heldUntil.After(now) && (l.LookedMs == 0 || again || l.unread() != nil)
}

// next returns the host to ask next, nil if there is none: what was begun first, then those that most sites have named.
func (f *frontier) next(now time.Time, mine func(host string) bool) (best *lead) {
	for _, l := range f.leads {
		if l.isDue(now) && mine(l.host) && (best == nil || l.before(best)) {
			best = l
		}
	}
	return best
}

func (l *lead) before(other *lead) bool {
	return cmp.Or(
		compareBools(other.unread() != nil, l.unread() != nil), cmp.Compare(other.others(), l.others()),
		cmp.Compare(l.FirstMs, other.FirstMs), strings.Compare(l.host, other.host),
	) < 0
}

// looked takes the feeds that a page of the host advertises. Those that were found before on other pages stay, as far as there
// is room.
func (f *frontier) looked(l *lead, urls []string, now time.Time) {
	f.forgetOnly(l)
	before := l.Feeds
	l.Feeds, l.LookedMs = nil, now.UnixMilli()
	for _, url := range urls[:min(len(urls), maxFound)] {
		if f.isListed(url) {
			continue
		}
		feed := &tierspb.FoundFeed{Url: url}
		if i := slices.IndexFunc(before, func(b *tierspb.FoundFeed) bool { return b.Url == url }); i >= 0 {
			feed = before[i]
			before = slices.Delete(before, i, i+1)
			feed.Tried = feed.Format != ""
		}
		l.Feeds = append(l.Feeds, feed)
	}
	for _, feed := range before {
		if room := len(l.Feeds); room < maxFound || feed.Dismissed && room < 2*maxFound {
			l.Feeds = append(l.Feeds, feed)
		}
	}
	f.again(l)
}

// again indexes a host after a change of its feeds, before which forgetOnly was called.
func (f *frontier) again(l *lead) {
	if l.isOnly() {
		f.only[l.By[0]] = append(f.only[l.By[0]], l)
	}
	f.changed[l.host] = true
}

// read takes what a feed of the host is, and where it is. Without a format it is none.
func (f *frontier) read(l *lead, feed *tierspb.FoundFeed, url, title, format string) {
	feed.Tried = true
	known := f.isListed(url) || slices.ContainsFunc(l.Feeds, func(other *tierspb.FoundFeed) bool { return other != feed && other.Url == url })
	if feed.Url, feed.Title, feed.Format = url, title, format; (format == "" || known) && !feed.Dismissed {
		l.Feeds = slices.DeleteFunc(l.Feeds, func(other *tierspb.FoundFeed) bool { return other == feed })
	}
	f.changed[l.host] = true
}

// dismiss lets a feed not be proposed any more, and reports whether it was.
func (f *frontier) dismiss(url string) (found bool) {
	for _, l := range f.leads {
		for _, feed := range l.Feeds {
			if feed.Url == url && !feed.Dismissed {
				f.forgetOnly(l)
				feed.Dismissed, found = true, true
				f.changed[l.host] = true
			}
		}
	}
	return found
}

// records returns the operations that write what has changed.
func (f *frontier) records() (ops []env.Op) {
	for _, host := range slices.Sorted(maps.Keys(f.changed)) {
		op := env.Op{Key: []byte(hostPrefix + host)}
		if l := f.leads[host]; l != nil {
			op.Value = wire.Encode(l.Host)
		}
		ops = append(ops, op)
	}
	clear(f.changed)
	return ops
}

// load adds a host as its record says.
func (f *frontier) load(host string, value []byte, site func(url string) string) error {
	l := &lead{host: host, Host: &tierspb.Host{}}
	if err := proto.Unmarshal(value, l.Host); err != nil {
		return err
	}
	l.own = hashOf(site(l.Page))
	f.add(l)
	return nil
}

// A Candidate is a feed that the crawl list lacks.
type Candidate struct {
	URL, Title  string
	Format      string // as internal/feed names it; empty: the feed could not be read, or has not been yet
	Sites       int    // other sites whose articles link to its host, at most maxNamers
	Times       uint64 // how many articles do
	First, Last time.Time
}

// proposed calls each with the feeds that are proposed.
func (f *frontier) proposed(each func(l *lead, feed *tierspb.FoundFeed)) {
	for _, l := range f.leads {
		for _, feed := range l.Feeds {
			if !feed.Dismissed && !f.isListed(feed.Url) {
				each(l, feed)
			}
		}
	}
}

// candidates returns the feeds that are proposed, in no order.
func (f *frontier) candidates() (all []Candidate) {
	f.proposed(func(l *lead, feed *tierspb.FoundFeed) {
		all = append(all, Candidate{
			URL: feed.Url, Title: feed.Title, Format: feed.Format, Sites: l.others(), Times: l.Times,
			First: time.UnixMilli(l.FirstMs), Last: time.UnixMilli(l.LastMs),
		})
	})
	return all
}

// BestFirst orders candidates, those first whose hosts most sites name, and leaves out those that several hosts advertise, except
// the best. It takes long for many.
func BestFirst(all []Candidate) []Candidate {
	slices.SortFunc(all, func(a, b Candidate) int {
		return cmp.Or(
			cmp.Compare(b.Sites, a.Sites), compareBools(b.Format != "", a.Format != ""), cmp.Compare(b.Times, a.Times),
			strings.Compare(a.URL, b.URL), a.First.Compare(b.First), a.Last.Compare(b.Last),
		)
	})
	seen := map[string]bool{}
	return slices.DeleteFunc(all, func(c Candidate) bool {
		again := seen[c.URL]
		seen[c.URL] = true
		return again
	})
}
