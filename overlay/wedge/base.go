package wedge

import (
	"math/rand/v2"
	"time"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/wedge/wedgepb"
)

// base are what every component of a Wedge needs of the world.
type base struct {
	cfg   Config
	clock env.Clock
	net   env.Network
	rand  *rand.Rand
	node  *overlay.Node
	app   Application
	cal   env.Calendar[task]
	stats Stats

	life       uint64 // random number drawn at the start, never 0
	lastNumber uint64 // number of the last batch, digest or frame of broadcasts
}

// A task is an entry of the calendar. Its link or membership may be gone when it is due.
type task struct {
	kind taskKind
	peer env.PeerID
	key  uint64
}

type taskKind uint8

const (
	taskFlush         taskKind = iota // send the changes on a link
	taskResend                        // a batch was not acknowledged in time
	taskDigest                        // renew the edges of a link
	taskDigestTimeout                 // a digest was not answered in time
	taskRound                         // compare splits with counts
	taskSweep                         // end expired leases and drop idle links
	taskGrace                         // the grace of a membership is over
	taskStandIns                      // assign stand-ins
)

func (b *base) schedule(in time.Duration, t task) { b.cal.Add(b.clock.Now().Add(in), t) }

func (b *base) send(to env.Peer, m *wedgepb.Message) {
	b.stats.Control++
	b.net.Send(to, env.Control, wire.AppendFrame(nil, wire.Wedge, m))
}

func (b *base) nextNumber() uint64 {
	b.lastNumber++
	return b.lastNumber
}
