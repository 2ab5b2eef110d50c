package relay

import (
	"bytes"
	"crypto/ecdh"
	"errors"
	"maps"
	"time"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
	"tidings/overlay/relay/relaypb"
)

const (
	// maxCircuits bounds the circuits of one member, as middle and exit together. Each costs about 4 KiB.
	maxCircuits = 256
	// maxCircuitsFromPeer bounds those that one peer opens, so that a few readers cannot take all. A reader needs one
	// for each quiet subscription, and a middle brings those of many readers to few exits.
	maxCircuitsFromPeer = 64
	// circuitIdle is how long a circuit may be silent before its members forget it. A client exchanges messages with
	// its hosts four times in a minute.
	circuitIdle = 2 * time.Minute
	// circuitRate is how many bytes a second one circuit may carry in the long run, padding included, and circuitBurst
	// how many at once: the log of a large feed, which is pulled at the start.
	circuitRate, circuitBurst = 64 << 10, 4 << 20
	// memberRate and memberBurst bound all circuits of a member together. A quiet subscription costs some 200 bytes a
	// second, so that all circuits of a member together need a tenth of it.
	memberRate, memberBurst = 512 << 10, 16 << 20
	// peerRate and peerBurst bound how many circuits a second one peer may open, and how many peers that this member does not know
	// it may be made to dial in them: otherwise a stranger could have members dial any addresses in their own name, as often
	// as it likes. A guest talks to some dozens of members.
	peerRate, peerBurst = 4, 512
)

// A meter measures out bytes: so many at once, and so many a second in the long run.
type meter struct {
	spent float64 // of the burst, until at
	at    time.Time
}

// allow reports whether n more bytes may pass now, and counts them if so.
func (m *meter) allow(now time.Time, n, rate, burst int) bool {
	m.spent = max(0, m.spent-now.Sub(m.at).Seconds()*float64(rate))
	m.at = now
	if m.spent+float64(n) > float64(burst) {
		return false
	}
	m.spent += float64(n)
	return true
}

// A link is one end of a link of a circuit: the peer at its other end, and the number of the circuit between the two.
type link struct {
	peer   env.PeerID
	number uint64
}

// An opener is a peer that has opened circuits.
type opener struct {
	circuits int
	work     meter // circuits opened, and peers dialled for them
}

// A circuit is what a member knows of one.
type circuit struct {
	ends  [2]link // towards the reader and towards the exit; an exit has only the first
	heard time.Time
	meter meter

	// At the exit:
	private *ecdh.PrivateKey // until the reader has used its public half
	sealer  *sealer          // nil: the reader has sent nothing yet
	dialled map[string]bool  // unknown peers to which the reader has sent something, with their addresses; at most peerBurst
	guest   env.PeerID       // for whom the circuit speaks; "": not known yet
	voucher []byte
	issued  uint64 // time of the voucher
}

// circuits are those that lead through this member, or end here.
type circuits struct {
	*common
	guests  *guests
	byLink  map[link]*circuit       // a middle's circuit has two entries
	byGuest map[env.PeerID]*circuit // of which this member is the exit
	openers map[env.PeerID]*opener
	open    int
	meter   meter // all of them
}

var errVoucher = errors.New("no valid voucher of the guest")

// onOpen opens a circuit, as the middle or as the exit.
func (cs *circuits) onOpen(from env.PeerID, m *relaypb.Open) error {
	first, by := link{from, m.Circuit}, cs.openers[from]
	if by == nil {
		by = &opener{}
		cs.openers[from] = by
	}
	switch {
	case cs.byLink[first] != nil:
		return nil // repeated
	case cs.node.State() != overlay.Active, cs.open >= maxCircuits, by.circuits >= maxCircuitsFromPeer, !by.work.allow(cs.clock.Now(), 1, peerRate, peerBurst):
		cs.stats.Declined++
		cs.close(cs.peer(from), m.Circuit)
		return nil
	}
	c := &circuit{heard: cs.clock.Now()}
	c.ends[0] = first
	if len(m.Exit) == 0 {
		c.private = newKey(cs.rand)
		key := cs.signer.Sign(wire.DomainRelay, c.private.PublicKey().Bytes()).Raw
		cs.sendMessage(cs.peer(from), env.Control, &relaypb.Message{Body: &relaypb.Message_Opened{Opened: &relaypb.Opened{Circuit: m.Circuit, Key: key}}})
	} else {
		exit, err := cs.node.OpenRecord(m.Exit)
		if err != nil {
			return err
		}
		if !exit.Member || exit.Peer.ID == cs.self || exit.Peer.ID == from {
			cs.close(cs.peer(from), m.Circuit)
			return nil
		}
		c.ends[1] = link{exit.Peer.ID, cs.rand.Uint64()}
		cs.byLink[c.ends[1]] = c
		cs.sendMessage(exit.Peer, env.Control, &relaypb.Message{Body: &relaypb.Message_Open{Open: &relaypb.Open{Circuit: c.ends[1].number}}})
	}
	cs.byLink[first] = c
	by.circuits++
	cs.open++
	return nil
}

// otherEnd returns the other end of a middle's circuit; ok is false if this member is its exit.
func (c *circuit) otherEnd(of link) (other link, ok bool) {
	if of == c.ends[1] {
		return c.ends[0], true
	}
	return c.ends[1], c.ends[1] != link{}
}

// onOpened passes the exit's key on to the reader.
func (cs *circuits) onOpened(from env.PeerID, m *relaypb.Opened) {
	at := link{from, m.Circuit}
	if c := cs.byLink[at]; c != nil && at == c.ends[1] {
		m.Circuit = c.ends[0].number
		cs.sendMessage(cs.peer(c.ends[0].peer), env.Control, &relaypb.Message{Body: &relaypb.Message_Opened{Opened: m}})
	}
}

// onData passes a sealed frame on, or opens it at the exit.
func (cs *circuits) onData(from env.PeerID, d *relaypb.Data) {
	at := link{from, d.Circuit}
	c := cs.byLink[at]
	if c == nil {
		cs.close(cs.peer(from), d.Circuit) // this member has restarted, or the circuit was idle for too long
		return
	}
	if !cs.allow(c, len(d.Sealed)) {
		return
	}
	c.heard = cs.clock.Now()
	if other, ok := c.otherEnd(at); ok {
		cs.stats.Carried++
		cs.stats.Bytes += uint64(len(d.Sealed))
		d.Circuit = other.number
		cs.sendData(cs.peer(other.peer), d)
		return
	}
	if err := cs.exit(c, d); err != nil {
		cs.stats.Garbage++ // the reader's fault, or the middle's; nobody can tell
	}
}

// allow reports whether a circuit may carry n more bytes.
func (cs *circuits) allow(c *circuit, n int) bool {
	now := cs.clock.Now()
	if c.meter.allow(now, n, circuitRate, circuitBurst) && cs.meter.allow(now, n, memberRate, memberBurst) {
		return true
	}
	cs.stats.Throttled++
	return false
}

// exit opens a sealed frame and sends it to the member that the reader has named.
func (cs *circuits) exit(c *circuit, d *relaypb.Data) error {
	if c.sealer == nil {
		s, err := newSealer(d.Encapsulated, c.private, false)
		if err != nil {
			return err
		}
		c.sealer, c.private = s, nil
	}
	p, err := c.sealer.open(d)
	if err != nil {
		return err
	}
	if len(p.Voucher) > 0 && !bytes.Equal(p.Voucher, c.voucher) {
		v, err := cs.guests.openVoucher(p.Voucher)
		if err != nil {
			return err
		}
		if v.exit != cs.self || c.guest != "" && c.guest != v.guest || v.guest == cs.self || !bytes.Equal(v.circuit, c.sealer.circuit) {
			return errVoucher
		}
		c.guest, c.voucher, c.issued = v.guest, p.Voucher, v.issued
		cs.byGuest[c.guest] = c
	}
	if !cs.guests.fresh(c.issued) || !mayPass(p.Frame) {
		return errVoucher
	}
	to := cs.peer(env.PeerID(p.Peer))
	switch {
	case to.ID == cs.self:
		cs.stats.Exited++
		return cs.receive(c.guest, p.Frame)
	case len(to.Addrs) > 0: // a contact; its record says where it is
	case cs.mayDial(c, p):
		for _, a := range p.Addresses {
			to.Addrs = append(to.Addrs, string(a))
		}
	default:
		cs.stats.Throttled++
		return nil
	}
	cs.stats.Exited++
	m := &relaypb.Message{Body: &relaypb.Message_Forward{Forward: &relaypb.Forward{Voucher: c.voucher, Frame: p.Frame}}}
	cs.sendMessage(to, classFor(len(p.Frame)), m)
	return nil
}

// mayDial reports whether the receiver of a frame, whom this member does not know, may be dialled.
func (cs *circuits) mayDial(c *circuit, p *relaypb.Passage) bool {
	where := string(p.Peer) + string(bytes.Join(p.Addresses, nil))
	if len(p.Addresses) == 0 || c.dialled[where] {
		return true
	}
	if !cs.openers[c.ends[0].peer].work.allow(cs.clock.Now(), 1, peerRate, peerBurst) {
		return false
	}
	if c.dialled == nil || len(c.dialled) >= peerBurst {
		c.dialled = map[string]bool{}
	}
	c.dialled[where] = true
	return true
}

// sendGuest sends a frame of this node to a guest whose exit it is, and reports whether it is.
func (cs *circuits) sendGuest(to env.PeerID, frame []byte) bool {
	c := cs.byGuest[to]
	if c != nil {
		cs.sendBack(c, cs.self, frame)
	}
	return c != nil
}

// onReturn brings a member's frame to the guest.
func (cs *circuits) onReturn(from env.PeerID, m *relaypb.Return) error {
	if !mayPass(m.Frame) {
		return env.ErrFrame
	}
	if c := cs.byGuest[env.PeerID(m.Guest)]; c != nil {
		cs.sendBack(c, from, m.Frame)
	}
	return nil
}

// sendBack seals a frame for the reader.
func (cs *circuits) sendBack(c *circuit, from env.PeerID, frame []byte) {
	d, err := c.sealer.seal(&relaypb.Passage{Peer: []byte(from), Frame: frame})
	if err != nil {
		cs.stats.TooLarge++
		return
	}
	if cs.allow(c, len(d.Sealed)) {
		cs.stats.Exited++
		d.Circuit = c.ends[0].number
		cs.sendData(cs.peer(c.ends[0].peer), d)
	}
}

// onClose ends a circuit that the peer at one of its ends has closed.
func (cs *circuits) onClose(from env.PeerID, m *relaypb.Close) {
	at := link{from, m.Circuit}
	if c := cs.byLink[at]; c != nil {
		if other, ok := c.otherEnd(at); ok {
			cs.close(cs.peer(other.peer), other.number)
		}
		cs.forget(c)
	}
}

// expire forgets circuits that have been idle for too long.
func (cs *circuits) expire(now time.Time) {
	for _, c := range maps.Clone(cs.byLink) {
		if now.Sub(c.heard) > circuitIdle {
			cs.forget(c)
		}
	}
	for peer, by := range cs.openers {
		if by.circuits == 0 && now.Sub(by.work.at) > circuitIdle {
			delete(cs.openers, peer)
		}
	}
}

// forget drops a circuit, unless it was dropped before.
func (cs *circuits) forget(c *circuit) {
	if cs.byLink[c.ends[0]] != c {
		return
	}
	delete(cs.byLink, c.ends[0])
	delete(cs.byLink, c.ends[1])
	if cs.byGuest[c.guest] == c {
		delete(cs.byGuest, c.guest)
	}
	cs.open--
	cs.openers[c.ends[0].peer].circuits--
}
