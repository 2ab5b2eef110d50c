package overlay

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay/overlaypb"
)

// base are what every component of a node needs of the world and of the node's identity.
type base struct {
	cfg     Config
	clock   env.Clock
	net     env.Network
	rand    *rand.Rand
	log     *slog.Logger
	records *Records
	cal     env.Calendar[task]
	stats   Stats

	self    *Contact
	place   place // what the node's id as a member is made of
	state   State
	started time.Time

	revocations revocationLists
}

// A task is an entry of the node's schedule. Its subject may be gone when its time comes.
type task struct {
	kind taskKind
	peer env.PeerID
	n    uint64
}

type taskKind uint8

const (
	taskProbe        taskKind = iota // a probe is unanswered; n: nonce
	taskHop                          // a hop did not acknowledge; n: message
	taskRetry                        // the root did not acknowledge; n: message
	taskHoldExpired                  // a message has been held long enough; n: message
	taskJoin                         // take the next step of a join
	taskWatch                        // probe watched members that are silent
	taskGossip                       // compare leaves after a change
	taskRow                          // ask the next contact of the table
	taskSlotSearch                   // a Find of a slot search is unanswered; n: nonce
	taskLookupQuery                  // a Find of a lookup is unanswered; n: nonce
	taskSelfLookup                   // look up the node's own id
	taskStartLookups                 // start queued lookups
	taskRowTimeout                   // a RowRequest is unanswered
	taskCheckDepth                   // check whether the leaf still calls for another depth
	taskDead                         // probe a peer that is remembered as dead
	taskEntryPoints                  // take the next step of a check of the entry points
	taskSave                         // save the current peers
	taskCertificate                  // get a certificate, or news of authorities
	taskHosts                        // look for more members that act for this client
	taskSlot                         // a place that another member had may be free
)

// at schedules a task for a time, and after for a time from now.
func (b *base) at(t time.Time, what task)         { b.cal.Add(t, what) }
func (b *base) after(in time.Duration, what task) { b.cal.Add(b.clock.Now().Add(in), what) }

// send sends a message, together with the node's record until the peer is known to have it.
func (b *base) send(p *peer, m *overlaypb.Message) { b.sendAs(p, env.Control, m) }

func (b *base) sendAs(p *peer, class env.Class, m *overlaypb.Message) {
	_, ack := m.Body.(*overlaypb.Message_Ack)
	if !p.knowsMe && !ack { // the receiver of an acknowledgement sent to this node, so it knows it
		m.Record = b.self.Raw
		p.recordSent = true
	}
	f := b.encode(m)
	switch m.Body.(type) {
	case *overlaypb.Message_Route, *overlaypb.Message_Ack:
		b.stats.Carrying++
		b.stats.CarryingBytes += uint64(len(f))
	}
	b.net.Send(p.addr(), class, f)
}

// encode encodes a message that is about to be sent, and counts it.
func (b *base) encode(m *overlaypb.Message) []byte {
	f := frame(m)
	b.stats.Sent++
	b.stats.Bytes += uint64(len(f))
	return f
}

// openRecords opens the records of a message. Invalid ones are counted and left out, and so are, without being
// counted, those of members whose certificates have expired or were revoked.
func (b *base) openRecords(records [][]byte) []*Contact {
	contacts := make([]*Contact, 0, len(records))
	for _, raw := range records {
		c, err := b.records.open(raw)
		if err != nil {
			b.stats.Garbage++
			continue
		}
		if b.admitted(c) {
			contacts = append(contacts, c)
		}
	}
	return contacts
}

func (b *base) randomID() (id ID) {
	for i := range id {
		id[i] = byte(b.rand.Uint32())
	}
	return id
}

// latestDecision returns the latest time of a decision that is believed.
func (b *base) latestDecision() uint64 { return uint64(b.clock.Now().Add(maxAhead).UnixMilli()) }

// maxAhead is the furthest that another clock may be ahead. A certificate is valid so long before the time at which it was
// signed. A decision about the depth that claims a later time is not believed; otherwise no later decision could ever
// replace it.
const maxAhead = 24 * time.Hour

// OpenRecord verifies a node's record that came with a message of a layer above.
func (b *base) OpenRecord(raw []byte) (*Contact, error) {
	c, err := b.records.open(raw)
	if err == nil && !b.admitted(c) {
		return nil, fmt.Errorf("%w: its certificate has expired or was revoked", ErrRecord)
	}
	return c, err
}

// OpenMember is OpenRecord for the record of a member. The id of a client is the hash of its key in every network, so
// that it costs nothing.
func (b *base) OpenMember(raw []byte) (*Contact, error) {
	c, err := b.OpenRecord(raw)
	if err == nil && !c.Member {
		return nil, fmt.Errorf("%w: it is no member", ErrRecord)
	}
	return c, err
}

// IDsCost reports whether the ids of members are made of something that costs more than a key.
func (b *base) IDsCost() bool { return b.cfg.Network.IDs != wire.KeyIDs }

// ID returns the node's own id.
func (b *base) ID() ID { return b.self.ID }

// Self returns the node's own record.
func (b *base) Self() *Contact { return b.self }

// State returns the stage of the node's membership.
func (b *base) State() State { return b.state }

// Parameters returns the parameters of the node's network.
func (b *base) Parameters() wire.Network { return b.cfg.Network }

// Network returns the name of the node's network, which is part of every id and key.
func (b *base) Network() string { return b.cfg.Network.Name }
