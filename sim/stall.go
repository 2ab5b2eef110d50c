package sim

import "time"

// A stall keeps a host from handling events when they arrive. They wait in a queue.
type stall struct {
	serviceTime   int64 // how long the host takes for one event
	busyUntil     int64 // until when it handles no event
	waiting       []event
	resumePending bool // an event is scheduled at which the host handles the queue
}

// SetServiceTime sets how long the host takes to handle an event: frames, alarms and answers alike,
// one after the other. Zero, the default, means at once. A crash ends it, and it has no effect on a
// host that is down.
func (h *Host) SetServiceTime(each time.Duration) {
	if h.node == nil || each == 0 && h.stall == nil {
		return
	}
	h.ensureStall().serviceTime = int64(each)
	h.scheduleResume()
}

// Pause stops the host for d, like a process that gets no processor or a machine that sleeps. Its
// clock goes on. Events that arrive meanwhile, alarms included, are handled when the pause is over.
// A crash ends it.
func (h *Host) Pause(d time.Duration) {
	if h.node == nil {
		return
	}
	s := h.ensureStall()
	s.busyUntil = max(s.busyUntil, h.lane.now+int64(d))
	h.scheduleResume()
}

// Stalled reports whether events may be waiting at the host.
func (h *Host) Stalled() bool { return h.stall != nil }

func (h *Host) ensureStall() *stall {
	if h.stall == nil {
		h.stall = &stall{}
	}
	return h.stall
}

// defers queues an event, and returns true, if the host cannot handle it now.
func (s *stall) defers(h *Host, e *event) bool {
	if len(s.waiting) == 0 && s.busyUntil <= h.lane.now {
		s.busyUntil = h.lane.now + s.serviceTime
		return false
	}
	s.waiting = append(s.waiting, *e)
	h.scheduleResume()
	return true
}

// scheduleResume makes sure that the queue is handled when the host is free.
func (h *Host) scheduleResume() {
	s := h.stall
	if !s.resumePending {
		s.resumePending = true
		h.lane.schedule(max(s.busyUntil, h.lane.now), h, eventResume, 0)
	}
}

// resume handles queued events, as many as the service time allows.
func (h *Host) resume() {
	s, l := h.stall, h.lane
	s.resumePending = false
	for len(s.waiting) > 0 && s.busyUntil <= l.now {
		e := s.waiting[0]
		s.waiting = s.waiting[1:]
		s.busyUntil = l.now + s.serviceTime
		l.handle(&e)
	}
	switch {
	case len(s.waiting) > 0 || s.busyUntil > l.now && s.serviceTime == 0:
		h.scheduleResume()
	case s.serviceTime == 0:
		h.stall = nil
		h.impairedAt = l.now
	}
}

// dropStall discards a stall and its queue when the host's life ends.
func (h *Host) dropStall() {
	if s := h.stall; s != nil {
		h.stall, h.impairedAt = nil, h.lane.now
		for _, e := range s.waiting {
			h.lane.handle(&e) // void by now; this only frees its payload
		}
	}
}

// LastImpaired returns the time at which something last kept a host that is up from receiving,
// sending or acting as it should: a stall, a partition, a clock jump, or a network that loses more
// than heavyLoss of all frames. Other nodes rightly may have taken it for dead.
func (h *Host) LastImpaired() time.Time {
	w := h.world
	at := max(h.impairedAt, w.healedAt, w.lossEndedAt)
	if h.stall != nil || w.partitioned() || w.config.NetworkFaults.Loss > heavyLoss {
		at = w.scriptLane.now
	}
	return instant(at)
}

// heavyLoss is the loss above which live members are taken for dead.
const heavyLoss = 0.05
