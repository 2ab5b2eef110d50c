package overlay

import (
	"slices"
	"time"
)

// hold keeps a message until the node is active or learns more about a slot.
func (rt *router) hold(rs *routeState) {
	if rs.held {
		return
	}
	if len(rt.held) >= maxHeld {
		rt.drop(rs)
		return
	}
	rs.held = true
	rt.held = append(rt.held, rs)
	rs.next, rs.ackDue = nil, rt.clock.Now().Add(holdLimit)
	rt.at(rs.ackDue, task{kind: taskHoldExpired, n: rs.id})
}

// holdExpired forwards a message that has waited long enough.
func (rt *router) holdExpired(rs *routeState, at time.Time) {
	if rs == nil || !rs.held || !rs.ackDue.Equal(at) {
		return
	}
	rt.unhold(rs)
	if rt.clock.Now().Sub(rs.startedAt) <= hopLimit {
		rt.forward(rs)
	} else {
		rt.drop(rs)
	}
}

func (rt *router) unhold(rs *routeState) {
	if rs.held {
		rs.held, rs.ackDue = false, time.Time{}
		rt.held = slices.DeleteFunc(rt.held, func(h *routeState) bool { return h == rs })
	}
}

// release forwards all messages that waited.
func (rt *router) release() {
	held := rt.held
	rt.held = nil
	for _, rs := range held {
		if rs.held {
			rs.held, rs.ackDue = false, time.Time{}
			rt.forward(rs)
		}
	}
}
