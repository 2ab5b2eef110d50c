package corona

import (
	"slices"

	"tidings/internal/feed"
)

// Partial documents (RFC 3229). A poller asks for the changes of a feed since the document that the log holds completely,
// and completes the answer by the fingerprints of that document. So its report names all items, and nothing is taken for
// missing. The sequencer takes the items that the log lacks, and no more (takeHanded): neither the head nor the validators,
// so that it fetches the document itself. Nodes that conclude something from what a document lacks ask for whole documents.

// needsWhole says whether this node concludes something from what the document of a channel lacks: an owner vouches for what
// it has seen, a sequencer finds what was withdrawn, and a lone poll compares the document with what its readers have.
func (po *poller) needsWhole(d *assignment) bool {
	return d.led || po.cfg.Witnesses && po.app.Owns(d.key()) || po.lonePolls.byKey[d.key()] != nil
}

// complete adds to a partial document the items of the document whose changes it has, as far as their fingerprints tell
// them. New items come first.
func (r *observation) complete(since []fingerprint) {
	changed := map[[16]byte]feed.Item{}
	for _, it := range r.f.Items {
		changed[[16]byte(it.ID[:16])] = it
	}
	var before []feed.Item
	for _, p := range since {
		it, ok := changed[p.id]
		if !ok {
			it = p.bare()
		}
		before = append(before, it)
		delete(changed, p.id)
	}
	r.f.Items = slices.DeleteFunc(r.f.Items, func(it feed.Item) bool {
		_, isNew := changed[[16]byte(it.ID[:16])]
		return !isNew
	})
	r.f.Items = append(r.f.Items, before...)
	r.f.Items = r.f.Items[:min(len(r.f.Items), feed.MaxItems)]
}
