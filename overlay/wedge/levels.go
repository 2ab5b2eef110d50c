package wedge

// Polling levels are the paper's own form of wedges (Corona, §3.2, §3.4). A wedge of level l
// consists of all members that share l digits with the key. There are no ranks: each member draws
// its own phase, and decides for the members behind it.
//
// At first the leader, which is nearest to the key, is alone. A node that lowers its level by one
// asks the other halves of all bits of that digit, that is the members that share one digit less
// with the key. A node that was asked from nearer to the key asks all of the half it acts for, and
// decides itself whether to go one level further. So several nodes ask for the same half; a member
// keeps the first parent as long as that one is alive.
//
// Lost, repeated or late messages cannot form a cycle of edges, because an edge leads to a member
// that shares less with the key, or deeper into a half.

// sharedDigits returns how many digits the node shares with an order's key.
func (tr *tree) sharedDigits(o *order) uint8 {
	return uint8(min(tr.node.ID().Common(o.key)/int(o.digitBits), maxLevel))
}

// maxLevel is the highest level that is distinguished, so that a level fits into a byte. Two
// members never share that many digits.
const maxLevel = 254

// leaderOnlyLevel is the level at which the leader asks nobody.
func (tr *tree) leaderOnlyLevel(r *membership) uint8 { return tr.sharedDigits(r.order) + 1 }

// decidesLevel says whether the node chooses the level for the members behind it: it leads, or its
// parent is nearer to the key.
func (tr *tree) decidesLevel(r *membership) bool {
	if r.flags&leads != 0 {
		return true
	}
	return r.parent != noLink && tr.links.at(r.parent).contact.ID.Common(r.order.key)/int(r.order.digitBits) > int(tr.sharedDigits(r.order))
}

// adjustLevel moves the level one step towards what the application wants, and says whether it
// changed.
func (tr *tree) adjustLevel(r *membership) bool {
	if !tr.decidesLevel(r) || r.flags&inGrace != 0 {
		return false
	}
	highest := tr.sharedDigits(r.order)
	if r.flags&leads != 0 {
		highest = tr.leaderOnlyLevel(r)
	}
	want := uint8(min(max(tr.app.Level(r.order.key), 0), int(highest)))
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

// walkLevels asks the halves that follow from the membership's level, and from the part of the
// network that the node acts for.
func (tr *tree) walkLevels(r *membership, detail orderDetail) {
	digits := int(tr.sharedDigits(r.order))
	least, below := int(r.level)*int(r.order.digitBits), digits*int(r.order.digitBits)
	switch {
	case r.flags&leads != 0 && int(r.level) > digits:
		least, below = 0, 0
	case r.flags&leads != 0:
		below = maxDepth
	case !tr.decidesLevel(r):
		below = least
	}
	edges := tr.scratch[:0]
	for d := 0; tr.count(d) > 1; d++ {
		if (d < least || d >= below) && d < int(r.depth) || tr.count(d) == tr.count(d+1) {
			continue
		}
		e := edge{ranks: 1, depth: uint16(d)}
		if old := r.edgeAt(d); old != nil {
			e.link, e.flags = old.link, old.flagsForRetry()
		}
		edges = append(edges, e)
	}
	tr.replaceEdges(r, edges, detail)
}

// lost says whether the overlay reported the peer dead.
func (l *link) lost() bool { return l != nil && l.dead }
