package sim

import (
	"maps"
	"time"

	"tidings/cobra/firehose"
	"tidings/difference"
	"tidings/internal/feed"
	"tidings/overlay"
	"tidings/overlay/owner"
)

// Invariants of filters.
const (
	// DispatchedTwice: a filter got an entry twice in one life.
	DispatchedTwice = "entry dispatched twice"
	// NotDispatched: a filter that was listening did not get an item that a reader was shown.
	NotDispatched = "item not dispatched"
)

// A filterState is what a filter has got in its present life.
type filterState struct {
	entries  map[owner.Hash]bool
	items    map[itemVersion]time.Time // when each arrived
	repeated int                       // items that also came in another entry
}

// An itemVersion is one version of an item.
type itemVersion struct {
	id   feed.ID
	hash feed.Hash
}

// MakeFilter makes a peer a filter from its next start on.
func (p *Peer) MakeFilter() { p.filterState = &filterState{} }

// reset begins a new life of a filter.
func (f *filterState) reset() {
	f.entries, f.items = map[owner.Hash]bool{}, map[itemVersion]time.Time{}
}

func (r application) Saw(overlay.ID, *feed.Feed) {}

func (r application) Dispatched(d firehose.Dispatch) bool {
	s, f := r.p.swarm, r.p.filterState
	if f.entries[d.Entry.Hash] {
		s.reportViolation(DispatchedTwice, "host %d got entry %v of %s again", r.p.Index(), d.Entry.At, d.URL)
	}
	f.entries[d.Entry.Hash] = true
	delta, err := difference.Decode(d.Body)
	if err != nil {
		panic("sim: decode an entry: " + err.Error())
	}
	for _, c := range delta.Changes {
		v := itemVersion{c.Item.ID, c.Item.Hash}
		if _, had := f.items[v]; had {
			f.repeated++
			continue
		}
		f.items[v] = s.Now()
	}
	return true
}

// FilterStats says which new items reached the filters, and how fast.
type FilterStats struct {
	Filters   int             // filters that were up all the time
	Expected  int             // pairs of a filter and an item
	Delivered int             // pairs of which the filter got the item
	Repeated  int             // items that came in a second entry
	Delays    []time.Duration // from the time at which the first reader was shown the item; not sorted
	Firehose  firehose.Stats  // sum over all nodes
}

// CheckFilters looks at all items that were first shown to a reader between since and until. It
// checks that the filters that were up since before then have got them, and reports each missing
// one.
func (s *Swarm) CheckFilters(since, until time.Time) (st FilterStats) {
	type shown struct {
		url string
		at  time.Time
	}
	items := map[itemVersion]shown{}
	for _, p := range s.members {
		for url, r := range p.subscriptions {
			for id, at := range r.firstShown {
				for hash := range r.shownVersions[id] {
					v := itemVersion{id, hash}
					if had, ok := items[v]; !ok || at.Before(had.at) {
						items[v] = shown{url, at}
					}
				}
			}
		}
	}
	maps.DeleteFunc(items, func(_ itemVersion, i shown) bool { return i.at.Before(since) || !i.at.Before(until) })
	for _, p := range s.members {
		if p.Up() {
			f := p.node.Firehose.Stats()
			st.Firehose.Add(f)
		}
		if p.filterState == nil || !p.Up() || p.startedAt.After(since) {
			continue
		}
		st.Filters++
		st.Repeated += p.filterState.repeated
		for v, i := range items {
			st.Expected++
			came, ok := p.filterState.items[v]
			if !ok {
				s.reportViolation(NotDispatched, "host %d did not get an item of %s", p.Index(), i.url)
				continue
			}
			st.Delivered++
			st.Delays = append(st.Delays, max(came.Sub(i.at), 0))
		}
	}
	return st
}

// TopicBytes returns the number of bytes that all hosts have sent on topics.
func (s *Swarm) TopicBytes() (bytes uint64) {
	for _, h := range s.Hosts() {
		bytes += h.Stats().TopicSent.Bytes
	}
	return bytes
}
