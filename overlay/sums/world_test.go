package sums_test

import (
	"encoding/binary"
	"errors"
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/sums"
	"tidings/sim"
)

var (
	seedFlag  = flag.Uint64("seed", 1, "the seed of worlds")
	largeFlag = flag.Bool("large", false, "also measure 1,024 members")
)

// A total is the value of these worlds: a sum over members.
type total struct{ members, things, amount uint64 }

func (t *total) encode() []byte {
	b := binary.AppendUvarint(nil, t.members)
	b = binary.AppendUvarint(b, t.things)
	return binary.AppendUvarint(b, t.amount)
}

var errTotal = errors.New("no such total")

// decode decodes the output of encode, and nothing else.
func decode(b []byte) (t total, err error) {
	for _, x := range []*uint64{&t.members, &t.things, &t.amount} {
		n := 0
		if *x, n = binary.Uvarint(b); n <= 0 || *x > 1<<40 {
			return total{}, errTotal
		}
		b = b[n:]
	}
	if len(b) > 0 {
		return total{}, errTotal
	}
	return t, nil
}

// An adder adds totals up. It refuses totals over more members than the scope can have. Encode
// appends padding bytes.
type adder struct{ padding int }

func (adder) Zero() any { return &total{} }

func (a adder) Add(sum any, value []byte, about sums.Scope) error {
	t, err := decode(value[:max(len(value)-a.padding, 0)])
	if err != nil {
		return err
	}
	if t.members > uint64(2*about.Nodes+8) {
		return errTotal
	}
	to := sum.(*total)
	to.members += t.members
	to.things += t.things
	to.amount += t.amount
	return nil
}

func (adder) Measure(sum any) sums.Measure {
	t := sum.(*total)
	return sums.Measure{Items: float64(t.things), Amounts: [6]float64{float64(t.amount)}}
}

func (a adder) Encode(sum any) []byte {
	return append(sum.(*total).encode(), make([]byte, a.padding)...)
}

// A world is a simulated network whose members each have a value.
type world struct {
	*sim.World
	t       testing.TB
	network wire.Network
	hash    wire.Hash
	verify  wire.Verifier
	records *overlay.Records
	cfg     sums.Config
	adder   adder
	members []*member
	value   func(*member) total
}

func newWorld(t testing.TB, c sim.Config, cfg sums.Config) *world {
	network := wire.DefaultNetwork("sim")
	if c.Seed == 0 {
		c.Seed = *seedFlag
	}
	w := &world{World: sim.New(c), t: t, network: network, hash: wire.HashOf(network.Descriptor()), cfg: cfg}
	w.verify = wire.NewCachingVerifier(wire.NewVerifier(w.hash), 1<<18)
	w.records = overlay.NewRecords(network, w.verify, 1<<16)
	rng := rand.New(rand.NewPCG(c.Seed, 7))
	w.value = func(*member) total { return total{1, 1, rng.Uint64N(1000)} }
	return w
}

// grow adds n members, one every pause.
func (w *world) grow(n int, pause time.Duration) *world {
	for i := range n {
		m := &member{Host: w.Host(sim.HostConfig{Open: true}), w: w}
		w.members = append(w.members, m)
		w.After(time.Duration(i+1)*pause, m.start)
	}
	w.World.Run(time.Duration(n+1) * pause)
	return w
}

// live returns the members that are active.
func (w *world) live() (of []*member) {
	for _, m := range w.members {
		if m.Up() && m.overlay.State() == overlay.Active {
			of = append(of, m)
		}
	}
	return of
}

// truth returns the sum of all live members' values.
func (w *world) truth() (all total) {
	for _, m := range w.live() {
		all.members += m.own.members
		all.things += m.own.things
		all.amount += m.own.amount
	}
	return all
}

// all returns the sum of all members as this member knows it.
func (m *member) all() total {
	sum, _ := m.sums.Remote()
	rest := sum.(*total)
	return total{rest.members + m.own.members, rest.things + m.own.things, rest.amount + m.own.amount}
}

// wrong returns how many members do not know the sum.
func (w *world) wrong() (n int) {
	truth := w.truth()
	for _, m := range w.live() {
		if m.all() != truth {
			n++
		}
	}
	return n
}

// off returns the mean and the greatest relative error of the sums.
func (w *world) off(of []*member) (mean, most float64) {
	truth := float64(w.truth().amount)
	for _, m := range of {
		d := float64(m.all().amount)/truth - 1
		mean += max(d, -d) / float64(len(of))
		most = max(most, d, -d)
	}
	return mean, most
}

// stats returns the sums of all live members' counters.
func (w *world) stats() (all sums.Stats) {
	for _, m := range w.live() {
		st := m.sums.Stats()
		all.Parts += st.Parts
		all.Valued += st.Valued
		all.Doubted += st.Doubted
		all.KeptBytes += st.KeptBytes
		all.Rounds += st.Rounds
		all.Quick += st.Quick
		all.Asked += st.Asked
		all.Again += st.Again
		all.Given += st.Given
		all.Same += st.Same
		all.Early += st.Early
		all.Bytes += st.Bytes
		all.Taken += st.Taken
		all.Refused += st.Refused
		all.Flooded += st.Flooded
		all.Garbage += st.Garbage
	}
	return all
}

// A member is a host with overlay and sums.
type member struct {
	*sim.Host
	w       *world
	overlay *overlay.Node
	sums    *sums.Aggregator
	own     total
	tamper  func(frame []byte) []byte // changes each frame that the member sends; nil sends it unchanged
}

func (m *member) start() {
	m.Boot(func(e env.Env) env.Node {
		if m.tamper != nil {
			e.Network = tamperingNetwork{e.Network, m.tamper}
		}
		signer := wire.NewSigner(m.Key(), m.w.hash)
		m.overlay = overlay.New(e, signer, m.w.verify, overlay.Config{
			Network: m.w.network, Founder: m.Index() == 0, Records: m.w.records,
		})
		m.sums = sums.New(e, m.overlay, m.w.cfg, m.w.adder)
		m.set(m.w.value(m))
		return stack{m}
	})
	if m.Index() > 0 {
		m.Found(m.w.members[0].Host)
	}
}

// set sets the member's own value; an empty total means no value.
func (m *member) set(own total) {
	m.own = own
	var value []byte
	if own != (total{}) {
		value = m.w.adder.Encode(&own)
	}
	if err := m.sums.Set(value); err != nil {
		m.w.t.Fatal(err)
	}
}

// tamperingNetwork changes or drops the frames that a member sends.
type tamperingNetwork struct {
	env.Network
	tamper func(frame []byte) []byte
}

func (l tamperingNetwork) Send(to env.Peer, class env.Class, frame []byte) {
	if frame = l.tamper(frame); frame != nil {
		l.Network.Send(to, class, frame)
	}
}

// A stack joins the two layers of a member.
type stack struct{ *member }

func (c stack) Run(now time.Time) time.Time { return env.RunDue(now, c.overlay, c.sums) }

func (c stack) Receive(from env.PeerID, frame []byte) error {
	layer, body, err := wire.ParseFrame(frame)
	if err != nil {
		return err
	}
	if layer == wire.Sums {
		return c.sums.Receive(from, body)
	}
	return c.overlay.Receive(from, body)
}

func (c stack) Found(peer env.Peer)      { c.overlay.Found(peer) }
func (c stack) Reachable(addrs []string) { c.overlay.Reachable(addrs) }
func (c stack) PeerDown(peer env.PeerID) { c.overlay.PeerDown(peer) }

// partition separates half of the members from the others.
func (w *world) partition() {
	var side []*sim.Host
	for i, m := range w.members {
		if i%2 == 0 {
			side = append(side, m.Host)
		}
	}
	w.Partition(side)
}
