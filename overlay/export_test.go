package overlay

// EachEntry calls f for every entry of the routing table, spares included.
func (n *Node) EachEntry(f func(row, col int, c *Contact)) {
	n.table.each(n.leaf.Depth(), func(row, col int, s *slot) {
		for _, p := range []*peer{s.contact, s.spare} {
			if p != nil {
				f(row, col, p.contact)
			}
		}
	})
}
