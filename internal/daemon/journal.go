package daemon

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"tidings/overlay"
)

const (
	// journalEvery is the time between two checks of what a journal logs.
	journalEvery = 5 * time.Second
	// contactChecks is the number of checks of which one looks whether a node that was once in contact with others still is, or is
	// again. That look takes time for each subscription.
	contactChecks = 3
	// failureEvery is how often the log repeats that a store cannot be written.
	failureEvery = 5 * time.Minute
	// recoveredAfter is how long no write may fail before the log says that the store can be written again.
	// On a full disk, small writes succeed between large ones that fail.
	recoveredAfter = time.Minute
)

// A journal logs changes of the node's state that an operator should know: whether the node is in its
// network, and whether its stores can be written. It logs each change once, however many feeds are concerned.
type journal struct {
	log *slog.Logger

	connected bool // the node has been in contact with others
	lost      bool // the node has lost its network

	failures       uint64    // failed writes up to the last check
	loggedFailures uint64    // failed writes up to the last log line about them
	failedAt       time.Time // time of the last failed write; zero: the stores can be written
	loggedAt       time.Time // time of the last log line about failed writes
}

// network logs that the node has found, lost or regained its network.
func (j *journal) network(s Contact) {
	connected := !s.alone() && (s.State == overlay.Active || s.State == overlay.Attached)
	lost := s.CutOff != nil || j.connected && s.alone()
	members := any(s.Size)
	if s.Size == 0 {
		members = "unknown to a client"
	}
	switch {
	case connected && j.lost:
		j.log.Info("the node is in its network again", "members", members)
	case connected && !j.connected:
		j.log.Info("the node has joined other nodes", "network", s.Network, "members", members)
	case lost && !j.lost:
		j.log.Warn("no other node of the network answers; the node polls by itself")
	}
	j.connected = j.connected || connected
	j.lost = lost || j.lost && !connected
}

// stores logs that writes fail, and that they succeed again. failures counts the failed writes since the
// start. why is the last error, empty if a later write succeeded.
func (j *journal) stores(failures uint64, why string, now time.Time) {
	switch {
	case failures > j.failures || why != "":
		if j.failedAt.IsZero() || now.Sub(j.loggedAt) >= failureEvery {
			j.log.Error("the store cannot be written", "err", why, "do", diskRemedy.String(), "failed_writes", failures-j.loggedFailures)
			j.loggedAt, j.loggedFailures = now, failures
		}
		j.failedAt = now
	case !j.failedAt.IsZero() && now.Sub(j.failedAt) >= recoveredAfter:
		j.log.Info("the store can be written again", "failed_writes", failures-j.loggedFailures)
		j.failedAt, j.loggedFailures = time.Time{}, failures
	}
	j.failures = failures
}

// runJournal keeps a journal until ctx ends.
func (st *status) runJournal(ctx context.Context) {
	j := journal{log: st.log}
	check := time.NewTicker(journalEvery)
	defer check.Stop()
	for checks := 1; ; checks++ {
		select {
		case <-check.C:
		case <-ctx.Done():
			return
		}
		own, keywords := st.disk.Stats(), st.keywords.disk.Stats()
		j.stores(own.Failed+keywords.Failed, cmp.Or(own.Failing, keywords.Failing), time.Now())
		if !st.hasJoined() || j.connected && checks%contactChecks != 0 {
			continue
		}
		var now Contact
		if st.do(ctx, func() { now = st.contact() }) == nil {
			j.network(now)
		}
	}
}
