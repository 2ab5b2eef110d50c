package overlay

import (
	"time"

	"tidings/internal/env"
)

// A report by one member that another is dead only makes the receiver probe. A member that was
// wrong maxFalseReports times within falseReportMemory is ignored for the rest of that time:
// it has a bad connection or lies, and each false report costs every receiver a probe.
const (
	maxFalseReports   = 3
	falseReportMemory = time.Hour
	// maxReporters bounds the members whose false reports are counted. It is more than one
	// leaf holds.
	maxReporters = 256
)

// deathReports tracks the reports of other members that a member is dead.
type deathReports struct {
	pending      map[env.PeerID]env.PeerID // the reporter of each member that is being probed because of a report
	falseReports map[env.PeerID]falseReportCount
}

// falseReportCount counts the false reports of one peer since a time.
type falseReportCount struct {
	count int
	since time.Time
}

// reported records that a member is probed because another reported it dead.
func (d *deathReports) reported(id, reporter env.PeerID) { d.pending[id] = reporter }

// alive records that a member has spoken, so that a report of its death was false.
func (d *deathReports) alive(id env.PeerID, now time.Time) {
	if reporter, ok := d.pending[id]; ok {
		delete(d.pending, id)
		d.countFalse(reporter, now)
	}
}

// dead records that a member is indeed dead.
func (d *deathReports) dead(id env.PeerID) { delete(d.pending, id) }

// countFalse counts one false report.
func (d *deathReports) countFalse(reporter env.PeerID, now time.Time) {
	c := d.falseReports[reporter]
	if now.Sub(c.since) > falseReportMemory {
		if len(d.falseReports) >= maxReporters {
			d.prune(now)
		}
		c = falseReportCount{since: now}
	}
	c.count++
	if _, known := d.falseReports[reporter]; known || len(d.falseReports) < maxReporters {
		d.falseReports[reporter] = c
	}
}

func (d *deathReports) prune(now time.Time) {
	for id, c := range d.falseReports {
		if now.Sub(c.since) > falseReportMemory {
			delete(d.falseReports, id)
		}
	}
}

// trusts reports whether the death reports of a peer are still investigated.
func (d *deathReports) trusts(reporter env.PeerID, now time.Time) bool {
	c := d.falseReports[reporter]
	return c.count < maxFalseReports || now.Sub(c.since) > falseReportMemory
}
