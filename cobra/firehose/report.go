package firehose

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"time"

	"tidings/cobra/firehose/firehosepb"
	"tidings/internal/env"
	"tidings/overlay/owner"
)

// A report is an entry that a sequencer brings to the owners of its shard.
type report struct {
	hash      owner.Hash // of the entry
	payload   []byte
	createdAt time.Time
	epoch     owner.Hash // the epoch whose owners are being told; zero: nobody yet
	answers   map[env.PeerID]answer
}

// An answer is what an owner said of a report.
type answer struct {
	accepted, idle bool // else it refused, or did not answer
}

const (
	// maxReports bounds the reports of a shard that wait; the oldest is given up. At the
	// paper's rate of a million feeds two minutes of one shard's are 720, of all
	// channels; a node leads a part of them.
	maxReports = 1024
	// reportFor is how long owners are tried: longer than it takes until one that died
	// is replaced.
	reportDeadline = 2 * time.Minute
	// reportAgain is the time between two looks at a report that is not through.
	reportRetry = 5 * time.Second
	// idleFor is how long a shard is left alone when nobody listens.
	idlePause = 30 * time.Second
)

// Report brings an entry that a quorum holds to all filters. epoch is that in which this
// node is the sequencer of its key.
func (f *Firehose) Report(d Dispatch, epoch *owner.Epoch) {
	now, e := f.clock.Now(), d.Entry
	if !f.enabled() || e.Items == 0 || epoch == nil || now.Sub(e.Time) > maxEntryAge {
		return
	}
	s := f.shardOf(e.Key)
	if s.reports[e.Hash] != nil {
		return
	}
	f.stats.Reported++
	if now.Before(s.pausedUntil) {
		f.stats.Unheard++
		return
	}
	if len(s.reports) >= maxReports {
		f.dropOldestReport(s)
	}
	r := &report{
		hash: e.Hash, createdAt: now, answers: map[env.PeerID]answer{},
		payload: marshal(&firehosepb.Report{Dispatch: d.bytes(), Epoch: epoch.Bytes()}),
	}
	s.reports[e.Hash] = r
	f.sendReport(s, r, now)
	f.schedule(reportRetry, task{kind: taskRetryReport, shard: s.number, entry: e.Hash})
}

// giveUp gives up the oldest report of a shard.
func (f *Firehose) dropOldestReport(s *shard) {
	oldest := slices.MinFunc(slices.Collect(maps.Values(s.reports)), func(a, b *report) int {
		return cmp.Or(a.createdAt.Compare(b.createdAt), bytes.Compare(a.hash[:], b.hash[:]))
	})
	delete(s.reports, oldest.hash)
	f.stats.Unreported++
}

// sendReport sends a report to the owners who have not said that they have it.
func (f *Firehose) sendReport(s *shard, r *report, now time.Time) {
	e := s.owners.Latest()
	if e == nil {
		s.owners.Refresh()
		return
	}
	r.epoch = e.Hash
	for _, p := range s.owners.Owners() {
		if a, asked := r.answers[p.ID]; asked && a.accepted {
			continue
		}
		if p.ID == f.self {
			r.answers[p.ID] = answer{accepted: true, idle: f.idle(s, now)}
			f.receiveReport(s, r.payload, f.self, now)
			continue
		}
		f.transfer(s, p, r.payload, func(a answer) {
			if s.reports[r.hash] == r {
				r.answers[p.ID] = a
				f.checkQuorum(s, r)
			}
		})
	}
	f.checkQuorum(s, r)
}

func (f *Firehose) sendReports(s *shard, now time.Time) {
	for _, h := range sortedHashes(s.reports) {
		if r := s.reports[h]; r != nil {
			f.sendReport(s, r, now)
		}
	}
}

// weigh looks whether a quorum of a shard's owners has a report.
func (f *Firehose) checkQuorum(s *shard, r *report) {
	e := s.owners.Latest()
	if e == nil || e.Hash != r.epoch {
		return
	}
	took, idle, said := 0, 0, 0
	for _, p := range e.Owners {
		if a, ok := r.answers[p]; ok {
			said++
			if a.accepted {
				took++
			}
			if a.idle {
				idle++
			}
		}
	}
	if took < e.Quorum() || said < len(e.Owners) && f.clock.Now().Sub(r.createdAt) < reportRetry {
		return // some are still being told
	}
	delete(s.reports, r.hash)
	if idle == took {
		f.pauseReports(s, f.clock.Now())
	}
}

// rest leaves a shard alone to which nobody listens.
func (f *Firehose) pauseReports(s *shard, now time.Time) {
	s.pausedUntil = now.Add(idlePause)
	f.stats.Unheard += uint64(len(s.reports))
	clear(s.reports)
}

// urgeReport goes on with a report that is not through.
func (f *Firehose) retryReport(s *shard, hash owner.Hash, now time.Time) {
	r := s.reports[hash]
	if r == nil {
		return
	}
	if f.checkQuorum(s, r); s.reports[hash] == nil {
		return
	}
	if now.Sub(r.createdAt) > reportDeadline {
		delete(s.reports, hash)
		f.stats.Unreported++
		f.log.Warn("entry could not be reported to filters, because the owners of its shard did not answer", "shard", s.number)
		return
	}
	s.owners.Refresh() // they may be others by now
	f.sendReport(s, r, now)
	f.schedule(reportRetry, task{kind: taskRetryReport, shard: s.number, entry: hash})
}
