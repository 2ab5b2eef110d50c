package owner

import "time"

// Retained counts what a node holds in memory besides its logs: bytes of pulls under way, keys listed by
// sequencers, own proposals given up, committed entries on their way to the last owners, and cached bodies with
// their places in the cache's order.
type Retained struct{ Pulled, Listed, Abandoned, Lagging, Bodies, CacheOrder int }

func (o *Owners) Retained() (h Retained) {
	h.Pulled, h.Bodies, h.CacheOrder = o.puller.bytes, len(o.bodies.byEntry), len(o.bodies.order)
	for _, l := range o.keeper.listed {
		h.Listed += len(l)
	}
	for _, s := range o.replicas.byKey {
		h.Abandoned += len(s.campaign.abandoned)
		if s.leader != nil && s.leader.lagging != nil {
			h.Lagging++
		}
	}
	return h
}

// AskedAt returns when a Tracker asked last.
func (t *Tracker) AskedAt() time.Time { return t.askedAt }
