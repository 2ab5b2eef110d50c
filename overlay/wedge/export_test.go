package wedge

import "fmt"

// Check compares the digests of all links with the edges, and the reports of children with the
// children.
func (w *Wedge) Check() error {
	up, down := map[*link]edgeSet{}, map[*link]edgeSet{}
	kept := 0
	i := -1
	for r := range w.table.all() {
		i++
		if r.extra != nil {
			kept += len(r.extra.lastBroadcast)
			for _, b := range r.extra.declinedBelow {
				if l := w.links.at(b.link); l == nil || r.edgeTo(l) == nil {
					return fmt.Errorf("membership %d has a report of a node that is not its child", i)
				}
			}
		}
		if int(r.index) != i || w.table.byKey(shortKey(r.order.key)) != r || r.flags&(changing|removed) != 0 {
			return fmt.Errorf("membership %d has wrong indices or flags", i)
		}
		if l := w.links.at(r.parent); l != nil {
			e := up[l]
			e.count++
			e.digest ^= r.parentEdgeHash()
			up[l] = e
		}
		for j := range r.edges {
			e := &r.edges[j]
			if l := w.links.at(e.link); l != nil {
				d := down[l]
				d.count++
				d.digest ^= r.childEdgeHash(e)
				down[l] = d
			}
		}
	}
	for id, l := range w.links.byPeer {
		u, d := up[l], down[l]
		if l.up.count != u.count || l.childOf != int(u.count) || l.up.digest != u.digest || l.down.count != d.count || l.down.digest != d.digest {
			return fmt.Errorf("link to %x: %d up and %d down, not %d and %d", id, l.up.count, l.down.count, u.count, d.count)
		}
		delete(up, l)
		delete(down, l)
	}
	if kept != w.broadcasts.relayedBytes {
		return fmt.Errorf("%d bytes of broadcasts are kept, %d counted", kept, w.broadcasts.relayedBytes)
	}
	if len(up)+len(down) > 0 {
		return fmt.Errorf("%d edges without a link", len(up)+len(down))
	}
	return nil
}
