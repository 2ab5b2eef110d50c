package wedge

// The paper's own form: polling levels (Corona, §3.2, §3.4). A wedge of level l is all
// members that have l digits in common with the key. There are no ranks, each member draws
// its own phase, and each decides for those behind it.
//
// The leader, nearest to the key, is alone at first. A node that lowers its level by one
// asks the other halves of all bits of that digit: the members that have one digit less
// in common with the key. Who is asked from nearer to the key asks all of the half it
// stands for, and decides for itself whether to go a level further. So several ask for the
// same half; a member stays with the parent that came first as long as that one does.
//
// Whatever is lost, repeated or late, edges form no cycle: they lead to members with less
// in common with the key, or deeper into a half.

// digits is how many digits the node has in common with an order's key.
func (w *Wedge) sharedDigits(o *order) uint8 {
	return uint8(min(w.self.Common(o.key)/int(o.digitBits), maxLevel))
}

// maxLevel is the highest level that is told apart from others: below it there are no
// networks with two members.
const maxLevel = 254

// alone is the level at which the leader asks nobody.
func (w *Wedge) leaderOnlyLevel(r *membership) uint8 { return w.sharedDigits(r.order) + 1 }

// decides says whether the node decides for others: it leads, or its parent is nearer to
// the key.
func (w *Wedge) decidesLevel(r *membership) bool {
	if r.flags&leads != 0 {
		return true
	}
	return r.parent != noLink && w.linkAt(r.parent).contact.ID.Common(r.order.key)/int(r.order.digitBits) > int(w.sharedDigits(r.order))
}

// relevel brings the level a step nearer to what the application wants, and says whether
// it was another.
func (w *Wedge) adjustLevel(r *membership) bool {
	if !w.decidesLevel(r) || r.flags&inGrace != 0 {
		return false
	}
	highest := w.sharedDigits(r.order)
	if r.flags&leads != 0 {
		highest = w.leaderOnlyLevel(r)
	}
	want := uint8(min(max(w.app.Level(r.order.key), 0), int(highest)))
	switch {
	case want < r.level:
		r.level--
	case want > r.level:
		r.level++
	default:
		return false
	}
	return true
}

// Relevel brings the levels of all wedges in which this node decides for others a step nearer
// to what the application wants by now, as each maintenance interval does.
func (w *Wedge) AdjustLevels() {
	for r := range w.all() {
		if r.order.digitBits != 0 && w.adjustLevel(r) {
			w.walk(r, hashOnly, false)
		}
	}
	w.finishChanges() // lest a link look as if it had no edges
}

// reach asks the halves that a record's level, and the part of the network that the node
// stands for, call for.
func (w *Wedge) walkLevels(r *membership, detail orderDetail) {
	digits := int(w.sharedDigits(r.order))
	least, below := int(r.level)*int(r.order.digitBits), digits*int(r.order.digitBits)
	switch {
	case r.flags&leads != 0 && int(r.level) > digits:
		least, below = 0, 0
	case r.flags&leads != 0:
		below = maxDepth
	case !w.decidesLevel(r):
		below = least
	}
	edges := w.scratch[:0]
	for d := 0; w.count(d) > 1; d++ {
		if (d < least || d >= below) && d < int(r.depth) || w.count(d) == w.count(d+1) {
			continue
		}
		e := edge{ranks: 1, depth: uint16(d)}
		if old := r.edgeAt(d); old != nil {
			e.link, e.flags = old.link, old.flagsForRetry()
		}
		edges = append(edges, e)
	}
	w.replaceEdges(r, edges, detail)
}

// lost says that a peer is held to be dead.
func (l *link) lost() bool { return l != nil && l.dead }
