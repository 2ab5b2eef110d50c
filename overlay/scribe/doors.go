package scribe

import (
	"math/rand/v2"
	"time"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/scribe/scribepb"
)

// doors are what every component of a Scribe needs of the world.
type doors struct {
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

func (d *doors) now() moment { return momentOf(d.clock.Now()) }

func (d *doors) schedule(in time.Duration, t task) { d.cal.Add(d.clock.Now().Add(in), t) }

// jitter returns a random duration between 3/4 and 5/4 of a given one.
func (d *doors) jitter(of time.Duration) time.Duration {
	return of*3/4 + time.Duration(d.rand.Int64N(int64(of)/2+1))
}

// sendControl sends a message without a payload.
func (d *doors) send(to env.Peer, m *scribepb.Message) {
	d.stats.Control++
	d.net.Send(to, env.Control, wire.AppendFrame(nil, wire.Scribe, m))
}

// A moment is a time in nanoseconds of Unix time, a third of the size of time.Time.
type moment int64

const never moment = 0

func momentOf(t time.Time) moment { return moment(t.UnixNano()) }

func (m moment) sub(earlier moment) time.Duration { return time.Duration(m - earlier) }
