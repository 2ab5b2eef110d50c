package proxy

import (
	"cmp"
	"encoding/binary"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"tidings/internal/locale"
)

// A listQuery says which subscriptions a page shows, and in which order. The address of the page contains it.
type listQuery struct {
	Search    string // words that must occur
	State     string // a state; inTrouble: any problem; "": all
	Kind      string // KindFeed, KindPage or privateKind; "": all
	Publisher string // signed or unsigned; "": all
	Tag       string
	Sort      string // one of listOrders
	page      int    // from 1; 0 is the first one, too
}

// Values of the filters that are no states, kinds or tags.
const (
	inTrouble   = "trouble"
	privateKind = "private"
	signed      = "signed"
	unsigned    = "unsigned"
)

// Orders of a list.
const (
	byTitle  = "title"
	byNewest = "newest"
	byState  = "state"
	byAdded  = "added"
)

const (
	// listRows is the number of subscriptions on a page. A page of it has at most 100 kB unless addresses are unusually
	// long.
	listRows = 50
	// maxTagChoices bounds the tags that can be chosen as a filter. A search finds the others.
	maxTagChoices = 100
)

// An option is a choice of a filter.
type option struct {
	Value string
	Title locale.Text
}

// parseListQuery reads a listQuery from the address of a page. Values that are not known mean the default.
func parseListQuery(q url.Values) listQuery {
	page, _ := strconv.Atoi(q.Get("page"))
	l := listQuery{
		Search: strings.TrimSpace(oneLine(q.Get("q"))), State: oneLine(q.Get("state")), Kind: q.Get("kind"),
		Publisher: q.Get("publisher"), Tag: oneLine(q.Get("tag")), Sort: q.Get("sort"), page: page,
	}
	if !slices.Contains([]string{byTitle, byNewest, byState, byAdded}, l.Sort) {
		l.Sort = byTitle
	}
	if !slices.Contains([]string{KindFeed, KindPage, privateKind}, l.Kind) {
		l.Kind = ""
	}
	if !slices.Contains([]string{signed, unsigned}, l.Publisher) {
		l.Publisher = ""
	}
	return l
}

// values returns the query as parameters of an address, without defaults.
func (l listQuery) values() url.Values {
	q := url.Values{}
	for _, p := range [][2]string{{"q", l.Search}, {"state", l.State}, {"kind", l.Kind}, {"publisher", l.Publisher}, {"tag", l.Tag}} {
		if p[1] != "" {
			q.Set(p[0], p[1])
		}
	}
	if l.Sort != byTitle {
		q.Set("sort", l.Sort)
	}
	if l.page > 1 {
		q.Set("page", strconv.Itoa(l.page))
	}
	return q
}

// Filtered reports whether the query leaves subscriptions out.
func (l listQuery) Filtered() bool {
	return l.State != "" || l.Kind != "" || l.Publisher != "" || l.Tag != "" || l.Search != ""
}

// matches reports whether a subscription is one of those that the query asks for. words holds the words of the search in
// lower case.
func (l listQuery) matches(c *Channel, words []string) bool {
	switch {
	case l.State == inTrouble && !c.Failing(), l.State != "" && l.State != inTrouble && c.State != l.State,
		l.Kind == privateKind && !c.Private, l.Kind != "" && l.Kind != privateKind && (c.Kind != l.Kind || c.Private),
		l.Publisher != "" && (l.Publisher == signed) != (c.Publisher != ""),
		l.Tag != "" && !slices.Contains(c.Tags, l.Tag):
		return false
	}
	return containsWords(words, c.Title, c.URL, c.State, c.Why, c.Error, c.Tags)
}

// containsWords reports whether each of some words in lower case occurs in one of a channel's texts.
func containsWords(words []string, title, address, state, why, problem string, tags []string) bool {
	for _, word := range words {
		has := func(text string) bool { return strings.Contains(strings.ToLower(text), word) }
		if !has(title) && !has(address) && !has(state) && !has(why) && !has(problem) && !slices.ContainsFunc(tags, has) {
			return false
		}
	}
	return true
}

// A sortKey gives a subscription its place in a list: first by rank, then by text, then by address. A page keeps the keys of all
// subscriptions, and reads only those that it shows.
type sortKey struct {
	rank      uint64
	text, url string
}

func (a sortKey) compare(b sortKey) int {
	if a.rank != b.rank {
		return cmp.Compare(a.rank, b.rank)
	}
	return cmp.Or(cmp.Compare(a.text, b.text), cmp.Compare(a.url, b.url))
}

// newSortKey returns the key of a subscription in an order.
func newSortKey(order string, c *Channel) sortKey {
	title := strings.ToLower(titleOrAddress(c.Title, c.URL))
	key := sortKey{text: title, url: c.URL}
	switch order {
	case byNewest:
		key.rank = latestFirst(c.Newest)
	case byAdded:
		key.rank = latestFirst(c.Added)
	case byState:
		switch {
		case c.State == StateNew:
			key.rank = 1
		case !c.Failing():
			key.rank = 2
		default:
			key.text = c.State + "\x00" + title
		}
	default: // the first bytes decide most comparisons
		var first [8]byte
		copy(first[:], title)
		key.rank = binary.BigEndian.Uint64(first[:])
	}
	return key
}

// latestFirst returns the rank of a time: later times come first, and unknown ones last.
func latestFirst(t *time.Time) uint64 {
	if t == nil {
		return math.MaxUint64
	}
	return math.MaxInt64 - uint64(max(0, t.UnixNano()))
}

// soonestFirst returns the rank of a time: earlier times come first, and unknown ones last.
func soonestFirst(t *time.Time) uint64 {
	if t == nil {
		return math.MaxUint64
	}
	return uint64(max(0, t.UnixNano()))
}

// A listing is the part of the subscriptions that a page shows.
type listing struct {
	listQuery
	pager
	Rows   []channelView
	All    int // subscriptions
	Found  int // those for which the query asks
	size   int // rows of a page
	States []option
	Tags   []option
}

// A finder finds the subscriptions for which a query asks, of all that it sees.
type finder struct {
	listQuery
	words        []string
	all          int // that it has seen
	found        []sortKey
	states, tags map[string]bool // of those in trouble, and of all
}

func newFinder(q listQuery) *finder {
	return &finder{listQuery: q, words: strings.Fields(strings.ToLower(q.Search)), states: map[string]bool{}, tags: map[string]bool{}}
}

func (f *finder) see(c *Channel) {
	f.all++
	if f.matches(c, f.words) {
		f.found = append(f.found, newSortKey(f.Sort, c))
	}
	if c.Failing() {
		f.states[c.State] = true
	}
	for _, tag := range c.Tags {
		f.tags[tag] = true
	}
}

// listing returns the rows of a page of what was found.
func (s *Server) listing(r *http.Request, f *finder, rows int) (l listing, err error) {
	l = listing{listQuery: f.listQuery, All: f.all, Found: len(f.found), size: rows}
	slices.SortFunc(f.found, sortKey.compare)
	q := f.listQuery
	var keys []sortKey
	keys, l.pager = pageOf(f.found, q.page, rows, func(page int) string {
		q.page = page
		return withQuery(subscriptionsPath, q.values())
	})
	l.Rows, err = s.views(r, keys)
	l.addChoices(f)
	return l, err
}

// views reads some subscriptions, and returns them as pages show them. One that has ended meanwhile is left out.
func (s *Server) views(r *http.Request, keys []sortKey) (views []channelView, err error) {
	if len(keys) == 0 {
		return nil, nil
	}
	var addresses []string
	for _, key := range keys {
		addresses = append(addresses, key.url)
	}
	now, err := s.subscriptionsTo(r.Context(), addresses)
	for _, key := range keys {
		if c, ok := now[key.url]; ok {
			s.complete(r, &c)
			views = append(views, channelView{c})
		}
	}
	return views, err
}

// A pager says which part of a long list a page shows.
type pager struct {
	Page, Pages int                   // from 1
	address     func(page int) string // returns the address of a page
}

// pageOf returns the part of a list that is on a page of so many rows. A page that there is not means the nearest one.
func pageOf[T any](list []T, page, rows int, address func(page int) string) ([]T, pager) {
	p := pager{Pages: max(1, (len(list)+rows-1)/rows), address: address}
	p.Page = min(max(1, page), p.Pages)
	return list[(p.Page-1)*rows : min(len(list), p.Page*rows)], p
}

// Previous and Next return the addresses of the pages before and after this one, or "".
func (p pager) Previous() string {
	if p.Page <= 1 {
		return ""
	}
	return p.address(p.Page - 1)
}

// Next returns the address of the next page; see Previous.
func (p pager) Next() string {
	if p.Page >= p.Pages {
		return ""
	}
	return p.address(p.Page + 1)
}

// addChoices adds the states and tags that can be chosen as filters.
func (l *listing) addChoices(f *finder) {
	states, tags := f.states, f.tags
	if l.Tag != "" {
		tags[l.Tag] = true
	}
	l.States = []option{{"", locale.Say("All")}, {StateOK, locale.Say("OK")}, {StateNew, locale.Say("Not polled yet")}, {inTrouble, locale.Say("In trouble")}}
	if s := l.State; s != "" && s != StateOK && s != StateNew && s != inTrouble {
		states[s] = true
	}
	for _, state := range slices.Sorted(maps.Keys(states)) {
		l.States = append(l.States, option{state, locale.Say("In trouble: %s", stateText(state))})
	}
	l.Tags = []option{{"", locale.Say("All")}}
	for _, tag := range slices.Sorted(maps.Keys(tags)) {
		if len(l.Tags) <= maxTagChoices || tag == l.Tag {
			l.Tags = append(l.Tags, option{tag, locale.Verbatim(tag)})
		}
	}
}

// Kinds returns the kinds that can be chosen as a filter.
func (listing) Kinds() []option {
	return []option{{"", locale.Say("All")}, {KindFeed, locale.Say("Feeds")}, {KindPage, locale.Say("Pages")}, {privateKind, locale.Say("Private feeds")}}
}

// Publishers returns the other choices of the filter for publishers.
func (listing) Publishers() []option {
	return []option{{"", locale.Say("All")}, {signed, locale.Say("Signed")}, {unsigned, locale.Say("Not signed")}}
}

// Orders returns the orders of the list.
func (listing) Orders() []option {
	return []option{{byTitle, locale.Say("Title")}, {byNewest, locale.Say("Newest item")}, {byState, locale.Say("Problems first")}, {byAdded, locale.Say("Last added")}}
}

// Address returns the address of this page of the list.
func (l listing) Address() string { return l.address(l.Page) }

// First and Last return the numbers of the first and the last row of the page.
func (l listing) First() int { return min(l.Found, (l.Page-1)*l.size+1) }

// Last returns the number of the last row; see First.
func (l listing) Last() int { return min(l.Found, l.Page*l.size) }
