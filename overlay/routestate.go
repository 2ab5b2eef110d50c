package overlay

import (
	"slices"
	"time"
)

// routeStates holds the routed messages that a node remembers.
type routeStates struct {
	byID         map[uint64]*routeState
	expiries     []routeExpiry // in the order of their time
	expired      int           // number of leading entries of expiries that are done with
	payloadBytes int           // total size of the payloads kept
}

type routeExpiry struct {
	id uint64
	at time.Time
}

// expire forgets messages whose time is over.
func (r *routeStates) expire(now time.Time) {
	for r.expired < len(r.expiries) && !r.expiries[r.expired].at.After(now) {
		id := r.expiries[r.expired].id
		if rs := r.byID[id]; rs != nil {
			r.dropPayload(rs)
			delete(r.byID, id)
		}
		r.expired++
	}
	if r.expired > len(r.expiries)/2 {
		r.expiries = slices.Delete(r.expiries, 0, r.expired)
		r.expired = 0
	}
}

// setPayload stores the payload of a message, and dropPayload frees it when it is no longer
// needed.
func (r *routeStates) setPayload(rs *routeState, payload []byte) {
	r.dropPayload(rs)
	rs.msg.Payload = payload
	r.payloadBytes += len(payload)
}

func (r *routeStates) dropPayload(rs *routeState) {
	r.payloadBytes -= len(rs.msg.Payload)
	rs.msg.Payload = nil
}
