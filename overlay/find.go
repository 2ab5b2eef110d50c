package overlay

import (
	"slices"
	"tidings/overlay/overlaypb"
)

// onFind answers with members near the key, if the node is one.
func (ls *lookups) onFind(p *peer, m *overlaypb.Find) {
	key := ID(m.Key)
	r := &overlaypb.Nearby{Nonce: m.Nonce, Depth: uint32(ls.leaf.Depth()), Decided: ls.leaf.decided}
	if ls.state == Active {
		r.Covers = ls.leaf.Covers(key)
		contacts := []*Contact{ls.self}
		switch {
		case m.Limit > 0:
			contacts = ls.nearestKnown(key, int(m.Limit))
		case r.Covers:
			contacts = slices.Clone(ls.leaf.Members())
		default:
			contacts = append(contacts, ls.nearestKnown(key, 4)...)
		}
		row := ls.self.ID.Common(key) / 4
		ls.table.each(ls.leaf.Depth(), func(at, _ int, s *slot) {
			if m.Rows && at <= row && s.contact != nil {
				contacts = append(contacts, s.contact.contact)
			}
		})
		contacts = slices.DeleteFunc(contacts, func(c *Contact) bool { return p.contact != nil && c.ID == p.contact.ID })
		r.Records = rawRecords(contacts)
	} else {
		r.Records = rawRecords(ls.Hosts()) // a client names the members that act for it, so that others can join through it
	}
	ls.send(p, &overlaypb.Message{Body: &overlaypb.Message_Nearby{Nearby: r}})
}
