package firehose

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"time"

	"tidings/cobra/firehose/firehosepb"
	"tidings/internal/env"
	"tidings/internal/wire"
	"tidings/overlay/owner"
)

// reporter is a node's part as the sequencer of channels: it reports their entries to the owners of one shard, until a
// quorum of them has accepted the report.
type reporter struct {
	*place
	transfers *transfers
	// toSelf delivers a report to this node, if it is an owner itself.
	toSelf func(report []byte, now time.Time) answer

	reports     map[owner.Hash]*report // reports under way by the hash of their entry; at most maxReports
	pausedUntil time.Time              // no filter listens, so that entries are not reported
}

// A report is an entry that is reported to the owners of its shard.
type report struct {
	hash      owner.Hash // of the entry
	payload   []byte
	createdAt time.Time
	epoch     owner.Hash // epoch whose owners are told; zero: none yet
	answers   map[env.PeerID]answer
}

const (
	// maxReports bounds the reports of a shard under way; at the bound the oldest is given up. At a million feeds one shard
	// has some 720 entries in reportDeadline by the paper's rate, and one node leads a part of the channels only.
	maxReports = 1024
	// reportDeadline is how long a report is tried. It is longer than the replacement of a dead owner takes.
	reportDeadline = 2 * time.Minute
	// reportRetry is the time between two tries.
	reportRetry = 5 * time.Second
	// idlePause is how long entries are not reported to a shard without filters.
	idlePause = 30 * time.Second
)

// add starts to report an entry of a channel, of which this node is the sequencer in epoch.
func (r *reporter) add(d Dispatch, epoch *owner.Epoch) {
	now, e := r.clock.Now(), d.Entry
	if r.reports[e.Hash] != nil {
		return
	}
	r.stats.Reported++
	if now.Before(r.pausedUntil) {
		r.stats.NoListener++
		return
	}
	if len(r.reports) >= maxReports {
		r.dropOldest()
	}
	rep := &report{
		hash: e.Hash, createdAt: now, answers: map[env.PeerID]answer{},
		payload: wire.Encode(&firehosepb.Report{Dispatch: d.bytes(), Epoch: epoch.Bytes()}),
	}
	r.reports[e.Hash] = rep
	r.sendReport(rep, now)
	r.schedule(reportRetry, task{kind: taskRetryReport, shard: r.number, entry: e.Hash})
}

func (r *reporter) dropOldest() {
	oldest := slices.MinFunc(slices.Collect(maps.Values(r.reports)), func(a, b *report) int {
		return cmp.Or(a.createdAt.Compare(b.createdAt), bytes.Compare(a.hash[:], b.hash[:]))
	})
	delete(r.reports, oldest.hash)
	r.stats.Unreported++
}

// sendReport sends a report to the owners that have not accepted it yet.
func (r *reporter) sendReport(rep *report, now time.Time) {
	e := r.tracker.Latest()
	if e == nil {
		r.tracker.Refresh()
		return
	}
	rep.epoch = e.Hash
	for _, p := range r.tracker.Owners() {
		switch {
		case rep.answers[p.ID].accepted:
		case p.ID == r.self:
			rep.answers[p.ID] = r.toSelf(rep.payload, now)
		default:
			r.transfers.start(r.number, p, rep.payload, func(a answer) {
				if r.reports[rep.hash] == rep {
					rep.answers[p.ID] = a
					r.checkQuorum(rep)
				}
			})
		}
	}
	r.checkQuorum(rep)
}

// sendReports sends all reports to the present owners.
func (r *reporter) sendReports(now time.Time) {
	for _, h := range sortedHashes(r.reports) {
		if rep := r.reports[h]; rep != nil {
			r.sendReport(rep, now)
		}
	}
}

// checkQuorum finishes a report that a quorum of the owners has accepted. It gives the other owners some seconds to answer,
// so that all of them get the entry.
func (r *reporter) checkQuorum(rep *report) {
	e := r.tracker.Latest()
	if e == nil || e.Hash != rep.epoch {
		return
	}
	accepted, idle, answered := 0, 0, 0
	for _, p := range e.Owners {
		if a, ok := rep.answers[p]; ok {
			answered++
			if a.accepted {
				accepted++
			}
			if a.idle {
				idle++
			}
		}
	}
	if accepted < e.Quorum() || answered < len(e.Owners) && r.clock.Now().Sub(rep.createdAt) < reportRetry {
		return
	}
	delete(r.reports, rep.hash)
	if idle == accepted {
		r.pause(r.clock.Now())
	}
}

// pause stops reporting for a while, because no filter listens to the shard.
func (r *reporter) pause(now time.Time) {
	r.pausedUntil = now.Add(idlePause)
	r.stats.NoListener += uint64(len(r.reports))
	clear(r.reports)
}

// retry sends a report again that no quorum has accepted, or gives it up.
func (r *reporter) retry(hash owner.Hash, now time.Time) {
	rep := r.reports[hash]
	if rep == nil {
		return
	}
	if r.checkQuorum(rep); r.reports[hash] == nil {
		return
	}
	if now.Sub(rep.createdAt) > reportDeadline {
		delete(r.reports, hash)
		r.stats.Unreported++
		r.log.Warn("entry could not be reported to filters, because the owners of its shard did not answer", "shard", r.number)
		return
	}
	r.tracker.Refresh() // the shard may have other owners by now
	r.sendReport(rep, now)
	r.schedule(reportRetry, task{kind: taskRetryReport, shard: r.number, entry: hash})
}
