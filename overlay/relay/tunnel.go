package relay

import (
	"crypto/ecdh"
	"slices"
	"time"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/relay/relaypb"
)

const (
	// openTimeout is how long a circuit may take to open.
	openTimeout = 5 * time.Second
	// tunnelSilence is how long a reader hears nothing through an open circuit before it opens another one. Hosts
	// answer a client every 15 s.
	tunnelSilence = 35 * time.Second
	// maxOpenPause is the longest pause between two attempts to open a circuit. It begins with a second and doubles.
	maxOpenPause = time.Minute
	// failedPeers is the number of members of failed circuits that the next ones avoid.
	failedPeers = 8
)

// A Tunnel is the network of one guest: what the guest sends goes through a circuit of two members.
type Tunnel struct {
	*tunnels
	guest   *wire.Signer
	up      func(exit env.Peer)
	receive func(from env.PeerID, frame []byte)

	middle, exit *overlay.Contact // of the present circuit; nil: none
	number       uint64
	since        time.Time // when the circuit was asked for
	sealer       *sealer   // nil: the circuit is not open yet
	encapsulated []byte    // nil: the exit has shown that it has it
	voucher      []byte
	vouchedAt    time.Time
	heard        time.Time     // last frame through the circuit; before the first, when it was opened
	retryAt      time.Time     // next attempt while there is no circuit
	pause        time.Duration // before the attempt after that
	failed       []env.PeerID  // members of circuits that failed, the latest last; at most failedPeers
}

// tunnels are the circuits of this node's own guests.
type tunnels struct {
	*common
	list []*Tunnel
}

// Open returns the network of a guest. The circuit opens some time later, and again after each failure; up is called
// with the exit, which is the first member that the guest can talk to. receive gets the frames for the guest.
func (r *Relay) Open(guest *wire.Signer, up func(exit env.Peer), receive func(from env.PeerID, frame []byte)) *Tunnel {
	t := &Tunnel{tunnels: r.tunnels, guest: guest, up: up, receive: receive, pause: time.Second, retryAt: env.AtOnce}
	r.tunnels.list = append(r.tunnels.list, t)
	return t
}

// Renew gives up the present circuit for another one if it is older than an age.
func (t *Tunnel) Renew(age time.Duration) {
	if now := t.clock.Now(); t.middle != nil && now.Sub(t.since) > age {
		t.fail(now)
	}
}

// Close ends the circuit.
func (t *Tunnel) Close() {
	t.drop()
	t.list = slices.DeleteFunc(t.list, func(of *Tunnel) bool { return of == t })
}

// Open reports whether the exit has answered.
func (t *Tunnel) Open() bool { return t.sealer != nil && t.encapsulated == nil }

// Circuit returns the members of the present circuit; ok is false if it is not open.
func (t *Tunnel) Circuit() (middle, exit *overlay.Contact, ok bool) {
	return t.middle, t.exit, t.Open()
}

// drop forgets the circuit, and tells the middle.
func (t *Tunnel) drop() {
	if t.middle != nil {
		t.close(t.middle.Peer, t.number)
	}
	t.middle, t.exit, t.sealer, t.encapsulated, t.voucher = nil, nil, nil, nil, nil
}

// fail gives up a circuit and plans the next one.
func (t *Tunnel) fail(now time.Time) {
	t.stats.Failed++
	t.failed = append(t.failed, t.middle.Peer.ID, t.exit.Peer.ID)
	t.failed = t.failed[max(0, len(t.failed)-failedPeers):]
	t.drop()
	t.retryAt = now.Add(env.Jitter(t.rand, t.pause))
	t.pause = min(2*t.pause, maxOpenPause)
}

// nextOpen returns when the next circuit is to be opened.
func (cs *tunnels) nextOpen() (next time.Time) {
	for _, t := range cs.list {
		if t.middle == nil {
			next = env.Sooner(next, t.retryAt)
		}
	}
	return next
}

// openDue opens the circuits that are missing.
func (cs *tunnels) openDue(now time.Time) {
	for _, t := range cs.list {
		if t.middle == nil && !now.Before(t.retryAt) {
			t.open(now)
		}
	}
}

// failSilent gives up circuits through which nothing comes.
func (cs *tunnels) failSilent(now time.Time) {
	for _, t := range cs.list {
		if silent := now.Sub(t.heard); t.middle != nil && (silent > tunnelSilence || !t.Open() && silent > openTimeout) {
			t.fail(now)
		}
	}
}

// peerDown gives up circuits whose middle cannot be reached.
func (cs *tunnels) peerDown(peer env.PeerID) {
	for _, t := range cs.list {
		if t.middle != nil && t.middle.Peer.ID == peer {
			t.fail(cs.clock.Now())
		}
	}
}

// open asks a middle for a circuit to an exit.
func (t *Tunnel) open(now time.Time) {
	if t.middle, t.exit = t.choose(); t.middle == nil {
		t.retryAt = now.Add(checkInterval)
		return
	}
	t.number, t.since, t.heard = t.rand.Uint64(), now, now
	t.sendMessage(t.middle.Peer, env.Control, &relaypb.Message{Body: &relaypb.Message_Open{Open: &relaypb.Open{Circuit: t.number, Exit: t.exit.Raw}}})
}

// choose draws a middle and an exit from the members that this node knows. They are not drawn by any lookup, which
// the exit could notice just before it is asked. The exit is in another part of the id space than the reader and the
// middle, if one is known there: not a neighbour, and not a host of a reader that is a client.
func (t *Tunnel) choose() (middle, exit *overlay.Contact) {
	known := t.node.Known()
	if usable := slices.DeleteFunc(slices.Clone(known), func(c *overlay.Contact) bool { return slices.Contains(t.failed, c.Peer.ID) }); len(usable) >= 2 {
		known = usable
	}
	if len(known) < 2 {
		return nil, nil
	}
	t.rand.Shuffle(len(known), func(i, j int) { known[i], known[j] = known[j], known[i] })
	middle, own := known[0], t.node.ID()
	exits := known[1:]
	if i := slices.IndexFunc(exits, func(c *overlay.Contact) bool {
		return c.ID.Digit(0) != middle.ID.Digit(0) && c.ID.Digit(0) != own.Digit(0)
	}); i >= 0 {
		return middle, exits[i]
	}
	return middle, exits[0]
}

// of returns the tunnel whose circuit leads to a peer under a number, or nil.
func (cs *tunnels) of(peer env.PeerID, number uint64) *Tunnel {
	for _, t := range cs.list {
		if t.middle != nil && t.number == number && t.middle.Peer.ID == peer {
			return t
		}
	}
	return nil
}

// onOpened takes the exit's key, and reports whether the circuit is one of this reader's.
func (cs *tunnels) onOpened(from env.PeerID, m *relaypb.Opened) bool {
	t := cs.of(from, m.Circuit)
	if t == nil || t.sealer != nil {
		return t != nil
	}
	now := cs.clock.Now()
	signed, err := cs.verify.Open(wire.DomainRelay, m.Key)
	if err != nil || wire.PeerIDOf(signed.Key) != t.exit.Peer.ID {
		cs.stats.Garbage++
		t.fail(now)
		return true
	}
	exit, err := ecdh.X25519().NewPublicKey(signed.Payload)
	if err == nil {
		own := newKey(cs.rand)
		t.encapsulated = own.PublicKey().Bytes()
		t.sealer, err = newSealer(t.encapsulated, sender{own, exit}, true)
	}
	if err != nil {
		cs.stats.Garbage++
		t.fail(now)
		return true
	}
	t.heard = now
	t.vouch(now)
	t.up(t.exit.Peer)
	return true
}

// vouch makes a voucher for the exit of the present circuit.
func (t *Tunnel) vouch(now time.Time) {
	v := &relaypb.Voucher{Exit: []byte(t.exit.Peer.ID), TimeMs: uint64(now.UnixMilli()), Circuit: t.sealer.circuit}
	t.voucher, t.vouchedAt = t.guest.Sign(wire.DomainGuest, wire.Encode(v)).Raw, now
}

// Send implements env.Network for the guest. Nothing goes to the reader's own node, nor to the middle, which would
// then know both the reader and the feed.
func (t *Tunnel) Send(to env.Peer, _ env.Class, frame []byte) {
	if t.sealer == nil || to.ID == t.self || to.ID == t.middle.Peer.ID || !mayPass(frame) {
		return
	}
	now := t.clock.Now()
	if now.Sub(t.vouchedAt) > voucherRenewal {
		t.vouch(now)
	}
	p := &relaypb.Passage{Peer: []byte(to.ID), Frame: frame}
	if t.encapsulated != nil || now.Sub(t.vouchedAt) < voucherTime {
		p.Voucher = t.voucher
	}
	for _, a := range to.Addrs {
		p.Addresses = append(p.Addresses, []byte(a))
	}
	d, err := t.sealer.seal(p)
	if err != nil {
		t.stats.TooLarge++
		return
	}
	d.Circuit, d.Encapsulated = t.number, t.encapsulated
	t.sendData(t.middle.Peer, d)
}

// onData hands a frame to its guest, and reports whether the circuit is one of this reader's.
func (cs *tunnels) onData(from env.PeerID, d *relaypb.Data) bool {
	t := cs.of(from, d.Circuit)
	if t == nil || t.sealer == nil {
		return t != nil
	}
	p, err := t.sealer.open(d)
	if err != nil || !mayPass(p.Frame) {
		cs.stats.Garbage++
		return true
	}
	if t.encapsulated != nil {
		cs.stats.Opened++
		t.encapsulated, t.pause = nil, time.Second
	}
	t.heard = cs.clock.Now()
	t.receive(env.PeerID(p.Peer), p.Frame)
	return true
}

// onClose gives up a circuit that the middle or the exit has closed, and reports whether it is one of this reader's.
func (cs *tunnels) onClose(from env.PeerID, m *relaypb.Close) bool {
	t := cs.of(from, m.Circuit)
	if t != nil {
		t.fail(cs.clock.Now())
	}
	return t != nil
}
