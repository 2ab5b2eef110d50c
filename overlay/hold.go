package overlay

import (
	"slices"
	"time"
)

// hold keeps a message until the node is active or learns more about a slot.
func (n *Node) hold(rs *routeState) {
	if rs.held {
		return
	}
	if len(n.held) >= maxHeld {
		n.dropRoute(rs)
		return
	}
	rs.held = true
	n.held = append(n.held, rs)
	rs.next, rs.ackDue = nil, n.clock.Now().Add(holdLimit)
	n.at(rs.ackDue, task{kind: taskHoldExpired, n: rs.id})
}

// holdExpired forwards a message that has waited long enough.
func (n *Node) holdExpired(rs *routeState, at time.Time) {
	if rs == nil || !rs.held || !rs.ackDue.Equal(at) {
		return
	}
	n.unhold(rs)
	if n.clock.Now().Sub(rs.startedAt) <= hopLimit {
		n.forward(rs)
	} else {
		n.dropRoute(rs)
	}
}

func (n *Node) unhold(rs *routeState) {
	if rs.held {
		rs.held, rs.ackDue = false, time.Time{}
		n.held = slices.DeleteFunc(n.held, func(h *routeState) bool { return h == rs })
	}
}

// release forwards all messages that waited.
func (n *Node) release() {
	held := n.held
	n.held = nil
	for _, rs := range held {
		if rs.held {
			rs.held, rs.ackDue = false, time.Time{}
			n.forward(rs)
		}
	}
}
