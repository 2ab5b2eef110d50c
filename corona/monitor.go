package corona

import (
	"bytes"
	"maps"
	"time"

	"google.golang.org/protobuf/proto"

	"tidings/corona/coronapb"
	"tidings/honeycomb"
	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay"
)

// minStateGap is the least time between two messages to subscribers about failing polls. Subscribers
// cannot compute when the next poll after a failure is due, so every failure is worth a message, but
// no more often than this.
const minStateGap = time.Minute

// monitor knows how the polls of the channels go that this node leads, and tells their subscribers.
type monitor struct {
	*base
	permits *permits
	polls   func(key overlay.ID) bool           // whether this node polls a channel
	fetch   func(l *leaderState, now time.Time) // fetches a channel at once
	order   func(l *leaderState, pollers int, now time.Time)
}

// noteFailure takes a report of a failed poll; from is empty if this node made the poll. The
// channel counts as failing when at least half of its pollers fail.
func (mo *monitor) noteFailure(l *leaderState, from env.PeerID, s State, declined bool, now time.Time) {
	defer mo.tellFailing(l, now)
	if l.failing == nil {
		l.failing = map[env.PeerID]failureReport{}
	}
	if _, known := l.failing[from]; known || len(l.failing) < maxFailing {
		l.failing[from] = failureReport{s, now, declined}
	}
	l.recoveredAt = env.Never
	if s.Kind == coronapb.State_LIMITED {
		mo.checkRateLimit(l, now)
	}
	if s.Kind == coronapb.State_GONE && l.state.Kind != s.Kind && l.failing[""].state.Kind != s.Kind {
		s.Kind = coronapb.State_MISSING // until this node has seen it, because one node polls a feed that is gone, and rarely
		mo.check(l, now)
	}
	if 2*mo.failingPollers(l) < l.pollers && l.state.Kind != coronapb.State_NEW {
		return
	}
	if from != "" {
		if now.Sub(l.failureSentAt.Time()) < minStateGap {
			return // other nodes cannot cause more messages than this
		}
		l.failureSentAt = env.MomentOf(now)
	}
	l.state.Polled = now
	mo.setState(l, s, now)
	if s.Kind == coronapb.State_GONE && l.pollers > 1 {
		clear(l.failing) // they poll no longer
		mo.order(l, 1, now)
	}
}

// failingPollers counts the pollers whose last poll failed. A node that has declined is none any more.
func (mo *monitor) failingPollers(l *leaderState) (n int) {
	for from, i := range l.failing {
		if !i.declined && (from != "" || mo.polls(l.key)) {
			n++
		}
	}
	return n
}

// tellFailing tells all pollers how many nodes cannot read the channel, if that has changed.
func (mo *monitor) tellFailing(l *leaderState, now time.Time) {
	if n := l.unreadable(); n != l.failingTold {
		l.failingTold = n
		_ = mo.wedges.Broadcast(l.key, wire.Encode(l.snapshotMessage(0, now))) // without a wedge there are no pollers
	}
}

// checkRateLimit stops all pollers of a channel when two nodes have seen that the origin asks for
// fewer requests. A single liar must not be able to stop a feed. Anybody can write a report, so one
// of the two must be this node, which fetches the channel when another node has reported the limit.
func (mo *monitor) checkRateLimit(l *leaderState, now time.Time) {
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
		if until := l.domain.limitedUntil; until > l.limitedUntil {
			l.limitedUntil = until
			_ = mo.wedges.Broadcast(l.key, wire.Encode(l.snapshotMessage(0, now))) // without a wedge there are no pollers
		}
	default:
		mo.check(l, now)
	}
}

// check fetches a channel of which another node has reported something that this node has not seen, once in an interval.
func (mo *monitor) check(l *leaderState, now time.Time) {
	if l.fetching == 0 && now.Sub(l.fetchedAt.Time()) > l.interval {
		mo.fetch(l, now)
	}
}

// maxFailing bounds the failing pollers of one channel that are remembered.
const maxFailing = 1024

// forgetFailing forgets pollers that have not repeated that their polls fail. Nodes that have
// declined poll no more, and count until another node succeeds, for a day at most.
func (mo *monitor) forgetFailing(l *leaderState, now time.Time) {
	for from, i := range l.failing {
		patience := 2 * max(l.interval, min(i.state.Next.Sub(i.at), maxPublicInterval))
		if i.declined {
			patience = maxPublicInterval
		}
		if now.Sub(i.at) > patience {
			delete(l.failing, from)
		}
	}
	mo.noteRecovery(l, now) // a forgotten poller may have kept the channel failing although it no longer polls
}

// noteRecovery ends the failure of a channel if a poller has reported success since the last
// failure and most pollers do not fail.
func (mo *monitor) noteRecovery(l *leaderState, now time.Time) {
	if l.recoveredAt != env.Never && 2*mo.failingPollers(l) < l.pollers && l.state.Kind != coronapb.State_OK {
		l.state.Polled = l.recoveredAt.Time()
		mo.setState(l, State{Kind: coronapb.State_OK, Detail: l.detail}, now)
	}
}

// setState sets the state of a channel's polls, and tells subscribers if it has changed.
func (mo *monitor) setState(l *leaderState, s State, now time.Time) {
	if mo.estimateNext(l); s.Kind == coronapb.State_OK || mo.polls(l.key) && l.pollers == 1 {
		s.Next, s.Why = l.state.Next, l.state.Why
	} // otherwise the failing poller's report has them
	s.Polled, s.Since, s.Readers = l.state.Polled, now, mo.readers(l)
	s.Pollers, s.Interval, s.Lag = l.pollers, l.interval, l.lag
	s.Budget = mo.permits.pollerLimit(l.domain, l.permit, s.Readers, l.interval)
	if mo.cfg.Cut == honeycomb.Levels {
		s.Level = l.level + 1
	}
	same := s.Kind == l.state.Kind && s.Detail == l.state.Detail && s.Moved == l.state.Moved
	if same {
		s.Since = l.state.Since
	}
	s.Hub, s.HubFault = "", ""
	if p := l.push; p != nil {
		if s.HubFault = p.fault; p.pushed() {
			s.Hub = p.hub()
		}
	}
	if was := l.state.Readers; (s.Readers-was)*16 <= was && (was-s.Readers)*16 <= was {
		s.Readers = was // too small a change for a message
	}
	urgency := NotUrgent
	switch {
	case !same:
		urgency = AtOnce
	case s.Readers != l.state.Readers, s.Hub != l.state.Hub, s.HubFault != l.state.HubFault, differMuch(float64(s.Pollers), float64(l.state.Pollers)),
		s.Lag > 2*l.state.Lag || l.state.Lag > 2*s.Lag, s.Kind != coronapb.State_OK && now.Sub(l.stateSentAt.Time()) >= minStateGap:
		urgency = Soon
	}
	if urgency != NotUrgent {
		l.stateSentAt = env.MomentOf(now)
	}
	l.state = s
	if s.Kind == coronapb.State_OK {
		maps.DeleteFunc(l.failing, func(_ env.PeerID, i failureReport) bool { return i.declined })
	}
	mo.tellFailing(l, now)
	mo.app.StateChanged(l.key, s.Append(), urgency)
	if !same {
		mo.note(l)
	}
}

// onStatusReport receives a poller's report about its polls. The poller must have signed it
// recently and must be able to have a rank in the channel's wedge.
func (mo *monitor) onStatusReport(l *leaderState, m *coronapb.StatusReport) {
	now, of := mo.clock.Now(), new(coronapb.PollStatus)
	signed, err := mo.verifier.Open(wire.DomainReport, m.Status)
	if err != nil || proto.Unmarshal(signed.Payload, of) != nil || !bytes.Equal(of.Key, l.key[:]) || breaksStatus(of) != "" {
		mo.stats.Garbage++
		return
	}
	s, from := stateFrom(of.State), wire.PeerIDOf(signed.Key)
	id, err := mo.node.IDWith(from, m.Record)
	if err != nil {
		mo.stats.Garbage++
		return
	}
	if !mo.couldPoll(id, l) || now.Sub(s.Polled).Abs() > clockSlack+minStateGap {
		mo.stats.RefusedReports++
		return
	}
	if s.Kind == coronapb.State_OK {
		delete(l.failing, from)
		l.recoveredAt = env.MomentOf(now)
		mo.noteRecovery(l, now)
		return
	}
	mo.noteFailure(l, from, s, of.Declined, now)
}

// estimateNext estimates the next poll of a channel with several pollers, or with one other poller.
// Pollers do not announce their times, so the estimate assumes evenly spaced polls. With random
// phases it holds only on average.
func (mo *monitor) estimateNext(l *leaderState) {
	if l.pollers > 1 || !mo.polls(l.key) {
		l.state.Next, l.state.Why = l.state.Polled.Add(l.interval/time.Duration(max(l.pollers, 1))), l.why
		if mo.cfg.Random && l.pollers > 1 {
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
