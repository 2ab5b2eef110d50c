package sim

import "time"

// A stall is what keeps a host from handling events when they come: they wait, and
// are handled in the order in which they came.
type stall struct {
	each    int64 // how long the host takes for one
	busy    int64 // until when it handles none
	waiting []event
	roused  bool // an event is pending that goes on with those that wait
}

// SetPace says how long the host takes to handle an event from now on: frames, alarms
// and answers alike, one after the other. Zero is at once, as all hosts do unless told
// otherwise. A crash ends it; a host that is down has no pace.
func (h *Host) SetPace(each time.Duration) {
	if h.node == nil || each == 0 && h.stall == nil {
		return
	}
	h.stalled().each = int64(each)
	h.rouse()
}

// Pause stops the host for d, as a process is that gets no processor, or a machine
// that sleeps: its clock goes on, and all that comes to it meanwhile, its alarms
// included, is handled when it goes on. A crash ends it.
func (h *Host) Pause(d time.Duration) {
	if h.node == nil {
		return
	}
	s := h.stalled()
	s.busy = max(s.busy, h.lane.now+int64(d))
	h.rouse()
}

// Stalled says whether something that has come to the host may wait there.
func (h *Host) Stalled() bool { return h.stall != nil }

func (h *Host) stalled() *stall {
	if h.stall == nil {
		h.stall = &stall{}
	}
	return h.stall
}

// delay has an event wait if the host cannot handle it now.
func (s *stall) delay(h *Host, e *event) bool {
	if len(s.waiting) == 0 && s.busy <= h.lane.now {
		s.busy = h.lane.now + s.each
		return false
	}
	s.waiting = append(s.waiting, *e)
	h.rouse()
	return true
}

// rouse sees to it that the host goes on when it can.
func (h *Host) rouse() {
	s := h.stall
	if !s.roused {
		s.roused = true
		h.lane.push(max(s.busy, h.lane.now), h, rouse, 0)
	}
}

// goOn handles what has waited, as far as the host's pace allows.
func (h *Host) goOn() {
	s, l := h.stall, h.lane
	s.roused = false
	for len(s.waiting) > 0 && s.busy <= l.now {
		e := s.waiting[0]
		s.waiting = s.waiting[1:]
		s.busy = l.now + s.each
		l.handle(&e)
	}
	switch {
	case len(s.waiting) > 0 || s.busy > l.now && s.each == 0:
		h.rouse()
	case s.each == 0:
		h.stall = nil
		h.hinderedAt = l.now
	}
}

// forgetStall ends a stall with the life of its host.
func (h *Host) forgetStall() {
	if s := h.stall; s != nil {
		h.stall, h.hinderedAt = nil, h.lane.now
		for _, e := range s.waiting {
			h.lane.handle(&e) // void: what it carries leaves its slab
		}
	}
}

// Hindered returns when something last kept a host that is up from hearing, speaking
// or acting as it should: a stall, a partition, a leap of its clock, or a network that
// loses more than heavyLoss of all frames. Others may have taken it for dead, rightly so.
func (h *Host) Hindered() time.Time {
	w := h.world
	at := max(h.hinderedAt, w.partedAt, w.lossyAt)
	if h.stall != nil || w.parted() || w.config.Faults.Loss > heavyLoss {
		at = w.own.now
	}
	return instant(at)
}

// heavyLoss is the part of all frames at which members are taken for dead that are not.
const heavyLoss = 0.05
