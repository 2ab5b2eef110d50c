package publishing

import (
	"slices"
	"time"

	"tidings/internal/feed"
	"tidings/sim"
)

// A Part is what became of those pairs of a reader and an item that had the same to come through.
type Group struct {
	Name     string  `json:"name"`
	LimitS   float64 `json:"limit_s"` // 0: none
	Expected int     `json:"wanted"`
	Shown    int     `json:"shown"`
	Late     int     `json:"late"` // after the limit, or waited for in vain for so long until the reader went
	Lost     int     `json:"lost"` // wanted by who is there in the end, and for longer than the limit
	Excused  int     `json:"went"` // the reader had gone, or had just come
	P50      float64 `json:"p50_s"`
	P99      float64 `json:"p99_s"`
	Max      float64 `json:"most_s"`

	delays []time.Duration
}

func (p *Group) limit() time.Duration { return time.Duration(p.LimitS * float64(time.Second)) }

// took notes how long a pair took.
func (p *Group) delivered(d time.Duration) {
	p.Shown++
	p.delays = append(p.delays, d)
	if p.overLimit(d) {
		p.Late++
	}
}

// gave notes a pair that came to nothing; lost says whether it could still have been.
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

// sum makes the figures.
func (p *Group) finish() {
	slices.Sort(p.delays)
	if n := len(p.delays); n > 0 {
		p.P50, p.P99, p.Max = p.delays[n/2].Seconds(), p.delays[n*99/100].Seconds(), p.delays[n-1].Seconds()
	}
}

// A ledger knows who is to be shown what, and was.
type tracker struct {
	now       func() time.Time
	groupOf   func(p *sim.Peer, f *trackedFeed) *Group // of an item that is published now
	returning *Group                                   // of what who comes is to be shown
	readers   map[*sim.Peer][]*reader
	order     []*reader
	repeated  int
}

// A followed feed, and its items that count.
type trackedFeed struct {
	url     string
	share   float64 // of the members that follow it
	items   map[feed.ID]int
	readers []*reader
}

// A reader is a peer that follows a feed.
type reader struct {
	peer    *sim.Peer
	feed    *trackedFeed
	online  bool
	shown   []bool              // by item
	pending map[int]pendingItem // items that it is to be shown
}

// waited is since when an item is to be shown, and in which part it counts.
type pendingItem struct {
	since time.Time
	group *Group
}

// follows notes that a peer, which is up, follows a feed.
func (l *tracker) addReader(p *sim.Peer, f *trackedFeed) {
	r := &reader{peer: p, feed: f, online: true, shown: make([]bool, len(f.items)), pending: map[int]pendingItem{}}
	l.readers[p] = append(l.readers[p], r)
	l.order = append(l.order, r)
	f.readers = append(f.readers, r)
	l.expectMissing(r)
}

// forget leaves out a peer from now on.
func (l *tracker) removePeer(p *sim.Peer) {
	is := func(r *reader) bool { return r.peer == p }
	for _, r := range l.readers[p] {
		r.feed.readers = slices.DeleteFunc(r.feed.readers, is)
	}
	delete(l.readers, p)
	l.order = slices.DeleteFunc(l.order, is)
}

// wants has a reader that comes wait for all that it has not been shown.
func (l *tracker) expectMissing(r *reader) {
	for i, shown := range r.shown {
		if !shown {
			r.pending[i] = pendingItem{l.now(), l.returning}
			l.returning.Expected++
		}
	}
}

// published notes a new item of a feed.
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

// shows notes that a peer was shown an item.
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

// came and went note that a peer did.
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

// end ends what a reader waits for.
func (l *tracker) dropPending(r *reader, lost bool) {
	for i, o := range r.pending {
		o.group.abandoned(l.now().Sub(o.since), lost)
		delete(r.pending, i)
	}
}

// anew has all that is waited for count from now on, in another part, and returns how much that is.
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

// close ends the count.
func (l *tracker) finish() {
	for _, r := range l.order {
		l.dropPending(r, r.online)
	}
}
