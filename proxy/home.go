package proxy

import (
	"html/template"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"tidings/internal/locale"
)

// A Notice is a table of figures at the top of the start page.
type Notice struct {
	Title  locale.Text
	Text   locale.Text     // shown below the title
	Head   []locale.Text   // column names
	Rows   [][]locale.Text // the first cell of a row is its name
	Footer []locale.Text   // sentences below the table
}

const (
	// homeRows is the number of subscriptions on the start page: those with the newest items.
	homeRows = 20
	// maxAttention bounds the feeds on the start page that need attention. The page of subscriptions shows all.
	maxAttention = 5
	// keyChangeTime is how long the start page shows that a publisher's key was changed, as long as the doctor reports it.
	keyChangeTime = 7 * 24 * time.Hour
	// newsTime is the time for which the start page counts new items.
	newsTime = 24 * time.Hour
)

// homePage is the start page.
type homePage struct {
	Notice      *Notice
	Paused      bool // the page does not refresh itself
	Alone       bool // the node knows no other member
	Numbers     []number
	Timeline    timeline
	Attention   attention
	List        listing
	Found       []ReaderList // lists of other readers; only without subscriptions
	Bookmarklet template.URL // the bookmarklet
}

// A number is a live number on the start page.
type number struct {
	ID, Label, Value, Help string
	Link                   string // where the things that it counts are; may be empty
}

// attention holds what a person should do something about.
type attention struct {
	Sentences []string // about the node itself
	Feeds     []channelView
	More      int // feeds in trouble that are not shown
}

// Any reports whether there is anything.
func (a attention) Any() bool { return len(a.Sentences)+len(a.Feeds) > 0 }

// An attentionPlace is a place on the start page for a feed that needs attention. Live updates fill and empty it.
type attentionPlace struct {
	ID   string
	Feed *channelView // nil: none
}

// Places returns the places for feeds.
func (a attention) Places() (places [maxAttention]attentionPlace) {
	for i := range places {
		places[i].ID = "a-" + strconv.Itoa(i)
		if i < len(a.Feeds) {
			places[i].Feed = &a.Feeds[i]
		}
	}
	return places
}

func (s *Server) home(w http.ResponseWriter, r *http.Request) error {
	status, err := s.subs.Status(r.Context())
	if err != nil {
		return err
	}
	var t tally
	f, trouble := newFinder(listQuery{Sort: byNewest}), s.newTroubled()
	findings, err := s.subs.Doctor(r.Context(), func(c *Channel) {
		t.see(c)
		f.see(c)
		trouble.see(c)
	})
	if err != nil {
		return err
	}
	l := s.language(r)
	h := homePage{Alone: status.EstimateN <= 1, Numbers: s.numbers(l, t), Timeline: newTimeline(l, s.config.News, s.config.Now()), Bookmarklet: bookmarklet(scheme(r) + "://" + r.Host)}
	if s.config.Notice != nil {
		n := s.config.Notice()
		h.Notice = &n
		// Automatic refreshing can be paused (WCAG 2.2, 2.2.2), so that it does not interrupt a person who fills in
		// the form below.
		if h.Paused = r.URL.Query().Has("still"); !h.Paused {
			w.Header().Set("Refresh", "2")
		}
	}
	if h.Attention, err = s.attention(r, status, findings, trouble); err != nil {
		return err
	}
	if f.all == 0 {
		h.Found = s.foundLists()
	}
	if h.List, err = s.listing(r, f, homeRows); err != nil {
		return err
	}
	return s.writePage(w, r, http.StatusOK, "home.html", locale.Text{"tidings"}, h)
}

// troubled finds the feeds that a person should do something about: those that are in trouble, have moved, or have another key.
type troubled struct {
	lately time.Time // since when the change of a key counts
	found  []sortKey
}

func (s *Server) newTroubled() *troubled {
	return &troubled{lately: s.config.Now().Add(-keyChangeTime)}
}

func (t *troubled) see(c *Channel) {
	isChanged := c.KeyChange != "" && c.PublisherSince != nil && c.PublisherSince.After(t.lately)
	if c.Failing() || c.Moved != "" || isChanged {
		t.found = append(t.found, newSortKey(byState, c))
	}
}

// attention returns what a person should do something about: the node's warnings and problems, and feeds.
func (s *Server) attention(r *http.Request, status Status, findings []Finding, feeds *troubled) (a attention, err error) {
	l := s.language(r)
	for _, warning := range status.Warnings {
		a.Sentences = append(a.Sentences, sentence(l.Text(warning.text())))
	}
	for _, f := range findings {
		what := strings.ToLower(f.What.String())
		isKnown := func(warning Warning) bool { return strings.Contains(strings.ToLower(warning.String()), what) }
		if f.Level == levelProblem && !slices.ContainsFunc(status.Warnings, isKnown) {
			a.Sentences = append(a.Sentences, strings.TrimSpace(sentence(l.Text(f.What))+" "+sentence(l.Text(f.Do))))
		}
	}
	slices.SortFunc(feeds.found, sortKey.compare)
	shown := min(len(feeds.found), maxAttention)
	a.Feeds, err = s.views(r, feeds.found[:shown])
	a.More = len(feeds.found) - shown
	return a, err
}

// A tally counts what the numbers of the start page say of the subscriptions.
type tally struct {
	all, trouble  int
	saved, delays float64
	delayed       int // with a known delay
}

func (t *tally) see(c *Channel) {
	t.all++
	if c.Failing() {
		t.trouble++
	}
	t.saved += c.pollsSaved()
	if c.DetectionExpectedS != nil {
		t.delays += *c.DetectionExpectedS
		t.delayed++
	}
}

// numbers returns the live numbers of the start page.
func (s *Server) numbers(l *locale.Language, t tally) []number {
	delay := "–"
	if t.delayed > 0 {
		delay = l.Text(spanOf(t.delays / float64(t.delayed)))
	}
	count := func(n int) string { return l.Say("%d", n) }
	return []number{
		{"subscriptions", l.Say("Subscriptions"), count(t.all), l.Say("The feeds and pages that this node follows for you."), subscriptionsPath},
		{"trouble", l.Say("In trouble"), count(t.trouble), l.Say("The subscriptions that cannot be read as they should be at present."), subscriptionsPath + "?state=" + inTrouble},
		{"items", l.Say("New in 24 hours"), count(s.config.News.NewItems(s.config.Now().Add(-newsTime))), l.Say("The items that were new in your feeds and pages, without edits of older ones."), ""},
		{"saved", l.Say("Polls saved a day"), count(roughly(t.saved)), l.Say("How often other nodes poll your feeds in a day and tell this node what is new. Alone, this node would have to make these polls itself to see news as soon. The number is an estimate from the present polling intervals."), "/channels"},
		{"delay", l.Say("Expected time to see news"), delay, l.Say("The mean time from a change of a feed to the next poll by any node, over all feeds that can be read."), "/channels?sort=expected"},
	}
}

// roughly rounds an estimate to two digits.
func roughly(estimate float64) int {
	unit := 1.0
	for estimate/unit >= 100 {
		unit *= 10
	}
	return int(math.Round(estimate/unit) * unit)
}

// pollsSaved returns how often other nodes poll the channel in a day. The mean time to the next poll is half the time
// between two polls.
func (c *Channel) pollsSaved() float64 {
	if c.DetectionExpectedS == nil || *c.DetectionExpectedS <= 0 || c.Pollers == 0 {
		return 0
	}
	polls := (24 * time.Hour).Seconds() / (2 * *c.DetectionExpectedS)
	if c.Polls {
		polls -= polls / float64(c.Pollers)
	}
	return polls
}

// bookmarklet returns a script that leads from any page to /add, with the feed that the page advertises or with the
// page itself. The script runs in the context of that page.
func bookmarklet(base string) template.URL {
	const script = `javascript:(function(){` +
		`var l=document.querySelector('link[rel~="alternate"][type="application/atom+xml"],` +
		`link[rel~="alternate"][type="application/rss+xml"],link[rel~="alternate"][type="application/feed+json"]');` +
		`location.href=%BASE%+'/add?url='+encodeURIComponent(l?l.href:location.href)})()`
	quoted := "'" + template.JSEscapeString(base) + "'"
	return template.URL(url.PathEscape(strings.Replace(script, "%BASE%", quoted, 1)))
}
