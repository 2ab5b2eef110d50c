package owner

// Held is what a node holds beside its logs: bytes that pulls under way have brought, keys
// that others have listed, drafts remembered as void, bodies on their way to the last owners,
// and bodies at hand, with their places in line.
type Held struct{ Pulled, Listed, Void, Trailing, Bodies, Places int }

func (o *Owners) Beside() (h Held) {
	h.Pulled, h.Bodies, h.Places = o.pulling, len(o.cache.by), len(o.cache.order)
	for _, l := range o.lists {
		h.Listed += len(l)
	}
	for _, s := range o.seats {
		h.Void += len(s.void)
		if s.lead != nil && s.lead.trail != nil {
			h.Trailing++
		}
	}
	return h
}
