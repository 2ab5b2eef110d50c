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
	hash  owner.Hash // of the entry
	blob  []byte
	born  time.Time
	under owner.Hash // the epoch whose owners are being told; zero: nobody yet
	told  map[env.PeerID]answer
}

// An answer is what an owner said of a report.
type answer struct {
	took, idle bool // else it refused, or did not answer
}

const (
	// maxReports bounds the reports of a shard that wait; the oldest is given up. At the
	// paper's rate of a million feeds two minutes of one shard's are 720, of all
	// channels; a node leads a part of them.
	maxReports = 1024
	// reportFor is how long owners are tried: longer than it takes until one that died
	// is replaced.
	reportFor = 2 * time.Minute
	// reportAgain is the time between two looks at a report that is not through.
	reportAgain = 5 * time.Second
	// idleFor is how long a shard is left alone when nobody listens.
	idleFor = 30 * time.Second
)

// Report brings an entry that a quorum holds to all filters. epoch is that in which this
// node is the sequencer of its key.
func (f *Firehose) Report(d Dispatch, epoch *owner.Epoch) {
	now, e := f.clock.Now(), d.Entry
	if !f.on() || e.Items == 0 || epoch == nil || now.Sub(e.Time) > freshFor {
		return
	}
	s := f.shardOf(e.Key)
	if s.reports[e.Hash] != nil {
		return
	}
	f.stats.Reported++
	if now.Before(s.idle) {
		f.stats.Unheard++
		return
	}
	if len(s.reports) >= maxReports {
		f.giveUp(s)
	}
	r := &report{
		hash: e.Hash, born: now, told: map[env.PeerID]answer{},
		blob: marshal(&firehosepb.Report{Dispatch: d.bytes(), Epoch: epoch.Bytes()}),
	}
	s.reports[e.Hash] = r
	f.sendReport(s, r, now)
	f.after(reportAgain, task{kind: taskReport, shard: s.n, entry: e.Hash})
}

// giveUp gives up the oldest report of a shard.
func (f *Firehose) giveUp(s *shard) {
	oldest := slices.MinFunc(slices.Collect(maps.Values(s.reports)), func(a, b *report) int {
		return cmp.Or(a.born.Compare(b.born), bytes.Compare(a.hash[:], b.hash[:]))
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
	r.under = e.Hash
	for _, p := range s.owners.Owners() {
		if a, asked := r.told[p.ID]; asked && a.took {
			continue
		}
		if p.ID == f.self {
			r.told[p.ID] = answer{took: true, idle: f.idles(s, now)}
			f.carry(s, r.blob, f.self, now)
			continue
		}
		f.pass(s, p, r.blob, func(a answer) {
			if s.reports[r.hash] == r {
				r.told[p.ID] = a
				f.weigh(s, r)
			}
		})
	}
	f.weigh(s, r)
}

func (f *Firehose) sendReports(s *shard, now time.Time) {
	for _, h := range sortedHashes(s.reports) {
		if r := s.reports[h]; r != nil {
			f.sendReport(s, r, now)
		}
	}
}

// weigh looks whether a quorum of a shard's owners has a report.
func (f *Firehose) weigh(s *shard, r *report) {
	e := s.owners.Latest()
	if e == nil || e.Hash != r.under {
		return
	}
	took, idle, said := 0, 0, 0
	for _, p := range e.Owners {
		if a, ok := r.told[p]; ok {
			said++
			if a.took {
				took++
			}
			if a.idle {
				idle++
			}
		}
	}
	if took < e.Quorum() || said < len(e.Owners) && f.clock.Now().Sub(r.born) < reportAgain {
		return // some are still being told
	}
	delete(s.reports, r.hash)
	if idle == took {
		f.rest(s, f.clock.Now())
	}
}

// rest leaves a shard alone to which nobody listens.
func (f *Firehose) rest(s *shard, now time.Time) {
	s.idle = now.Add(idleFor)
	f.stats.Unheard += uint64(len(s.reports))
	clear(s.reports)
}

// urgeReport goes on with a report that is not through.
func (f *Firehose) urgeReport(s *shard, hash owner.Hash, now time.Time) {
	r := s.reports[hash]
	if r == nil {
		return
	}
	if f.weigh(s, r); s.reports[hash] == nil {
		return
	}
	if now.Sub(r.born) > reportFor {
		delete(s.reports, hash)
		f.stats.Unreported++
		f.log.Warn("entry could not be reported to filters, because the owners of its shard did not answer", "shard", s.n)
		return
	}
	s.owners.Refresh() // they may be others by now
	f.sendReport(s, r, now)
	f.after(reportAgain, task{kind: taskReport, shard: s.n, entry: hash})
}
