package owner

// Held is what a node holds beside its logs: bytes that pulls under way have brought, keys
// that others have listed, drafts remembered as void, bodies on their way to the last owners,
// and bodies at hand, with their places in line.
type Retained struct{ Pulled, Listed, Abandoned, Lagging, Bodies, CacheOrder int }

func (o *Owners) Retained() (h Retained) {
	h.Pulled, h.Bodies, h.CacheOrder = o.pulledBytes, len(o.bodies.byEntry), len(o.bodies.order)
	for _, l := range o.listed {
		h.Listed += len(l)
	}
	for _, s := range o.replicas {
		h.Abandoned += len(s.abandoned)
		if s.leader != nil && s.leader.lagging != nil {
			h.Lagging++
		}
	}
	return h
}
