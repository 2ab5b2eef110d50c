package overlay

import (
	"hash/fnv"
	"slices"
	"time"
)

// routeStates holds the routed messages that a node remembers.
type routeStates struct {
	byID         map[uint64]*routeState
	own          map[uint64]*routeState // the node's own messages, the last with each digest
	expiries     []routeExpiry          // in the order of their time
	expired      int                    // number of leading entries of expiries that are done with
	payloadBytes int                    // total size of the payloads kept
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
			r.forget(rs)
		}
		r.expired++
	}
	if r.expired > len(r.expiries)/2 {
		r.expiries = slices.Delete(r.expiries, 0, r.expired)
		r.expired = 0
	}
}

func (r *routeStates) forget(rs *routeState) {
	r.dropPayload(rs)
	delete(r.byID, rs.id)
	if r.own[rs.digest] == rs {
		delete(r.own, rs.digest)
	}
}

// forgetUnsent forgets a message that no other node knows. Mostly it is the latest one, and needs no expiry either.
func (r *routeStates) forgetUnsent(rs *routeState) {
	r.forget(rs)
	if last := len(r.expiries) - 1; last >= r.expired && r.expiries[last].id == rs.id {
		r.expiries = r.expiries[:last]
	}
}

// noteOwn notes one of the node's own messages. If it has sent the same payload to the same key lately, the message avoids the
// next hops that the payload has gone to.
func (r *routeStates) noteOwn(rs *routeState) {
	h := fnv.New64a()
	h.Write([]byte{byte(rs.msg.Layer)})
	h.Write(rs.msg.Key[:])
	h.Write(rs.msg.Payload)
	rs.digest = h.Sum64()
	if before := r.own[rs.digest]; before != nil {
		rs.avoid, rs.repeats = slices.Clone(before.avoid), before.repeats+1
		if last := before.next; last != nil && !slices.Contains(rs.avoid, last) {
			rs.avoid = append(rs.avoid, last)
		}
	}
	r.own[rs.digest] = rs
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
