package sim

import (
	"crypto/ed25519"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"

	"tidings/internal/env"
	"tidings/internal/wire"
)

// An Answerer is a node that uses its Fetcher: answers come to it here. The
// edge of a real node gives its fetcher the same method as the callback.
type Answerer interface {
	Answered(h env.Handle, a env.Answer)
}

// HostConfig describes a machine.
type HostConfig struct {
	// Open hosts can be dialled. Others live behind a NAT: only over links
	// they opened themselves do they hear anything.
	Open bool
	// ClockOff is how far the host's clock is ahead of the world's.
	ClockOff time.Duration
}

// A Host is a machine: identity, address and disk, and a node while it is up.
type Host struct {
	// What every event touches comes first, in two cache lines.
	world    *World
	lane     *lane
	index    int32
	life     uint32 // counts boots and crashes
	node     env.Node
	answerer Answerer
	wish     int64   // when the node wants to be run
	armed    int64   // the next pending alarm
	under    []int64 // the alarms that are pending behind it, the last one first
	ranAt    int64   // instant of the last alarm that ran the node
	spins    int     // how many did so at that instant
	stall    *stall  // nil: events are handled when they come
	clockOff int64   // nanoseconds
	doorDice rand.PCG
	stats    Stats

	open bool
	key  ed25519.PrivateKey
	id   env.PeerID
	addr string
	side int // of a partition

	hinderedAt int64 // when a stall ended, or its clock leapt, last

	links  map[int32]*link  // by the index of the peer
	fresh  int              // links opened since idle ones were forgotten
	blamed map[int32]*blame // by the index of the peer
	disk   *disk

	linkDice rand.PCG

	topics    map[string]*seat
	topicDice rand.PCG

	build func(env.Env) env.Node

	// withholds, if not nil, is shown what the host is about to send, and returns what it sends
	// instead; nil: nothing.
	withholds func(to env.Peer, frame []byte) []byte
}

// Host adds a machine, with a key of its own and an empty disk. It is down
// until Boot.
func (w *World) Host(c HostConfig) *Host {
	i := len(w.hosts)
	var seed [ed25519.SeedSize]byte
	keyDice := dice(w.config.Seed, forKey, i, 0)
	for b := range seed {
		seed[b] = byte(keyDice.Uint64())
	}
	key := ed25519.NewKeyFromSeed(seed[:])
	h := &Host{
		world:    w,
		clockOff: int64(c.ClockOff),
		open:     c.Open,
		index:    int32(i),
		key:      key,
		id:       wire.PeerIDOf(key.Public().(ed25519.PublicKey)),
		addr:     addrOf(i),
		links:    map[int32]*link{},
		blamed:   map[int32]*blame{},
		linkDice: dice(w.config.Seed, forLinks, i, 0), topicDice: dice(w.config.Seed, forTopics, i, 0),
		doorDice: dice(w.config.Seed, forDoors, i, 0),
		wish:     never,
		armed:    never,
	}
	h.lane, h.disk = w.lanes[h.Lane()], &disk{host: h}
	w.hosts = append(w.hosts, h)
	w.byID[h.id] = h
	return h
}

// addrOf is the address of a host.
func addrOf(index int) string {
	return string(binary.BigEndian.AppendUint32([]byte(addrHead), uint32(index)))
}

// indexOf is the host whose address it is.
func indexOf(addr string) (int, bool) {
	if len(addr) != len(addrHead)+4 || addr[:len(addrHead)] != addrHead {
		return 0, false
	}
	return int(binary.BigEndian.Uint32([]byte(addr[len(addrHead):]))), true
}

const addrHead = "sim"

// Index is the host's place in World.Hosts.
func (h *Host) Index() int { return int(h.index) }

// Lane is the host's lane, counted from 0.
func (h *Host) Lane() int { return int(h.index) % len(h.world.lanes) }

// Key is the private key of the host's identity.
func (h *Host) Key() ed25519.PrivateKey { return h.key }

// ID is the peer id of the host's key.
func (h *Host) ID() env.PeerID { return h.id }

// Peer is the host's id and address, also if nobody can dial it there.
func (h *Host) Peer() env.Peer { return env.Peer{ID: h.id, Addrs: []string{h.addr}} }

// Node is the node that runs on the host, nil while it is down. To call it, use
// Do.
func (h *Host) Node() env.Node { return h.node }

// Up reports whether the host has a node.
func (h *Host) Up() bool { return h.node != nil }

// Boot builds a node and runs it. If the host is open, the node hears a little
// later that it was dialled back. Boot panics if the host is up.
func (h *Host) Boot(build func(env.Env) env.Node) {
	h.world.outside("Boot")
	if h.node != nil {
		panic(fmt.Sprintf("sim: boot of host %d, which is up", h.index))
	}
	h.build = build
	h.life++
	h.lane.inside = h
	h.node = build(h.env())
	h.answerer, _ = h.node.(Answerer)
	if h.open {
		h.lane.push(h.lane.now+int64(dialBack), h, reachable, 0)
	}
	h.run()
	h.lane.inside = nil
}

// dialBack is how long it takes until an open host is known to be one.
const dialBack = 100 * time.Millisecond

// Restart boots a node with the function of the last Boot.
func (h *Host) Restart() { h.Boot(h.build) }

// Crash ends the node at once. Nothing reaches it any more: frames and answers
// under way vanish, and callbacks are not called. Of the commits that are not yet
// durable, the dice choose how many of the first became so; the others are lost.
// With hint, as when a process is killed and its sockets close, link partners
// hear PeerDown after one latency; without, as when a cable is cut, nobody hears
// anything. Crash panics if the host is down.
func (h *Host) Crash(hint bool) {
	h.world.outside("Crash")
	if h.node == nil {
		panic(fmt.Sprintf("sim: crash of host %d, which is down", h.index))
	}
	h.closeLinks(hint)
	h.unseat()
	h.disk.crash()
	h.life++
	h.node, h.answerer, h.wish = nil, nil, never
	h.forgetStall()
	clear(h.blamed)
}

// Found reports another host to the node, as a bootstrap list does. It does
// nothing if the host is down.
func (h *Host) Found(peer *Host) {
	if h.node != nil {
		h.lane.push(h.lane.now, h, found, uint32(peer.index))
	}
}

// Do calls do in the node's turn and lets the node run after it: this is how
// a script uses what a node offers its owner. A host that is stalled calls it later.
// It reports false, without calling do, if the host is down.
func (h *Host) Do(do func()) bool {
	h.world.outside("Do")
	if h.node == nil {
		return false
	}
	if h.stall != nil {
		h.lane.push(h.lane.now, h, asked, h.lane.scripts.Put(do))
		return true
	}
	h.lane.inside = h
	do()
	h.run()
	h.lane.inside = nil
	return true
}

// Ask has the host call do at this instant, as Do does, but as an event of its own: what
// a script asks of many hosts at once, hosts of different lanes do side by side.
func (h *Host) Ask(do func()) {
	h.world.outside("Ask")
	if h.node != nil {
		h.lane.push(h.lane.now, h, asked, h.lane.scripts.Put(do))
	}
}

// SetDisk says what is wrong with the host's disk from now on, for commits under
// way too. A crash mends a Broken disk, and no other.
func (h *Host) SetDisk(f DiskFault) { h.disk.fault, h.disk.torn = f, nil }

// LoseRecords has the disk lose what it keeps under keys with a prefix, as if its place on the disk
// could not be read any more. It returns how many records that were.
func (h *Host) LoseRecords(prefix string) (lost int) {
	var keys []string
	h.disk.scan(prefix, func(key, _ []byte) bool {
		keys = append(keys, string(key))
		return true
	})
	for _, key := range keys {
		h.disk.put(key, nil)
	}
	return len(keys)
}

// Ahead is how far the host's clock is ahead of the world's.
func (h *Host) Ahead() time.Duration { return time.Duration(h.clockOff) }

// SetClock says how far the host's clock is ahead of the world's from now on. While
// the host is up its clock can only leap forward, as it promises its node; SetClock
// panics if told otherwise.
func (h *Host) SetClock(ahead time.Duration) {
	if h.node != nil && int64(ahead) < h.clockOff {
		panic(fmt.Sprintf("sim: clock of host %d, which is up, goes back", h.index))
	}
	if h.node != nil && int64(ahead) > h.clockOff {
		h.hinderedAt = h.lane.now
	}
	h.clockOff = int64(ahead)
	h.Do(func() {})
}

// Stats returns the host's counters, over all its lives.
func (h *Host) Stats() Stats { return h.stats }

// clock is the time on the host's own clock.
func (h *Host) clock() time.Time { return instant(h.lane.now + h.clockOff) }

// run runs the node and enters its wish.
func (h *Host) run() {
	h.stats.Runs++
	next := h.node.Run(h.clock())
	if next.IsZero() {
		h.wish = never
		return
	}
	h.wish = max(next.UnixNano()-h.clockOff, h.lane.now)
	h.arm()
}

// arm makes sure that an alarm is pending not later than the wish. The pending
// alarms of a host are a stack, each earlier than the one below it, so that no
// time is entered twice. The alarm of a wish that was put off rings all the same
// and is then put off too.
func (h *Host) arm() {
	if h.wish >= h.armed {
		return
	}
	if h.armed != never {
		h.under = append(h.under, h.armed)
	}
	h.armed = h.wish
	h.lane.push(h.wish, h, alarm, 0)
}

// maxSpins is how often a node may be run at one instant by its own wish.
const maxSpins = 10_000

// alarmed handles the alarm of the top of the stack.
func (h *Host) alarmed(e *event) {
	h.armed = never
	if n := len(h.under); n > 0 {
		h.armed, h.under = h.under[n-1], h.under[:n-1]
	}
	if h.wish > h.lane.now {
		h.arm()
		return
	}
	if h.ranAt != h.lane.now {
		h.ranAt, h.spins = h.lane.now, 0
	}
	if h.spins++; h.spins > maxSpins {
		panic(fmt.Sprintf("the node asked %d times to be run at one instant: its Run makes no progress", h.spins))
	}
	h.lane.fold(e, 0)
	h.lane.inside = h
	h.run()
	h.lane.inside = nil
}
