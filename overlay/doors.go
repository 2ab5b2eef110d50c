package overlay

import (
	"log/slog"
	"math/rand/v2"
	"time"

	"tidings/internal/env"
	"tidings/overlay/overlaypb"
)

// doors are what every component of a node needs of the world and of the node's identity.
type doors struct {
	cfg     Config
	clock   env.Clock
	net     env.Network
	rand    *rand.Rand
	log     *slog.Logger
	records *Records
	cal     env.Calendar[task]
	stats   Stats

	self    *Contact
	state   State
	started time.Time
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
	taskSave                         // save the current peers
)

// at schedules a task for a time, and after for a time from now.
func (d *doors) at(t time.Time, what task)         { d.cal.Add(t, what) }
func (d *doors) after(in time.Duration, what task) { d.cal.Add(d.clock.Now().Add(in), what) }

// send sends a message, together with the node's record until the peer is known to have it.
func (d *doors) send(p *peer, m *overlaypb.Message) { d.sendAs(p, env.Control, m) }

func (d *doors) sendAs(p *peer, class env.Class, m *overlaypb.Message) {
	_, ack := m.Body.(*overlaypb.Message_Ack)
	if !p.knowsMe && !ack { // the receiver of an acknowledgement sent to this node, so it knows it
		m.Record = d.self.Raw
		p.recordSent = true
	}
	f := d.encode(m)
	switch m.Body.(type) {
	case *overlaypb.Message_Route, *overlaypb.Message_Ack:
		d.stats.Carrying++
		d.stats.CarryingBytes += uint64(len(f))
	}
	d.net.Send(p.addr(), class, f)
}

// encode encodes a message that is about to be sent, and counts it.
func (d *doors) encode(m *overlaypb.Message) []byte {
	f := frame(m)
	d.stats.Sent++
	d.stats.Bytes += uint64(len(f))
	return f
}

// openRecords opens the records of a message. Invalid ones are counted and left out.
func (d *doors) openRecords(records [][]byte) []*Contact {
	contacts := make([]*Contact, 0, len(records))
	for _, raw := range records {
		c, err := d.records.open(raw)
		if err != nil {
			d.stats.Garbage++
			continue
		}
		contacts = append(contacts, c)
	}
	return contacts
}

func (d *doors) randomID() (id ID) {
	for i := range id {
		id[i] = byte(d.rand.Uint32())
	}
	return id
}

// latestDecision returns the latest time of a decision that is believed.
func (d *doors) latestDecision() uint64 { return uint64(d.clock.Now().Add(maxAhead).UnixMilli()) }

// maxAhead is the furthest that another clock may be ahead. A decision about the depth that
// claims a later time is not believed; otherwise no later decision could ever replace it.
const maxAhead = 24 * time.Hour

// OpenRecord verifies a node's record that came with a message of a layer above.
func (d *doors) OpenRecord(raw []byte) (*Contact, error) {
	return d.records.open(raw)
}

// ID returns the node's own id.
func (d *doors) ID() ID { return d.self.ID }

// Self returns the node's own record.
func (d *doors) Self() *Contact { return d.self }

// State returns the stage of the node's membership.
func (d *doors) State() State { return d.state }

// Network returns the name of the node's network, which is part of every id and key.
func (d *doors) Network() string { return d.cfg.Network.Name }
