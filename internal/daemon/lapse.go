package daemon

import (
	"context"
	"time"
)

const (
	// lapseAge is how long a subscription made by reading lives without being read.
	lapseAge = 30 * 24 * time.Hour
	// lapseCheckInterval is the time between two checks for lapsed subscriptions, and the minimum time
	// between two writes of the time at which one was read. It is also how long a tentative subscription
	// lives if nothing is accepted.
	lapseCheckInterval = time.Hour
)

// Version returns a number that changes with the result of Read; see proxy.Subscriptions. It also notes that
// the feed is being read, which keeps the subscription from lapsing.
func (s *subscriptions) Version(url string) (version uint64, ok bool) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.lookup(url)
	if r == nil {
		return 0, false
	}
	if r.attributes.Auto && now.Sub(r.lastRead()) > lapseCheckInterval {
		r.readAt = now.Unix()
		s.loop.Deliver(func() {
			s.enqueue(url, func(r *subscription, done func(error)) {
				if !r.subscribed || !r.attributes.Auto { // it was ended or requested by the user since
					done(nil)
					return
				}
				a := r.attributes
				a.LastRead = now.Unix()
				s.write(r, a, r.weight, done)
			}, func(error) {})
		})
	}
	return minuteVersion(r.version, now), true
}

// lastRead returns when a feed that may lapse was last read, up to lapseCheckInterval late.
func (r *subscription) lastRead() time.Time {
	return time.Unix(max(r.attributes.LastRead, r.readAt), 0)
}

// runLapses ends lapsed subscriptions until ctx ends.
func (s *subscriptions) runLapses(ctx context.Context) {
	tick := time.NewTicker(lapseCheckInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		s.endLapsed(ctx, time.Now())
	}
}

// endLapsed ends the subscriptions that have lapsed by now: those made by reading that were not read for
// lapseAge, and old tentative ones. Reading such a feed subscribes again.
func (s *subscriptions) endLapsed(ctx context.Context, now time.Time) {
	if !s.hasJoined() {
		return
	}
	lapsed := func(r *subscription) bool {
		age := now.Sub(r.lastRead())
		return r.attributes.Auto && age > lapseAge || r.attributes.Tentative && age > lapseCheckInterval
	}
	var urls []string
	s.mu.Lock()
	for _, r := range s.byKey {
		if lapsed(r) {
			urls = append(urls, r.url)
		}
	}
	s.mu.Unlock()
	for _, url := range urls {
		err := s.unsubscribe(ctx, url, func(r *subscription) bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return lapsed(r) // it may have been read, or requested by the user, since
		})
		if err == nil {
			s.log.Info("subscription lapsed, because nobody read it for 30 days, or nothing could be published", "url", url)
		}
	}
}
