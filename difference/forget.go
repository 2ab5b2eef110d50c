package difference

// Forget drops the entries that deltas before first brought: the log that the
// window is made of keeps them no longer. References must have been given in
// rising order.
func (w *Window) Forget(first uint64) {
	if w.head < first {
		w.head = 0
	}
	for link := &w.first; *link != nil; {
		if p := *link; p.Ref < first {
			delete(w.byID, p.ID)
			*link = p.next
		} else {
			link = &p.next
		}
	}
}
