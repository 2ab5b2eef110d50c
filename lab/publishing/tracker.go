package publishing

import (
	"slices"
	"time"

	"tidings/internal/feed"
	"tidings/sim"
)

// A Group is the pairs of a reader and an item that had to pass the same conditions.
type Group struct {
	Name     string  `json:"name"`
	LimitS   float64 `json:"limit_s"` // 0: none
	Expected int     `json:"wanted"`
	Shown    int     `json:"shown"`
	Late     int     `json:"late"` // pairs that took longer than the limit, or whose reader stopped after waiting for longer than the limit
	Lost     int     `json:"lost"` // pairs whose reader was there at the end, and had waited for longer than the limit
	Excused  int     `json:"went"` // pairs whose reader stopped or had just started
	P50      float64 `json:"p50_s"`
	P99      float64 `json:"p99_s"`
	Max      float64 `json:"most_s"`

	delays []time.Duration
}

func (p *Group) limit() time.Duration { return time.Duration(p.LimitS * float64(time.Second)) }

// delivered notes how long a pair took.
func (p *Group) delivered(d time.Duration) {
	p.Shown++
	p.delays = append(p.delays, d)
	if p.overLimit(d) {
		p.Late++
	}
}

// abandoned notes a pair that was not delivered; lost reports whether its reader was still there.
func (p *Group) abandoned(waited time.Duration, lost bool) {
	switch over := p.overLimit(waited); {
	case lost && (over || p.LimitS == 0):
		p.Lost++
	case over:
		p.Late++
	default:
		p.Excused++
	}
}

func (p *Group) overLimit(d time.Duration) bool { return p.LimitS > 0 && d > p.limit() }

// finish computes the figures.
func (p *Group) finish() {
	slices.Sort(p.delays)
	if n := len(p.delays); n > 0 {
		p.P50, p.P99, p.Max = p.delays[n/2].Seconds(), p.delays[n*99/100].Seconds(), p.delays[n-1].Seconds()
	}
}

// A tracker knows which readers are to be shown which items, and which were.
type tracker struct {
	now       func() time.Time
	groupOf   func(p *sim.Peer, f *trackedFeed) *Group // group of an item that is published now
	returning *Group                                   // group of what a reader is to be shown when it starts
	readers   map[*sim.Peer][]*reader
	order     []*reader
	repeated  int
}

// A trackedFeed is a feed with its items that count.
type trackedFeed struct {
	url     string
	share   float64 // share of the members that follow it
	items   map[feed.ID]int
	readers []*reader
}

// A reader is a peer that follows a feed.
type reader struct {
	peer    *sim.Peer
	feed    *trackedFeed
	online  bool
	shown   []bool              // by item
	pending map[int]pendingItem // items that it is still to be shown
}

// A pendingItem is since when an item is to be shown, and the group it counts in.
type pendingItem struct {
	since time.Time
	group *Group
}

// addReader notes that a peer, which is up, follows a feed.
func (l *tracker) addReader(p *sim.Peer, f *trackedFeed) {
	r := &reader{peer: p, feed: f, online: true, shown: make([]bool, len(f.items)), pending: map[int]pendingItem{}}
	l.readers[p] = append(l.readers[p], r)
	l.order = append(l.order, r)
	f.readers = append(f.readers, r)
	l.expectMissing(r)
}

// removePeer excludes a peer from now on.
func (l *tracker) removePeer(p *sim.Peer) {
	is := func(r *reader) bool { return r.peer == p }
	for _, r := range l.readers[p] {
		r.feed.readers = slices.DeleteFunc(r.feed.readers, is)
	}
	delete(l.readers, p)
	l.order = slices.DeleteFunc(l.order, is)
}

// expectMissing makes a reader that starts wait for all items that it has not been shown.
func (l *tracker) expectMissing(r *reader) {
	for i, shown := range r.shown {
		if !shown {
			r.pending[i] = pendingItem{l.now(), l.returning}
			l.returning.Expected++
		}
	}
}

// itemPublished notes a new item of a feed.
func (l *tracker) itemPublished(f *trackedFeed, id feed.ID) {
	i := len(f.items)
	f.items[id] = i
	for _, r := range f.readers {
		r.shown = append(r.shown, false)
		if r.online {
			p := l.groupOf(r.peer, f)
			p.Expected++
			r.pending[i] = pendingItem{l.now(), p}
		}
	}
}

// itemShown notes that a peer was shown an item.
func (l *tracker) itemShown(p *sim.Peer, url string, id feed.ID) {
	for _, r := range l.readers[p] {
		i, counts := r.feed.items[id]
		if r.feed.url != url || !counts {
			continue
		}
		if r.shown[i] {
			l.repeated++
			continue
		}
		r.shown[i] = true
		if o, open := r.pending[i]; open {
			o.group.delivered(l.now().Sub(o.since))
			delete(r.pending, i)
		}
	}
}

// peerStarted and peerStopped note that a peer's node starts and stops.
func (l *tracker) peerStarted(p *sim.Peer) {
	for _, r := range l.readers[p] {
		r.online = true
		l.expectMissing(r)
	}
}

func (l *tracker) peerStopped(p *sim.Peer) {
	for _, r := range l.readers[p] {
		r.online = false
		l.dropPending(r, false)
	}
}

// dropPending ends the wait of a reader for its pending items.
func (l *tracker) dropPending(r *reader, lost bool) {
	for i, o := range r.pending {
		o.group.abandoned(l.now().Sub(o.since), lost)
		delete(r.pending, i)
	}
}

// restartPending makes all pending items count from now on, in another group, and returns their
// number.
func (l *tracker) restartPending(to *Group) (n int) {
	for _, r := range l.order {
		for i, o := range r.pending {
			o.group.Expected--
			to.Expected++
			r.pending[i] = pendingItem{l.now(), to}
			n++
		}
	}
	return n
}

// finish ends the count.
func (l *tracker) finish() {
	for _, r := range l.order {
		l.dropPending(r, r.online)
	}
}
