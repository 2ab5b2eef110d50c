package daemon

import (
	"context"
	"log/slog"
	"time"

	"tidings/overlay"
)

const (
	// journalEvery is the time between two checks of what a journal logs.
	journalEvery = 5 * time.Second
	// failureEvery is how often the log says that a store still cannot be written.
	failureEvery = 5 * time.Minute
	// mendedAfter is how long no write may fail before the log says that the store can be written again. On a full disk
	// small records succeed between large ones that fail.
	recoveredAfter = time.Minute
)

// A journal logs the changes of a node that an operator has to know: whether it is in its network, and whether its stores
// can be written. It logs a change once, however many feeds it concerns.
type journal struct {
	log *slog.Logger

	connected bool // the node has been in contact with others
	lost      bool // the node has lost its network

	failures       uint64    // writes that had failed at the last check
	loggedFailures uint64    // writes that had failed when the log last said so
	failedAt       time.Time // when a write failed last; zero: the stores can be written
	loggedAt       time.Time // when the log last said so
}

// network logs that the node has found, lost or regained its network.
func (j *journal) network(s Snapshot) {
	connected := s.CutOff == nil && s.Size > 1 && (s.State == overlay.Active || s.State == overlay.Attached)
	lost := s.CutOff != nil || j.connected && s.Size <= 1
	switch {
	case connected && j.lost:
		j.log.Info("the node is in its network again", "members", s.Size)
	case connected && !j.connected:
		j.log.Info("the node has joined other nodes", "network", s.Network, "members", s.Size)
	case lost && !j.lost:
		j.log.Warn("no other node of the network answers; the node polls by itself")
	}
	j.connected = j.connected || connected
	j.lost = lost || j.lost && !connected
}

// stores logs that writes fail, and that they succeed again. failed counts the writes that have failed since the start, and
// why is the error of the last one, or empty if later ones succeeded.
func (j *journal) stores(failures uint64, why string, now time.Time) {
	switch {
	case failures > j.failures || why != "":
		if j.failedAt.IsZero() || now.Sub(j.loggedAt) >= failureEvery {
			j.log.Error("the store cannot be written; "+diskRemedy, "err", why, "failed_writes", failures-j.loggedFailures)
			j.loggedAt, j.loggedFailures = now, failures
		}
		j.failedAt = now
	case !j.failedAt.IsZero() && now.Sub(j.failedAt) >= recoveredAfter:
		j.log.Info("the store can be written again", "failed_writes", failures-j.loggedFailures)
		j.failedAt, j.loggedFailures = time.Time{}, failures
	}
	j.failures = failures
}

// journal keeps the journal until ctx ends.
func (d *Daemon) runJournal(ctx context.Context) {
	j := journal{log: d.log}
	check := time.NewTicker(journalEvery)
	defer check.Stop()
	for {
		select {
		case <-check.C:
		case <-ctx.Done():
			return
		}
		own, keywords := d.disk.Stats(), d.keywords.disk.Stats()
		why := own.Failing
		if why == "" {
			why = keywords.Failing
		}
		j.stores(own.Failed+keywords.Failed, why, time.Now())
		if s, err := d.Snapshot(ctx); err == nil {
			j.network(s)
		}
	}
}
