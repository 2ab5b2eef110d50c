package overlay

// maxInFlight bounds the node's own messages that no next hop has taken over yet. Further
// messages are queued. A node that restarts with a few thousand feeds has three messages for
// each: all at once would overload the next hop, whose acknowledgements would come too late,
// so that all messages would be sent again and again.
const maxInFlight = 256

// enqueue queues one of the node's own messages, and sends it at once if there is room.
func (rt *router) enqueue(rs *routeState) {
	rs.queued = true
	rt.sendQueue = append(rt.sendQueue, rs)
	rt.drainQueue()
	if rs.queued {
		rs.retryAt = rs.deadline // the retry then ends the message
		rt.at(rs.retryAt, task{kind: taskRetry, n: rs.id})
	}
}

// drainQueue sends queued messages while there is room.
func (rt *router) drainQueue() {
	if rt.drainingQueue {
		return // called from the loop below, because a message arrived at once and made room
	}
	rt.drainingQueue = true
	for len(rt.sendQueue) > 0 && rt.inFlight < maxInFlight {
		rs := rt.sendQueue[0]
		rt.sendQueue[0] = nil
		rt.sendQueue = rt.sendQueue[1:]
		if !rs.queued {
			continue // its deadline has passed
		}
		rs.queued, rs.inFlight = false, true
		rt.inFlight++
		rs.startedAt = rt.clock.Now()
		rt.scheduleRetry(rs, firstRetry)
		if rs.repeats >= lookUpFrom {
			rt.lookUp(rs) // this payload went two ways already
		} else {
			rt.forward(rs)
		}
	}
	rt.drainingQueue = false
}

// endFlight makes room for another message, because the next hop has taken this one over or
// none has in time.
func (rt *router) endFlight(rs *routeState) {
	if rs.inFlight {
		rs.inFlight = false
		rt.inFlight--
		rt.drainQueue()
	}
}
