package overlay

// maxInFlight bounds the node's own messages that no next hop has taken over yet. Further
// messages are queued. A node that restarts with a few thousand feeds has three messages for
// each: all at once would overload the next hop, whose acknowledgements would come too late,
// so that all messages would be sent again and again.
const maxInFlight = 256

// enqueue queues one of the node's own messages, and sends it at once if there is room.
func (n *Node) enqueue(rs *routeState) {
	rs.queued = true
	n.sendQueue = append(n.sendQueue, rs)
	n.drainQueue()
	if rs.queued {
		rs.retryAt = rs.deadline // the retry then ends the message
		n.at(rs.retryAt, task{kind: taskRetry, n: rs.id})
	}
}

// drainQueue sends queued messages while there is room.
func (n *Node) drainQueue() {
	if n.drainingQueue {
		return // called from the loop below, because a message arrived at once and made room
	}
	n.drainingQueue = true
	for len(n.sendQueue) > 0 && n.inFlight < maxInFlight {
		rs := n.sendQueue[0]
		n.sendQueue[0] = nil
		n.sendQueue = n.sendQueue[1:]
		if !rs.queued {
			continue // its deadline has passed
		}
		rs.queued, rs.inFlight = false, true
		n.inFlight++
		rs.startedAt = n.clock.Now()
		n.scheduleRetry(rs, firstRetry)
		n.forward(rs)
	}
	n.drainingQueue = false
}

// endFlight makes room for another message, because the next hop has taken this one over or
// none has in time.
func (n *Node) endFlight(rs *routeState) {
	if rs.inFlight {
		rs.inFlight = false
		n.inFlight--
		n.drainQueue()
	}
}
