package overlay

import (
	"slices"
	"time"
)

// hold keeps a message until the node is active, or knows more.
func (n *Node) hold(w *passage) {
	if w.waiting {
		return
	}
	if len(n.held) >= maxHeld {
		n.lose(w)
		return
	}
	w.waiting = true
	n.held = append(n.held, w)
	w.next, w.due = nil, n.clock.Now().Add(holdLimit)
	n.at(w.due, task{kind: taskHeld, n: w.id})
}

// heldLong passes on a message that has waited long enough.
func (n *Node) heldLong(w *passage, at time.Time) {
	if w == nil || !w.waiting || !w.due.Equal(at) {
		return
	}
	n.unhold(w)
	if n.clock.Now().Sub(w.since) <= hopLimit {
		n.pass(w)
	} else {
		n.lose(w)
	}
}

func (n *Node) unhold(w *passage) {
	if w.waiting {
		w.waiting, w.due = false, time.Time{}
		n.held = slices.DeleteFunc(n.held, func(h *passage) bool { return h == w })
	}
}

// release passes on what waited.
func (n *Node) release() {
	held := n.held
	n.held = nil
	for _, w := range held {
		if w.waiting {
			w.waiting, w.due = false, time.Time{}
			n.pass(w)
		}
	}
}
