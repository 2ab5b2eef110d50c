package overlay

// maxAbroad bounds the messages of the node's own that no next hop has taken over
// yet; further ones wait in line. A node that starts anew with some thousand feeds has
// three messages for each: all at once they would overrun the next hop, whose
// acknowledgements would come too late, and all would be sent again and again.
const maxAbroad = 256

// lineUp gives an own message its turn, which comes at once if there is room.
func (n *Node) lineUp(w *passage) {
	w.inLine = true
	n.line = append(n.line, w)
	n.nextInLine()
	if w.inLine {
		w.retryAt = w.deadline // which ends it
		n.at(w.retryAt, task{kind: taskRetry, n: w.id})
	}
}

// nextInLine sends own messages that have waited, as far as there is room.
func (n *Node) nextInLine() {
	if n.lining {
		return // what is sent may arrive at once, and make room
	}
	n.lining = true
	for len(n.line) > 0 && n.abroad < maxAbroad {
		w := n.line[0]
		n.line[0] = nil
		n.line = n.line[1:]
		if !w.inLine {
			continue // its deadline has passed
		}
		w.inLine, w.abroad = false, true
		n.abroad++
		w.since = n.clock.Now()
		n.planRetry(w, retryFirst)
		n.pass(w)
	}
	n.lining = false
}

// makeRoom makes room for another own message: the next hop has taken this one over, or
// nobody has in good time.
func (n *Node) makeRoom(w *passage) {
	if w.abroad {
		w.abroad = false
		n.abroad--
		n.nextInLine()
	}
}
