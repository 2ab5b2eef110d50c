package node

import (
	"time"

	"tidings/corona"
	"tidings/corona/coronapb"
	"tidings/internal/env"
	"tidings/internal/feed"
)

// crawlRules let the crawler of a hosting centre poll as politely as corona does.
type crawlRules struct{ corona.Rules }

func (r crawlRules) Read(address string, a env.Answer) (*feed.Feed, error) {
	return corona.ReadFeed(address, a)
}

func (r crawlRules) Next(address string, a env.Answer, f *feed.Feed, err error, fails int) (wait time.Duration, ok bool) {
	if a.Err == env.ErrBusy { // the origin was not asked
		return max(a.RetryAfter, r.PollInterval/10), false
	}
	hints := feed.Hints{}
	if f != nil {
		hints = f.Hints
	}
	interval, _ := r.Interval(a.Private, hints, a.MaxAge, 0)
	state := corona.Classify(a, f, err)
	if state.Kind == coronapb.State_OK {
		return interval, true
	}
	domain, _ := corona.Origin(address)
	b := r.BackOff(state, a, fails+1, interval, a.Private, domain)
	return max(b.Wait, b.LimitDomain), false
}

func (r crawlRules) Advertised(a env.Answer) (feeds []string) {
	for _, l := range corona.Advertised(a) {
		if !l.Comments {
			feeds = append(feeds, l.URL)
		}
	}
	return feeds
}

func (r crawlRules) Site(address string) string {
	domain, _ := corona.Origin(address)
	return domain
}
