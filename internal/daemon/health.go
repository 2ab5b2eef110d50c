package daemon

import (
	"cmp"
	"context"
	"strings"
	"time"

	"tidings/corona/coronapb"
	"tidings/internal/news"
	"tidings/proxy"
)

// healthInterval is the time between two looks at the health of all feeds, unless feeds are polled more often. People are told
// of a feed that is gone, or of a key that has changed, that much later.
const healthInterval = 10 * time.Minute

// watchHealth records the health of what the node follows until ctx ends.
func (r *recorder) watchHealth(ctx context.Context, each func(context.Context, func(*proxy.Channel) error) error) {
	look := time.NewTicker(min(healthInterval, r.network.PollInterval))
	defer look.Stop()
	for {
		select {
		case <-look.C:
		case <-ctx.Done():
			return
		}
		if err := each(ctx, r.recordHealth); err != nil && ctx.Err() == nil {
			r.log.Warn("the health of feeds cannot be recorded, next try later", "err", err)
		}
	}
}

// recordHealth records the health of a feed, if anything is known of it.
func (r *recorder) recordHealth(c *proxy.Channel) error {
	if c.State == proxy.StateNew {
		return nil
	}
	_, err := r.journal.RecordHealth(news.Source{URL: c.URL, Title: c.Title}, healthOf(c))
	return err
}

// healthOf returns the health of a feed as people are told of it. What is wrong with the node itself, or with its contact to the
// network, is no matter of the feed: readers still get what the node finds.
func healthOf(c *proxy.Channel) news.Health {
	h := news.Health{Moved: c.Moved, Key: c.Publisher, KeyText: c.KeyChange, Do: c.Do}
	switch c.State {
	case proxy.StateOK, proxy.StateUnsaved, proxy.StateCutOff:
		return h
	case stateKeyChanged:
		h.Doubt, h.KeyText = cmp.Or(c.ClaimedKey, c.Publisher), c.Error // without a claim, the web server names another key
		return h
	}
	h.Failing, h.Gone = cmp.Or(c.Error, c.State), c.State == kindName(coronapb.State_GONE)
	if !strings.Contains(h.Failing, c.State) {
		h.Failing = c.State + ": " + h.Failing
	}
	if c.Since != nil {
		h.Since = *c.Since
	}
	return h
}
