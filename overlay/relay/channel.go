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
	// channelSilence is how long a reader hears nothing through an open circuit before it opens another one. Hosts
	// answer a client every 15 s.
	channelSilence = 35 * time.Second
	// maxOpenPause is the longest pause between two attempts to open a circuit. It begins with a second and doubles.
	maxOpenPause = time.Minute
	// failedPeers is the number of members of failed circuits that the next ones avoid.
	failedPeers = 8
)

// A Channel is the network of one guest: what the guest sends goes through a circuit of two members.
type Channel struct {
	*channels
	guest   *wire.Signer
	up      func(exit env.Peer)
	receive func(from env.PeerID, frame []byte)

	middle, exit *overlay.Contact // of the present circuit; nil: none
	number       uint64
	sealer       *sealer // nil: the circuit is not open yet
	encapsulated []byte  // nil: the exit has shown that it has it
	voucher      []byte
	vouchedAt    time.Time
	heard        time.Time     // last frame through the circuit; before the first, when it was opened
	retryAt      time.Time     // next attempt while there is no circuit
	pause        time.Duration // before the attempt after that
	failed       []env.PeerID  // members of circuits that failed, the latest last; at most failedPeers
}

// channels are the circuits of this node's own guests.
type channels struct {
	*common
	list []*Channel
}

// Open returns the network of a guest. The circuit opens some time later, and again after each failure; up is called
// with the exit, which is the first member that the guest can talk to. receive gets the frames for the guest.
func (r *Relay) Open(guest *wire.Signer, up func(exit env.Peer), receive func(from env.PeerID, frame []byte)) *Channel {
	ch := &Channel{channels: r.channels, guest: guest, up: up, receive: receive, pause: time.Second, retryAt: env.AtOnce}
	r.channels.list = append(r.channels.list, ch)
	return ch
}

// Close ends the circuit.
func (ch *Channel) Close() {
	ch.drop()
	ch.list = slices.DeleteFunc(ch.list, func(of *Channel) bool { return of == ch })
}

// Open reports whether the exit has answered.
func (ch *Channel) Open() bool { return ch.sealer != nil && ch.encapsulated == nil }

// Circuit returns the members of the present circuit; ok is false if it is not open.
func (ch *Channel) Circuit() (middle, exit *overlay.Contact, ok bool) {
	return ch.middle, ch.exit, ch.Open()
}

// drop forgets the circuit, and tells the middle.
func (ch *Channel) drop() {
	if ch.middle != nil {
		ch.close(ch.middle.Peer, ch.number)
	}
	ch.middle, ch.exit, ch.sealer, ch.encapsulated, ch.voucher = nil, nil, nil, nil, nil
}

// fail gives up a circuit and plans the next one.
func (ch *Channel) fail(now time.Time) {
	ch.stats.Failed++
	ch.failed = append(ch.failed, ch.middle.Peer.ID, ch.exit.Peer.ID)
	ch.failed = ch.failed[max(0, len(ch.failed)-failedPeers):]
	ch.drop()
	ch.retryAt = now.Add(env.Jitter(ch.rand, ch.pause))
	ch.pause = min(2*ch.pause, maxOpenPause)
}

// nextOpen returns when the next circuit is to be opened.
func (cs *channels) nextOpen() (next time.Time) {
	for _, ch := range cs.list {
		if ch.middle == nil {
			next = env.Sooner(next, ch.retryAt)
		}
	}
	return next
}

// openDue opens the circuits that are missing.
func (cs *channels) openDue(now time.Time) {
	for _, ch := range cs.list {
		if ch.middle == nil && !now.Before(ch.retryAt) {
			ch.open(now)
		}
	}
}

// failSilent gives up circuits through which nothing comes.
func (cs *channels) failSilent(now time.Time) {
	for _, ch := range cs.list {
		if silent := now.Sub(ch.heard); ch.middle != nil && (silent > channelSilence || !ch.Open() && silent > openTimeout) {
			ch.fail(now)
		}
	}
}

// peerDown gives up circuits whose middle cannot be reached.
func (cs *channels) peerDown(peer env.PeerID) {
	for _, ch := range cs.list {
		if ch.middle != nil && ch.middle.Peer.ID == peer {
			ch.fail(cs.clock.Now())
		}
	}
}

// open asks a middle for a circuit to an exit.
func (ch *Channel) open(now time.Time) {
	if ch.middle, ch.exit = ch.choose(); ch.middle == nil {
		ch.retryAt = now.Add(tickInterval)
		return
	}
	ch.number, ch.heard = ch.rand.Uint64(), now
	ch.sendMessage(ch.middle.Peer, env.Control, &relaypb.Message{Body: &relaypb.Message_Open{Open: &relaypb.Open{Circuit: ch.number, Exit: ch.exit.Raw}}})
}

// choose draws a middle and an exit from the members that this node knows. They are not drawn by any lookup, which
// the exit could notice just before it is asked. The exit is in another part of the id space than the reader and the
// middle, if one is known there: not a neighbour, and not a host of a reader that is a client.
func (ch *Channel) choose() (middle, exit *overlay.Contact) {
	known := ch.node.Known()
	if usable := slices.DeleteFunc(slices.Clone(known), func(c *overlay.Contact) bool { return slices.Contains(ch.failed, c.Peer.ID) }); len(usable) >= 2 {
		known = usable
	}
	if len(known) < 2 {
		return nil, nil
	}
	ch.rand.Shuffle(len(known), func(i, j int) { known[i], known[j] = known[j], known[i] })
	middle, own := known[0], ch.node.ID()
	exits := known[1:]
	if i := slices.IndexFunc(exits, func(c *overlay.Contact) bool {
		return c.ID.Digit(0) != middle.ID.Digit(0) && c.ID.Digit(0) != own.Digit(0)
	}); i >= 0 {
		return middle, exits[i]
	}
	return middle, exits[0]
}

// of returns the channel whose circuit leads to a peer under a number, or nil.
func (cs *channels) of(peer env.PeerID, number uint64) *Channel {
	for _, ch := range cs.list {
		if ch.middle != nil && ch.number == number && ch.middle.Peer.ID == peer {
			return ch
		}
	}
	return nil
}

// onOpened takes the exit's key, and reports whether the circuit is one of this reader's.
func (cs *channels) onOpened(from env.PeerID, m *relaypb.Opened) bool {
	ch := cs.of(from, m.Circuit)
	if ch == nil || ch.sealer != nil {
		return ch != nil
	}
	now := cs.clock.Now()
	signed, err := cs.verify.Open(wire.DomainRelay, m.Key)
	if err != nil || wire.PeerIDOf(signed.Key) != ch.exit.Peer.ID {
		cs.stats.Garbage++
		ch.fail(now)
		return true
	}
	exit, err := ecdh.X25519().NewPublicKey(signed.Payload)
	if err == nil {
		own := newKey(cs.rand)
		ch.encapsulated = own.PublicKey().Bytes()
		ch.sealer, err = newSealer(ch.encapsulated, sender{own, exit}, true)
	}
	if err != nil {
		cs.stats.Garbage++
		ch.fail(now)
		return true
	}
	ch.heard = now
	ch.vouch(now)
	ch.up(ch.exit.Peer)
	return true
}

// vouch makes a voucher for the exit.
func (ch *Channel) vouch(now time.Time) {
	v := &relaypb.Voucher{Exit: []byte(ch.exit.Peer.ID), TimeMs: uint64(now.UnixMilli())}
	ch.voucher, ch.vouchedAt = ch.guest.Sign(wire.DomainGuest, wire.Encode(v)).Raw, now
}

// Send implements env.Network for the guest. Nothing goes to the reader's own node, nor to the middle, which would
// then know both the reader and the feed.
func (ch *Channel) Send(to env.Peer, _ env.Class, frame []byte) {
	if ch.sealer == nil || to.ID == ch.self || to.ID == ch.middle.Peer.ID || !mayPass(frame) {
		return
	}
	now := ch.clock.Now()
	if now.Sub(ch.vouchedAt) > voucherRenewal {
		ch.vouch(now)
	}
	p := &relaypb.Passage{Peer: []byte(to.ID), Frame: frame}
	if ch.encapsulated != nil || now.Sub(ch.vouchedAt) < voucherTime {
		p.Voucher = ch.voucher
	}
	for _, a := range to.Addrs {
		p.Addresses = append(p.Addresses, []byte(a))
	}
	d, err := ch.sealer.seal(p)
	if err != nil {
		ch.stats.TooLarge++
		return
	}
	d.Circuit, d.Encapsulated = ch.number, ch.encapsulated
	ch.sendData(ch.middle.Peer, d)
}

// onData hands a frame to its guest, and reports whether the circuit is one of this reader's.
func (cs *channels) onData(from env.PeerID, d *relaypb.Data) bool {
	ch := cs.of(from, d.Circuit)
	if ch == nil || ch.sealer == nil {
		return ch != nil
	}
	p, err := ch.sealer.open(d)
	if err != nil || !mayPass(p.Frame) {
		cs.stats.Garbage++
		return true
	}
	if ch.encapsulated != nil {
		cs.stats.Opened++
		ch.encapsulated, ch.pause = nil, time.Second
	}
	ch.heard = cs.clock.Now()
	ch.receive(env.PeerID(p.Peer), p.Frame)
	return true
}

// onClose gives up a circuit that the middle or the exit has closed, and reports whether it is one of this reader's.
func (cs *channels) onClose(from env.PeerID, m *relaypb.Close) bool {
	ch := cs.of(from, m.Circuit)
	if ch != nil {
		ch.fail(cs.clock.Now())
	}
	return ch != nil
}
