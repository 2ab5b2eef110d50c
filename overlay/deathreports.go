package overlay

import (
	"maps"
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

// alive records that a member has spoken, so that a report of its death was false.
func (d *deathReports) alive(id env.PeerID, now time.Time) {
	if reporter, ok := d.pending[id]; ok {
		delete(d.pending, id)
		d.countFalse(reporter, now)
	}
}

// countFalse counts one false report.
func (d *deathReports) countFalse(reporter env.PeerID, now time.Time) {
	c := d.falseReports[reporter]
	if now.Sub(c.since) > falseReportMemory {
		if len(d.falseReports) >= maxReporters {
			maps.DeleteFunc(d.falseReports, func(_ env.PeerID, c falseReportCount) bool { return now.Sub(c.since) > falseReportMemory })
		}
		c = falseReportCount{since: now}
	}
	c.count++
	if _, known := d.falseReports[reporter]; known || len(d.falseReports) < maxReporters {
		d.falseReports[reporter] = c
	}
}

// trusts reports whether the death reports of a peer are still investigated.
func (d *deathReports) trusts(reporter env.PeerID, now time.Time) bool {
	c := d.falseReports[reporter]
	return c.count < maxFalseReports || now.Sub(c.since) > falseReportMemory
}
