package overlay

import (
	"slices"
	"time"

	"tidings/internal/plant"
)

// ways holds the messages that pass or passed.
type routeStates struct {
	byID         map[uint64]*routeState
	expiries     []routeExpiry // in the order of their end
	expired      int           // of old; what stands before it is forgotten
	payloadBytes int           // bytes of the payloads kept
}

type routeExpiry struct {
	id uint64
	at time.Time
}

// expire forgets what passed long ago.
func (r *routeStates) expire(now time.Time) {
	for r.expired < len(r.expiries) && !r.expiries[r.expired].at.After(now) {
		id := r.expiries[r.expired].id
		if rs := r.byID[id]; rs != nil {
			r.dropPayload(rs)
			if !plant.Hoard {
				delete(r.byID, id)
			}
		}
		r.expired++
	}
	if r.expired > len(r.expiries)/2 {
		r.expiries = slices.Delete(r.expiries, 0, r.expired)
		r.expired = 0
	}
}

// carry gives a passage the payload to carry, unload takes it away when nothing
// is left to do with it.
func (r *routeStates) setPayload(rs *routeState, payload []byte) {
	r.dropPayload(rs)
	rs.msg.Payload = payload
	r.payloadBytes += len(payload)
}

func (r *routeStates) dropPayload(rs *routeState) {
	r.payloadBytes -= len(rs.msg.Payload)
	rs.msg.Payload = nil
}
