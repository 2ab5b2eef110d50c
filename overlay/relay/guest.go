package relay

import (
	"time"

	"google.golang.org/protobuf/proto"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay/relay/relaypb"
)

const (
	// maxGuests bounds the guests of other exits that one node knows. Frames of further ones are dropped, and the guest
	// asks other members.
	maxGuests = 1024
	// maxGuestsFromExit bounds those of one exit, so that no exit can take the room of all. It has no more circuits.
	maxGuestsFromExit = maxCircuits
	// guestIdle is how long a guest may be silent before it is forgotten. A client of this node speaks every 15 s.
	guestIdle = 5 * time.Minute
	// maxVoucherAge bounds how long an exit can speak for a guest that has left it, and how far clocks may differ.
	// voucherRenewal is the age at which a reader makes a new one, and voucherTime how long it sends that to the exit with
	// each frame, because frames may be lost.
	maxVoucherAge, voucherRenewal, voucherTime = time.Hour, 20 * time.Minute, 30 * time.Second
)

// A guest is a quiet follower as a member sees it: a client behind an exit.
type guest struct {
	exit   env.PeerID
	issued uint64 // time of the voucher
	heard  time.Time
}

// guests are those that have sent frames to this node.
type guests struct {
	*common
	byID map[env.PeerID]*guest
}

// A voucher is a guest's statement which exit speaks for it. All members that the guest talks to see it, so the exit
// accepts it in the guest's own circuit only.
type voucher struct {
	guest, exit env.PeerID
	issued      uint64
	circuit     []byte
}

// openVoucher verifies a voucher.
func (g *guests) openVoucher(raw []byte) (v voucher, err error) {
	signed, err := g.verify.Open(wire.DomainGuest, raw)
	if err != nil {
		return v, err
	}
	m := new(relaypb.Voucher)
	if err := proto.Unmarshal(signed.Payload, m); err != nil {
		return v, err
	}
	if m.TimeMs > wire.MaxMillis {
		return v, errVoucher
	}
	return voucher{wire.PeerIDOf(signed.Key), env.PeerID(m.Exit), m.TimeMs, m.Circuit}, nil
}

// fresh reports whether a voucher of a time is valid now.
func (g *guests) fresh(issued uint64) bool {
	return g.clock.Now().Sub(time.UnixMilli(int64(issued))).Abs() <= maxVoucherAge
}

// onForward hands a guest's frame to the layers of this node. What is wrong with the frame is the guest's fault and
// not the exit's, which cannot tell; what is wrong with the voucher is the exit's.
func (g *guests) onForward(from env.PeerID, m *relaypb.Forward) error {
	v, err := g.openVoucher(m.Voucher)
	switch {
	case err != nil:
		return err
	case v.exit != from || v.guest == g.self || !mayPass(m.Frame):
		return errVoucher
	case !g.fresh(v.issued): // by the clock of the exit it may be fresh
		g.stats.Declined++
		return nil
	}
	known := g.byID[v.guest]
	switch {
	case known == nil && (len(g.byID) >= maxGuests || g.fromExit(from) >= maxGuestsFromExit):
		g.stats.Declined++
		return nil
	case known == nil:
		known = &guest{exit: from, issued: v.issued}
		g.byID[v.guest] = known
	case v.issued < known.issued:
		return nil // the guest has another exit now
	}
	known.exit, known.issued, known.heard = from, v.issued, g.clock.Now()
	if g.receive(v.guest, m.Frame) != nil {
		g.stats.Garbage++
	}
	return nil
}

// fromExit returns the number of guests of an exit.
func (g *guests) fromExit(exit env.PeerID) (n int) {
	for _, known := range g.byID {
		if known.exit == exit {
			n++
		}
	}
	return n
}

// send sends a frame to a guest, and reports whether the peer is one.
func (g *guests) send(to env.PeerID, class env.Class, frame []byte) bool {
	known := g.byID[to]
	if known == nil {
		return false
	}
	if len(frame) > maxSealed {
		g.stats.TooLarge++
		return true
	}
	g.sendMessage(g.peer(known.exit), class, &relaypb.Message{Body: &relaypb.Message_Return{Return: &relaypb.Return{Guest: []byte(to), Frame: frame}}})
	return true
}

// expire forgets guests that have been silent for too long.
func (g *guests) expire(now time.Time) {
	for id, known := range g.byID {
		if now.Sub(known.heard) > guestIdle {
			delete(g.byID, id)
		}
	}
}
