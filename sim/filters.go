package sim

import (
	"maps"
	"time"

	"tidings/cobra/firehose"
	"tidings/difference"
	"tidings/internal/feed"
	"tidings/overlay/owner"
)

// Invariants of filters.
const (
	// DispatchedTwice: no filter gets an entry twice in one life.
	DispatchedTwice = "entry dispatched twice"
	// NotDispatched: what a reader was shown, every filter that listened has got.
	NotDispatched = "item not dispatched"
)

// filtering is what a peer got as a filter, in its present life.
type filtering struct {
	entries map[owner.Hash]bool
	items   map[version]time.Time // when it came
	again   int                   // items that came in another entry, too
}

// A version of an item.
type version struct {
	id   feed.ID
	hash feed.Hash
}

// Filter makes a peer a filter from its next start on.
func (p *Peer) Filter() { p.filters = &filtering{} }

// anew begins a new life of a filter.
func (f *filtering) anew() {
	f.entries, f.items = map[owner.Hash]bool{}, map[version]time.Time{}
}

func (r reader) Dispatched(d firehose.Dispatch) bool {
	s, f := r.p.swarm, r.p.filters
	if f.entries[d.Entry.Hash] {
		s.violated(DispatchedTwice, "host %d got entry %v of %s again", r.p.Index(), d.Entry.At, d.URL)
	}
	f.entries[d.Entry.Hash] = true
	delta, err := difference.Decode(d.Body)
	if err != nil {
		panic("sim: an entry that cannot be read: " + err.Error())
	}
	for _, c := range delta.Changes {
		v := version{c.Item.ID, c.Item.Hash}
		if _, had := f.items[v]; had {
			f.again++
			continue
		}
		f.items[v] = s.Now()
	}
	return true
}

// FilterStats say how new items came to filters.
type FilterStats struct {
	Filters  int             // that were up all the time
	Wanted   int             // pairs of a filter and an item
	Got      int             // of these
	Again    int             // items that came in a second entry
	Delays   []time.Duration // from when the first reader was shown an item, unordered
	Firehose firehose.Stats  // of all nodes
}

// CheckFilters looks what came of the items that any reader was shown for the first time
// within a time to the filters that were up since before it. It says a violation for each that
// is missing.
func (s *Swarm) CheckFilters(since, until time.Time) (st FilterStats) {
	type shown struct {
		url string
		at  time.Time
	}
	items := map[version]shown{}
	for _, p := range s.members {
		for url, r := range p.reads {
			for id, at := range r.at {
				for hash := range r.got[id] {
					v := version{id, hash}
					if had, ok := items[v]; !ok || at.Before(had.at) {
						items[v] = shown{url, at}
					}
				}
			}
		}
	}
	maps.DeleteFunc(items, func(_ version, i shown) bool { return i.at.Before(since) || !i.at.Before(until) })
	for _, p := range s.members {
		if p.Up() {
			f := p.node.Firehose.Stats()
			st.Firehose.Add(f)
		}
		if p.filters == nil || !p.Up() || p.up.After(since) {
			continue
		}
		st.Filters++
		st.Again += p.filters.again
		for v, i := range items {
			st.Wanted++
			came, ok := p.filters.items[v]
			if !ok {
				s.violated(NotDispatched, "host %d did not get an item of %s", p.Index(), i.url)
				continue
			}
			st.Got++
			st.Delays = append(st.Delays, max(came.Sub(i.at), 0))
		}
	}
	return st
}

// Whispered is how many bytes of topics were sent, by all hosts.
func (s *Swarm) Whispered() (bytes uint64) {
	for _, h := range s.Hosts() {
		bytes += h.Stats().Whispered.Bytes
	}
	return bytes
}
