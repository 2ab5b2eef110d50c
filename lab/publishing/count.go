package publishing

import (
	"slices"
	"time"

	"tidings/internal/feed"
	"tidings/sim"
)

// A Part is what became of those pairs of a reader and an item that had the same to come through.
type Part struct {
	Name   string  `json:"name"`
	LimitS float64 `json:"limit_s"` // 0: none
	Wanted int     `json:"wanted"`
	Shown  int     `json:"shown"`
	Late   int     `json:"late"` // after the limit, or waited for in vain for so long until the reader went
	Lost   int     `json:"lost"` // wanted by who is there in the end, and for longer than the limit
	Went   int     `json:"went"` // the reader had gone, or had just come
	P50    float64 `json:"p50_s"`
	P99    float64 `json:"p99_s"`
	Most   float64 `json:"most_s"`

	delays []time.Duration
}

func (p *Part) limit() time.Duration { return time.Duration(p.LimitS * float64(time.Second)) }

// took notes how long a pair took.
func (p *Part) took(d time.Duration) {
	p.Shown++
	p.delays = append(p.delays, d)
	if p.over(d) {
		p.Late++
	}
}

// gave notes a pair that came to nothing; lost says whether it could still have been.
func (p *Part) gave(waited time.Duration, lost bool) {
	switch over := p.over(waited); {
	case lost && (over || p.LimitS == 0):
		p.Lost++
	case over:
		p.Late++
	default:
		p.Went++
	}
}

func (p *Part) over(d time.Duration) bool { return p.LimitS > 0 && d > p.limit() }

// sum makes the figures.
func (p *Part) sum() {
	slices.Sort(p.delays)
	if n := len(p.delays); n > 0 {
		p.P50, p.P99, p.Most = p.delays[n/2].Seconds(), p.delays[n*99/100].Seconds(), p.delays[n-1].Seconds()
	}
}

// A ledger knows who is to be shown what, and was.
type ledger struct {
	now     func() time.Time
	part    func(p *sim.Peer, f *followed) *Part // of an item that is published now
	back    *Part                                // of what who comes is to be shown
	readers map[*sim.Peer][]*reader
	order   []*reader
	again   int
}

// A followed feed, and its items that count.
type followed struct {
	url     string
	share   float64 // of the members that follow it
	items   map[feed.ID]int
	readers []*reader
}

// A reader is a peer that follows a feed.
type reader struct {
	peer  *sim.Peer
	feed  *followed
	up    bool
	shown []bool         // by item
	open  map[int]waited // items that it is to be shown
}

// waited is since when an item is to be shown, and in which part it counts.
type waited struct {
	since time.Time
	part  *Part
}

// follows notes that a peer, which is up, follows a feed.
func (l *ledger) follows(p *sim.Peer, f *followed) {
	r := &reader{peer: p, feed: f, up: true, shown: make([]bool, len(f.items)), open: map[int]waited{}}
	l.readers[p] = append(l.readers[p], r)
	l.order = append(l.order, r)
	f.readers = append(f.readers, r)
	l.wants(r)
}

// forget leaves out a peer from now on.
func (l *ledger) forget(p *sim.Peer) {
	is := func(r *reader) bool { return r.peer == p }
	for _, r := range l.readers[p] {
		r.feed.readers = slices.DeleteFunc(r.feed.readers, is)
	}
	delete(l.readers, p)
	l.order = slices.DeleteFunc(l.order, is)
}

// wants has a reader that comes wait for all that it has not been shown.
func (l *ledger) wants(r *reader) {
	for i, shown := range r.shown {
		if !shown {
			r.open[i] = waited{l.now(), l.back}
			l.back.Wanted++
		}
	}
}

// published notes a new item of a feed.
func (l *ledger) published(f *followed, id feed.ID) {
	i := len(f.items)
	f.items[id] = i
	for _, r := range f.readers {
		r.shown = append(r.shown, false)
		if r.up {
			p := l.part(r.peer, f)
			p.Wanted++
			r.open[i] = waited{l.now(), p}
		}
	}
}

// shows notes that a peer was shown an item.
func (l *ledger) shows(p *sim.Peer, url string, id feed.ID) {
	for _, r := range l.readers[p] {
		i, counts := r.feed.items[id]
		if r.feed.url != url || !counts {
			continue
		}
		if r.shown[i] {
			l.again++
			continue
		}
		r.shown[i] = true
		if o, open := r.open[i]; open {
			o.part.took(l.now().Sub(o.since))
			delete(r.open, i)
		}
	}
}

// came and went note that a peer did.
func (l *ledger) came(p *sim.Peer) {
	for _, r := range l.readers[p] {
		r.up = true
		l.wants(r)
	}
}

func (l *ledger) went(p *sim.Peer) {
	for _, r := range l.readers[p] {
		r.up = false
		l.end(r, false)
	}
}

// end ends what a reader waits for.
func (l *ledger) end(r *reader, lost bool) {
	for i, o := range r.open {
		o.part.gave(l.now().Sub(o.since), lost)
		delete(r.open, i)
	}
}

// anew has all that is waited for count from now on, in another part, and returns how much that is.
func (l *ledger) anew(to *Part) (n int) {
	for _, r := range l.order {
		for i, o := range r.open {
			o.part.Wanted--
			to.Wanted++
			r.open[i] = waited{l.now(), to}
			n++
		}
	}
	return n
}

// close ends the count.
func (l *ledger) close() {
	for _, r := range l.order {
		l.end(r, r.up)
	}
}
