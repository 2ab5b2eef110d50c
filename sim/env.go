package sim

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"tidings/internal/env"
)

// doors are the doors of one life of a host. A node that outlives its
// host, because a script kept it, finds them shut: nothing goes out any more.
type doors struct {
	host *Host
	life uint32
}

// env opens the doors for the present life.
func (h *Host) env() env.Env {
	d := &doors{h, h.life}
	nodeDice := dice(h.world.config.Seed, forNode, int(h.index), h.life)
	e := env.Env{
		Clock:   d,
		Network: d,
		Fetcher: d,
		Worker:  d,
		Store:   d,
		Rand:    rand.New(&nodeDice),
		Log:     slog.New(virtual{h.world.config.Log, h.clock}).With("host", h.Index()),
	}
	if len(h.world.lanes) == 1 { // frames of topics are no errands
		e.Topics = d
	}
	return e
}

// shut reports that the life of these doors is over.
func (d *doors) shut() bool { return d.host.life != d.life }

// Now implements env.Clock.
func (d *doors) Now() time.Time { return d.host.clock() }

// Send implements env.Network.
func (d *doors) Send(to env.Peer, class env.Class, msg []byte) {
	if len(msg) > env.MaxFrame {
		panic(fmt.Sprintf("host %d sends a frame of %d bytes: a layer did not bound it", d.host.index, len(msg)))
	}
	if !d.shut() {
		h := d.host
		if h.withholds != nil {
			if msg = h.withholds(to, msg); msg == nil {
				return
			}
		}
		h.post(to, class, msg)
	}
}

// An Origin says what the origins of the world answer to a request that reaches
// them at a time. It is asked when the answer arrives, a little after at; in a world
// of several lanes by all of them side by side.
type Origin func(at time.Time, r env.Request) env.Answer

// fetch is a request under way; half of its way lies behind it at at.
type fetch struct {
	handle  env.Handle
	request env.Request
	at      int64
}

// The doors' delays are uniform between two bounds.
const (
	fetchLeast, fetchMost     = 100 * time.Millisecond, 500 * time.Millisecond
	computeLeast, computeMost = 200 * time.Microsecond, 5 * time.Millisecond
	syncLeast, syncMost       = time.Millisecond, 10 * time.Millisecond // of a disk
)

func between(p *rand.PCG, least, most time.Duration) int64 {
	return int64(least) + int64(throw(p)*float64(most-least))
}

// Fetch implements env.Fetcher.
func (d *doors) Fetch(handle env.Handle, r env.Request) {
	if d.shut() {
		return
	}
	h := d.host
	h.stats.Fetches++
	delay := between(&h.doorDice, fetchLeast, fetchMost)
	item := h.lane.fetches.Put(fetch{handle, r, h.lane.now + delay/2})
	h.lane.push(h.lane.now+delay, h, fetched, item)
}

func (h *Host) answered(handle env.Handle, a env.Answer) {
	if h.answerer == nil {
		panic(fmt.Sprintf("%T fetches, but has no method Answered", h.node))
	}
	h.answerer.Answered(handle, a)
}

// Do implements env.Worker: pure runs at once, and what it computed is seen
// when a modelled delay has passed.
func (d *doors) Do(pure, done func()) {
	if d.shut() {
		return
	}
	pure()
	h, l := d.host, d.host.lane
	l.push(l.now+between(&h.doorDice, computeLeast, computeMost), h, computed, l.dones.Put(done))
}

// Commit implements env.Store.
func (d *doors) Commit(ops []env.Op, done func(error)) {
	if !d.shut() {
		d.host.disk.commit(ops, done)
	}
}

// Get implements env.Store.
func (d *doors) Get(key []byte) ([]byte, error) { return d.host.disk.get(string(key)), nil }

// Range implements env.Store.
func (d *doors) Range(prefix []byte, each func(key, value []byte) bool) error {
	d.host.disk.scan(string(prefix), each)
	return nil
}
