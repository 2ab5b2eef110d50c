package corona

import (
	"bytes"
	"time"

	"google.golang.org/protobuf/proto"

	"tidings/corona/coronapb"
	"tidings/honeycomb"
	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
)

const (
	// minStateGap is the least time between two messages to subscribers about failing polls.
	// Subscribers cannot compute when the next poll after a failure is due, so every failure is
	// worth a message, but no more often than this.
	minStateGap = time.Minute
)

// noteFailure takes a report of a failed poll; from is empty if this node made the poll. The
// channel counts as failing when at least half of its pollers fail.
func (sq *sequencer) noteFailure(l *leaderState, from env.PeerID, s State, now time.Time) {
	if l.failing == nil {
		l.failing = map[env.PeerID]failureReport{}
	}
	if _, known := l.failing[from]; known || len(l.failing) < maxFailing {
		l.failing[from] = failureReport{s, now}
	}
	l.recoveredAt = time.Time{}
	if s.Kind == coronapb.State_LIMITED {
		sq.checkRateLimit(l, now)
	}
	if 2*len(l.failing) < l.pollers && l.state.Kind != coronapb.State_NEW {
		return
	}
	if from != "" {
		if now.Sub(l.failureSentAt) < minStateGap {
			return // other nodes cannot cause more messages than this
		}
		l.failureSentAt = now
	}
	l.state.Polled = now
	sq.setState(l, s, now)
}

// checkRateLimit stops all pollers of a channel when two nodes have seen that the origin asks for
// fewer requests. A single liar must not be able to stop a feed. Anybody can write a report, so one
// of the two must be this node, which fetches the channel when another node has reported the limit.
func (sq *sequencer) checkRateLimit(l *leaderState, now time.Time) {
	seen := func(i failureReport) bool {
		return i.state.Kind == coronapb.State_LIMITED && now.Sub(i.at) <= l.interval
	}
	others := 0
	for from, i := range l.failing {
		if from != "" && seen(i) {
			others++
		}
	}
	switch own, polled := l.failing[""]; {
	case others == 0:
	case polled && seen(own):
		if until := l.domain.limitedUntil.time(); until.After(l.limitedUntil) {
			l.limitedUntil = until
			_ = sq.wedges.Broadcast(l.key, marshal(sq.snapshotMessage(l, 0))) // without a wedge there are no pollers
		}
	case l.fetching == 0 && now.Sub(l.fetchedAt) > l.interval:
		sq.fetchNow(l, now)
	}
}

// maxFailing bounds the failing pollers of one channel that are remembered.
const maxFailing = 1024

// forgetFailing forgets pollers that have not repeated that their polls fail.
func (sq *sequencer) forgetFailing(l *leaderState, now time.Time) {
	for from, i := range l.failing {
		if now.Sub(i.at) > 2*max(l.interval, min(i.state.Next.Sub(i.at), maxPublicInterval)) {
			delete(l.failing, from)
		}
	}
	sq.noteRecovery(l, now) // a forgotten poller may have kept the channel failing although it no longer polls
}

// noteRecovery ends the failure of a channel if a poller has reported success since the last
// failure and most pollers do not fail.
func (sq *sequencer) noteRecovery(l *leaderState, now time.Time) {
	if !l.recoveredAt.IsZero() && 2*len(l.failing) < l.pollers && l.state.Kind != coronapb.State_OK {
		l.state.Polled = l.recoveredAt
		sq.setState(l, State{Kind: coronapb.State_OK, Detail: l.detail}, now)
	}
}

// setState sets the state of a channel's polls, and tells subscribers if it has changed.
func (sq *sequencer) setState(l *leaderState, s State, now time.Time) {
	if sq.estimateNext(l); s.Kind == coronapb.State_OK || sq.poller.assignments.Get(l.key) != nil && l.pollers == 1 {
		s.Next, s.Why = l.state.Next, l.state.Why
	} // otherwise the failing poller's report has them
	s.Polled, s.Since, s.Readers = l.state.Polled, now, sq.readers(l)
	s.Pollers, s.Interval, s.Lag = l.pollers, l.interval, l.lag
	s.Budget = sq.permits.pollerLimit(l.domain, l.permit, s.Readers, l.interval)
	if sq.cfg.Cut == honeycomb.Levels {
		s.Level = l.level + 1
	}
	same := s.Kind == l.state.Kind && s.Detail == l.state.Detail && s.Moved == l.state.Moved
	if same {
		s.Since = l.state.Since
	}
	if was := l.state.Readers; (s.Readers-was)*16 <= was && (was-s.Readers)*16 <= was {
		s.Readers = was // too small a change for a message
	}
	urgency := NotUrgent
	switch {
	case !same:
		urgency = AtOnce
	case s.Readers != l.state.Readers, differMuch(float64(s.Pollers), float64(l.state.Pollers)),
		s.Lag > 2*l.state.Lag || l.state.Lag > 2*s.Lag, s.Kind != coronapb.State_OK && now.Sub(l.stateSentAt) >= minStateGap:
		urgency = Soon
	}
	if urgency != NotUrgent {
		l.stateSentAt = now
	}
	l.state = s
	sq.app.StateChanged(l.key, s.Append(), urgency)
	if !same {
		sq.note(l)
	}
}

// onStatusReport receives a poller's report about its polls. The poller must have signed it
// recently and must be able to have a rank in the channel's wedge.
func (sq *sequencer) onStatusReport(l *leaderState, m *coronapb.StatusReport) {
	now, of := sq.clock.Now(), new(coronapb.PollStatus)
	signed, err := sq.verifier.Open(wire.DomainReport, m.Status)
	if err != nil || proto.Unmarshal(signed.Payload, of) != nil || !bytes.Equal(of.Key, l.key[:]) || breaksStatus(of) != "" {
		sq.stats.Garbage++
		return
	}
	s, from := stateFrom(of.State), wire.PeerIDOf(signed.Key)
	if !sq.intake.couldPoll(overlay.NodeID(sq.cfg.Network, from), l) || now.Sub(s.Polled).Abs() > clockSlack+minStateGap {
		sq.stats.Unheard++
		return
	}
	if s.Kind == coronapb.State_OK {
		delete(l.failing, from)
		l.recoveredAt = now
		sq.noteRecovery(l, now)
		return
	}
	sq.noteFailure(l, from, s, now)
}

// estimateNext estimates the next poll of a channel with several pollers, or with one other poller.
// Pollers do not announce their times, so the estimate assumes evenly spaced polls. With random
// phases it holds only on average.
func (sq *sequencer) estimateNext(l *leaderState) {
	if l.pollers > 1 || sq.poller.assignments.Get(l.key) == nil {
		l.state.Next, l.state.Why = l.state.Polled.Add(l.interval/time.Duration(max(l.pollers, 1))), l.why
		if sq.cfg.Random && l.pollers > 1 {
			l.state.Why = "on average, because phases are random: " + l.why
		}
	}
}

// View returns the state of a channel's polls; ok is false if this node does not lead the channel.
func (sq *sequencer) View(key overlay.ID) (View, bool) {
	l := sq.leaders[key]
	if l == nil {
		return View{}, false
	}
	s := l.state
	if d := sq.poller.assignments.Get(key); d == nil || l.pollers > 1 {
		now := sq.clock.Now()
		s = s.Projected(now, now)
	}
	return View{State: s, Known: l.known.Len()}, true
}
