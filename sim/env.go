package sim

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"tidings/internal/env"
)

// A hostEnv implements the interfaces of env for one life of a host. A script may keep a node
// longer than that life; calls of such a node have no effect.
type hostEnv struct {
	host *Host
	life uint32
}

// env returns the environment of the present life.
func (h *Host) env() env.Env {
	d := &hostEnv{h, h.life}
	nodeRNG := newRNG(h.world.config.Seed, forNode, int(h.index), h.life)
	e := env.Env{
		Clock:   d,
		Network: d,
		Fetcher: d,
		Worker:  d,
		Store:   d,
		Rand:    rand.New(&nodeRNG),
		Log:     slog.New(virtualTimeHandler{h.world.config.Log, h.clock}).With("host", h.Index()),
	}
	if len(h.world.lanes) == 1 { // neither topics nor proofs are supported across lanes
		e.Topics, e.Prover = d, d
	}
	return e
}

// expired reports whether the life of this environment is over.
func (d *hostEnv) expired() bool { return d.host.life != d.life }

// Now implements env.Clock.
func (d *hostEnv) Now() time.Time { return d.host.clock() }

// Send implements env.Network.
func (d *hostEnv) Send(to env.Peer, class env.Class, msg []byte) {
	if len(msg) > env.MaxFrame {
		panic(fmt.Sprintf("host %d sends a frame of %d bytes: a layer does not bound its messages", d.host.index, len(msg)))
	}
	if !d.expired() {
		h := d.host
		if h.filterOutgoing != nil {
			if msg = h.filterOutgoing(to, msg); msg == nil {
				return
			}
		}
		h.queueFrame(to, class, msg)
	}
}

// An Origin answers the requests that reach web servers at a given time. It is called when the
// answer arrives, a little after at. In a world of several lanes, the lanes may call it
// concurrently.
type Origin func(at time.Time, r env.Request) env.Answer

// A fetch is a request in progress. At the time at, it is half done.
type fetch struct {
	handle  env.Handle
	request env.Request
	at      int64
	latency int64
}

// serving is what part of a fetch's random delay a web server takes, which is at a known distance: 5 to 25 ms.
const serving = 20

// Delays are uniformly distributed between these bounds.
const (
	fetchShortest, fetchLongest     = 100 * time.Millisecond, 500 * time.Millisecond
	computeShortest, computeLongest = 200 * time.Microsecond, 5 * time.Millisecond
	syncShortest, syncLongest       = time.Millisecond, 10 * time.Millisecond // of a commit
)

func uniformBetween(p *rand.PCG, least, most time.Duration) int64 {
	return int64(least) + int64(randFloat(p)*float64(most-least))
}

// Fetch implements env.Fetcher.
func (d *hostEnv) Fetch(handle env.Handle, r env.Request) {
	if d.expired() {
		return
	}
	h := d.host
	h.stats.Fetches++
	delay := uniformBetween(&h.ioRNG, fetchShortest, fetchLongest)
	latency := int64(0)
	if far := h.world.config.ToOrigin; far != nil {
		latency = int64(far(int(h.index), r.URL)) + delay/serving
		delay = latency
	}
	item := h.lane.fetches.Put(fetch{handle, r, h.lane.now + delay/2, latency})
	h.lane.schedule(h.lane.now+delay, h, eventFetched, item)
}

func (h *Host) deliverAnswer(handle env.Handle, a env.Answer) {
	if h.answerer == nil {
		panic(fmt.Sprintf("%T fetches, but has no method Answered", h.node))
	}
	h.answerer.Answered(handle, a)
}

// Do implements env.Worker. It runs pure at once and calls done after a random delay.
func (d *hostEnv) Do(pure, done func()) {
	if d.expired() {
		return
	}
	pure()
	h, l := d.host, d.host.lane
	l.schedule(l.now+uniformBetween(&h.ioRNG, computeShortest, computeLongest), h, eventComputed, l.callbacks.Put(done))
}

// Commit implements env.Store.
func (d *hostEnv) Commit(ops []env.Op, done func(error)) {
	if !d.expired() {
		d.host.disk.commit(ops, done)
	}
}

// Get implements env.Store.
func (d *hostEnv) Get(key []byte) ([]byte, error) { return d.host.disk.get(string(key)), nil }

// Range implements env.Store.
func (d *hostEnv) Range(prefix []byte, each func(key, value []byte) bool) error {
	d.host.disk.scan(string(prefix), each)
	return nil
}
