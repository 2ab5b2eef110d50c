package overlay

// maxAbroad bounds the messages of the node's own that no next hop has taken over
// yet; further ones wait in line. A node that starts anew with some thousand feeds has
// three messages for each: all at once they would overrun the next hop, whose
// acknowledgements would come too late, and all would be sent again and again.
const maxInFlight = 256

// lineUp gives an own message its turn, which comes at once if there is room.
func (n *Node) enqueue(rs *routeState) {
	rs.queued = true
	n.sendQueue = append(n.sendQueue, rs)
	n.drainQueue()
	if rs.queued {
		rs.retryAt = rs.deadline // which ends it
		n.at(rs.retryAt, task{kind: taskRetry, n: rs.id})
	}
}

// nextInLine sends own messages that have waited, as far as there is room.
func (n *Node) drainQueue() {
	if n.drainingQueue {
		return // what is sent may arrive at once, and make room
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

// makeRoom makes room for another own message: the next hop has taken this one over, or
// nobody has in good time.
func (n *Node) leaveFlight(rs *routeState) {
	if rs.inFlight {
		rs.inFlight = false
		n.inFlight--
		n.drainQueue()
	}
}
