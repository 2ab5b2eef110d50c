package scribe

import (
	"math/rand/v2"
	"time"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/scribe/scribepb"
)

// base are what every component of a Scribe needs of the world.
type base struct {
	cfg   Config
	clock env.Clock
	net   env.Network
	rand  *rand.Rand
	node  *overlay.Node
	cal   env.Calendar[task]
	stats Stats
}

// A task is an entry of the calendar. Its group or link may be gone when it is due, and its number
// in use by another one.
type task struct {
	kind   taskKind
	number uint32 // of the group, or link
}

type taskKind uint8

const (
	taskJoinRetry        taskKind = iota // a Join was not answered in time
	taskAskWeights                       // children that joined along the route should have told their weights
	taskPushCheck                        // a child that was asked to move should have done so
	taskPushDown                         // there are more children than the fan-out
	taskHeartbeat                        // renew the edges of a link
	taskHeartbeatTimeout                 // a heartbeat was not answered in time
	taskFlush                            // send acknowledgements and weights
	taskOutbox                           // send the entries of the outbox
	taskResend                           // a Multicast was not acknowledged in time
	taskCheckLink                        // a lease may be over, or a link without edges
	taskSweep                            // drop expired messages and unused groups
)

func (b *base) now() env.Moment { return env.MomentOf(b.clock.Now()) }

func (b *base) schedule(in time.Duration, t task) { b.cal.Add(b.clock.Now().Add(in), t) }

// send sends a control message, which has no payload.
func (b *base) send(to env.Peer, m *scribepb.Message) {
	b.stats.Control++
	b.net.Send(to, env.Control, wire.AppendFrame(nil, wire.Scribe, m))
}
