package corona

import (
	"strings"
	"time"

	"tidings/overlay"
)

// Requests and counters of a test network.

// honestHits returns the requests of honest members at a domain in some time, by address.
func (w *testNetwork) honestHits(from, to time.Time, domain string) map[string]int {
	of := map[string]int{}
	for _, x := range w.hits {
		if x.honest && !x.at.Before(from) && x.at.Before(to) && strings.Contains(x.url, domain) {
			of[x.url]++
		}
	}
	return of
}

// busiest is the largest number of requests of honest members to a domain in any ten minutes since
// a time.
func (w *testNetwork) busiest(since time.Time, domain string) (most int) {
	var at []time.Time
	for _, x := range w.hits {
		if !x.honest || x.at.Before(since) || !strings.Contains(x.url, domain) {
			continue
		}
		for at = append(at, x.at); x.at.Sub(at[0]) >= 10*time.Minute; {
			at = at[1:]
		}
		most = max(most, len(at))
	}
	return most
}

// steward is the member that leads a domain's key.
func (w *testNetwork) steward(domain string) *member {
	for _, h := range w.houses {
		if v, ok := h.owners.View(overlay.StewardKey(w.network.Name, domain)); ok && h.up && v.Leads {
			return h
		}
	}
	return nil
}

// stats adds up the counters of the honest members.
func (w *testNetwork) stats() (sum Stats) {
	for _, h := range w.houses {
		if h.liar {
			continue
		}
		st := h.Stats()
		sum.Skipped += st.Skipped
		sum.Solo += st.Solo
		sum.Forged += st.Forged
		sum.Expired += st.Expired
		sum.Replayed += st.Replayed
		sum.Granted += st.Granted
		sum.Short += st.Short
		sum.Denied += st.Denied
		sum.Misclaimed += st.Misclaimed
		sum.Garbage += st.Garbage
		sum.Audited += st.Audited
		sum.Overclaimed += st.Overclaimed
		sum.Unaudited += st.Unaudited
	}
	return sum
}
