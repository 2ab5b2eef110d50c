package sim

import (
	"crypto/ed25519"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/internal/wire"
)

// An Answerer is a node that uses its Fetcher; answers are delivered to this method. In a real node
// it is the fetcher's callback.
type Answerer interface {
	Answered(h env.Handle, a env.Answer)
}

// HostConfig describes a machine.
type HostConfig struct {
	// Open hosts can be dialled. Other hosts are behind a NAT: they receive frames only over links
	// that they opened.
	Open bool
	// Key is the machine's identity. Default: one of its own.
	Key ed25519.PrivateKey
	// IP is the IPv4 address of the machine. Default: one in a block of addresses, and of a provider, of its own.
	IP netip.Addr
	// ClockOffset is how far the host's clock is ahead of the world's.
	ClockOffset time.Duration
}

// A Host is a machine: an identity, an address and a disk, and a node while it is up.
type Host struct {
	// Fields that every event uses come first, within two cache lines.
	world         *World
	lane          *lane
	index         int32
	life          uint32 // incremented at each boot and crash
	node          env.Node
	answerer      Answerer
	nextRun       int64   // when the node wants to run next
	nextAlarm     int64   // time of the earliest pending alarm
	laterAlarms   []int64 // times of the other pending alarms, the earliest last
	lastRunAt     int64   // time of the last alarm that ran the node
	runsAtInstant int     // alarms that ran the node at that time
	stall         *stall  // nil: events are handled when they arrive
	clockOffset   int64   // nanoseconds ahead of the world's clock
	ioRNG         rand.PCG
	stats         Stats

	open bool
	key  ed25519.PrivateKey
	id   env.PeerID
	addr string
	side int // of a partition

	impairedAt int64 // when a stall last ended or the clock last jumped

	links    map[int32]*link          // by the index of the peer
	newLinks int                      // links opened since idle ones were dropped
	offences map[int32]*offenceRecord // by the index of the peer
	disk     *disk

	linkRNG rand.PCG

	topics   map[string]*topicMember
	topicRNG rand.PCG

	build func(env.Env) env.Node

	// filterOutgoing, if set, sees each frame before it is sent and returns the frame to send
	// instead; nil drops it.
	filterOutgoing func(to env.Peer, frame []byte) []byte
	// FilterAnswer, if set, sees each answer of a web server and returns the one that the host gets.
	FilterAnswer func(env.Request, env.Answer) env.Answer
}

// Host adds a machine with a key of its own and an empty disk. It is down until Boot.
func (w *World) Host(c HostConfig) *Host {
	i := len(w.hosts)
	var seed [ed25519.SeedSize]byte
	keyRNG := newRNG(w.config.Seed, forKey, i, 0)
	for b := range seed {
		seed[b] = byte(keyRNG.Uint64())
	}
	key := c.Key
	if key == nil {
		key = ed25519.NewKeyFromSeed(seed[:])
	}
	h := &Host{
		world:       w,
		clockOffset: int64(c.ClockOffset),
		open:        c.Open,
		index:       int32(i),
		key:         key,
		id:          wire.PeerIDOf(key.Public().(ed25519.PublicKey)),
		addr:        addrOf(i, c.IP),
		links:       map[int32]*link{},
		offences:    map[int32]*offenceRecord{},
		linkRNG:     newRNG(w.config.Seed, forLinks, i, 0), topicRNG: newRNG(w.config.Seed, forTopics, i, 0),
		ioRNG:     newRNG(w.config.Seed, forIO, i, 0),
		nextRun:   never,
		nextAlarm: never,
	}
	h.lane, h.disk = w.lanes[h.Lane()], &disk{host: h}
	w.hosts = append(w.hosts, h)
	w.byID[h.id] = h
	return h
}

// addrOf returns the address of a host: the beginning of a multiaddr with an IPv4 address, and the last 16 bits of the host's
// index, which take the place of a port.
func addrOf(index int, ip netip.Addr) string {
	if !ip.IsValid() {
		ip = netip.AddrFrom4([4]byte{byte(1 + index>>8), byte(index), 1, 1})
	}
	four := ip.As4()
	return string(binary.BigEndian.AppendUint16(append([]byte{ip4Code}, four[:]...), uint16(index)))
}

// indexOf returns the last 16 bits of the index of the host with an address.
func indexOf(addr string) (int, bool) {
	if len(addr) != 7 || addr[0] != ip4Code {
		return 0, false
	}
	return int(binary.BigEndian.Uint16([]byte(addr[5:]))), true
}

// ip4Code begins a multiaddr with an IPv4 address.
const ip4Code = 4

// IP returns the IP address of the host.
func (h *Host) IP() netip.Addr { return netip.AddrFrom4([4]byte([]byte(h.addr[1:5]))) }

// Move gives the machine another IP address. A little later its node is told that it was dialled back there.
func (h *Host) Move(ip netip.Addr) {
	h.world.checkNotNested("Move")
	h.addr = addrOf(h.Index(), ip)
	if h.open && h.node != nil {
		h.lane.schedule(h.lane.now+int64(dialBackDelay), h, eventReachable, 0)
	}
}

// Prove implements env.Prover: a peer that is up and can be dialled at one of the addresses has proven it, at once if there is a
// link, otherwise after a handshake and a round trip. Hosts of other lanes are not looked at.
func (d *hostEnv) Prove(p env.Peer, done func(addr string)) {
	if d.expired() {
		return
	}
	h := d.host
	l, peer := h.lane, h.world.hostOf(&p)
	wait, addr := int64(proveTimeout), ""
	if peer != nil && peer.node != nil && peer.open && !h.cannotHear(peer) && !peer.cannotHear(h) && slices.Contains(p.Addrs, peer.addr) {
		wait, addr = 4*int64(h.world.config.Topology(min(h.Index(), peer.Index()), max(h.Index(), peer.Index()))), peer.addr
		if l := h.links[peer.index]; l != nil && !l.idle(h.lane.now) {
			wait = 0
		}
	}
	l.schedule(l.now+max(wait, 1), h, eventComputed, l.callbacks.Put(func() { done(addr) }))
}

// proveTimeout is how long a host waits for a machine that does not answer.
const proveTimeout = 5 * time.Second

// Index returns the host's position in World.Hosts.
func (h *Host) Index() int { return int(h.index) }

// Lane returns the index of the host's lane.
func (h *Host) Lane() int { return int(h.index) % len(h.world.lanes) }

// Key returns the private key of the host's identity.
func (h *Host) Key() ed25519.PrivateKey { return h.key }

// ID returns the peer id of the host's key.
func (h *Host) ID() env.PeerID { return h.id }

// Peer returns the host's id and address, even if the address cannot be dialled.
func (h *Host) Peer() env.Peer { return env.Peer{ID: h.id, Addrs: []string{h.addr}} }

// Node returns the node that runs on the host, nil while the host is down. Use Do to call it.
func (h *Host) Node() env.Node { return h.node }

// Up reports whether the host has a node.
func (h *Host) Up() bool { return h.node != nil }

// Boot builds a node and runs it. A little later, an open host's node is told that it was dialled
// back. Boot panics if the host is up.
func (h *Host) Boot(build func(env.Env) env.Node) {
	h.world.checkNotNested("Boot")
	if h.node != nil {
		panic(fmt.Sprintf("sim: boot of host %d, which is up", h.index))
	}
	h.build = build
	h.life++
	h.lane.running = h
	h.node = build(h.env())
	h.answerer, _ = h.node.(Answerer)
	if h.open {
		h.lane.schedule(h.lane.now+int64(dialBackDelay), h, eventReachable, 0)
	}
	h.run()
	h.lane.running = nil
}

// dialBackDelay is the time until an open host is told that it can be dialled.
const dialBackDelay = 100 * time.Millisecond

// Restart boots a node with the function of the last Boot.
func (h *Host) Restart() { h.Boot(h.build) }

// Crash ends the node at once. Frames and answers in transit vanish, and pending callbacks are not
// called. A random number of the oldest pending commits become durable; the others are lost.
//
// With hint, peers with a link to the host get PeerDown after one latency, as when a process is
// killed and its sockets close. Without it no peer is told, as when a cable is cut. Crash panics if
// the host is down.
func (h *Host) Crash(hint bool) {
	h.world.checkNotNested("Crash")
	if h.node == nil {
		panic(fmt.Sprintf("sim: crash of host %d, which is down", h.index))
	}
	h.closeLinks(hint)
	h.leaveTopics()
	h.disk.crash()
	h.life++
	h.node, h.answerer, h.nextRun = nil, nil, never
	h.dropStall()
	clear(h.offences)
}

// Found tells the node of another host, as a bootstrap list does. It does nothing if the host is
// down.
func (h *Host) Found(peer *Host) {
	if h.node != nil {
		h.lane.schedule(h.lane.now, h, eventPeerFound, uint32(peer.index))
	}
}

// Do calls do in the node's turn and then runs the node. Scripts use it to call methods of the
// node. A stalled host calls do later. If the host is down, Do returns false without calling do.
func (h *Host) Do(do func()) bool {
	h.world.checkNotNested("Do")
	if h.node == nil {
		return false
	}
	if h.stall != nil {
		h.lane.schedule(h.lane.now, h, eventCall, h.lane.scripts.Put(do))
		return true
	}
	h.lane.running = h
	do()
	h.run()
	h.lane.running = nil
	return true
}

// Enqueue makes the host call do at this instant, as Do does, but as an event of its own. Hosts of
// different lanes then handle the calls in parallel.
func (h *Host) Enqueue(do func()) {
	h.world.checkNotNested("Ask")
	if h.node != nil {
		h.lane.schedule(h.lane.now, h, eventCall, h.lane.scripts.Put(do))
	}
}

// SetDisk sets the fault of the host's disk; it also applies to pending commits. A crash repairs a
// DiskBroken disk, and no other.
func (h *Host) SetDisk(f DiskFault) { h.disk.fault, h.disk.firstRefused = f, nil }

// LoseRecords deletes the records whose keys have a prefix, as if that part of the disk had become
// unreadable. It returns their number.
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

// ClockOffset returns how far the host's clock is ahead of the world's.
func (h *Host) ClockOffset() time.Duration { return time.Duration(h.clockOffset) }

// SetClock sets how far the host's clock is ahead of the world's. The clock of a node that runs
// never goes back, so SetClock panics if the host is up and ahead is less than before.
func (h *Host) SetClock(ahead time.Duration) {
	if h.node != nil && int64(ahead) < h.clockOffset {
		panic(fmt.Sprintf("sim: the clock of host %d, which is up, would go back", h.index))
	}
	if h.node != nil && int64(ahead) > h.clockOffset {
		h.impairedAt = h.lane.now
	}
	h.clockOffset = int64(ahead)
	h.Do(func() {})
}

// Stats returns the host's counters, over all its lives.
func (h *Host) Stats() Stats { return h.stats }

// clock returns the time of the host's own clock.
func (h *Host) clock() time.Time { return instant(h.lane.now + h.clockOffset) }

// run runs the node and schedules its next run.
func (h *Host) run() {
	h.stats.Runs++
	next := h.node.Run(h.clock())
	if next.IsZero() {
		h.nextRun = never
		return
	}
	h.nextRun = max(next.UnixNano()-h.clockOffset, h.lane.now)
	h.setAlarm()
}

// setAlarm makes sure that an alarm is pending no later than nextRun. The pending alarms of a host
// form a stack, each earlier than the one below it, so no time is scheduled twice. When a run is
// postponed, its alarm still fires and then sets a later one.
func (h *Host) setAlarm() {
	if h.nextRun >= h.nextAlarm {
		return
	}
	if h.nextAlarm != never {
		h.laterAlarms = append(h.laterAlarms, h.nextAlarm)
	}
	h.nextAlarm = h.nextRun
	h.lane.schedule(h.nextRun, h, eventAlarm, 0)
}

// maxRunsAtInstant bounds how often a node may ask to run again at one instant.
const maxRunsAtInstant = 10_000

// handleAlarm handles the alarm at the top of the stack.
func (h *Host) handleAlarm(e *event) {
	h.nextAlarm = never
	if n := len(h.laterAlarms); n > 0 {
		h.nextAlarm, h.laterAlarms = h.laterAlarms[n-1], h.laterAlarms[:n-1]
	}
	if h.nextRun > h.lane.now {
		h.setAlarm()
		return
	}
	if h.lastRunAt != h.lane.now {
		h.lastRunAt, h.runsAtInstant = h.lane.now, 0
	}
	if h.runsAtInstant++; h.runsAtInstant > maxRunsAtInstant {
		panic(fmt.Sprintf("the node asked %d times to run at one instant: its Run makes no progress", h.runsAtInstant))
	}
	h.lane.hashEvent(e, 0)
	h.lane.running = h
	h.run()
	h.lane.running = nil
}
