package daemon

import (
	"fmt"

	"tidings/proxy"
)

// A damage is what befell the store before the node started, for people. The
// store's own words name records by their keys; they are for the debug log.
type storeDamage struct {
	repaired      bool // something was damaged when the store was opened
	lost          bool // with it, records may be gone
	subscriptions int  // subscriptions that are there
	restored      int  // records of them that came back from their second copy
	complete      bool // that was whole, so that none is lost
}

// diskHealth is what to do when all is well again.
const checkDisk = "check the health of the disk"

// finding says what is wrong, what was lost as far as anybody knows, and what to
// do; ok is false if all was well. Which feeds are missing was written in the
// records that are.
func (m storeDamage) finding(dir string) (f proxy.Finding, ok bool) {
	switch {
	case m.lost && m.complete && (m.repaired || m.restored > 0):
		return proxy.Finding{
			Level: levelNote,
			What:  fmt.Sprintf("the store was damaged or lost when the node started: no subscription is lost, because %s came back from the second copy, %s.second; missing articles come again from the network", proxy.Plural(m.restored, "missing record", "missing records"), storeFile),
			Do:    checkDisk,
		}, true
	case m.lost && m.repaired:
		return proxy.Finding{
			Level: levelNote,
			What:  "the store was damaged when the node started, and subscriptions may be lost: " + m.remaining(),
			Do:    fmt.Sprintf("compare the list with that of your feed reader, and subscribe again to missing feeds; check the health of the disk; delete the damaged file in %s (%s.damaged-…) when all is well", dir, storeFile),
		}, true
	case m.repaired:
		return proxy.Finding{
			Level: levelNote,
			What:  "the store was damaged when the node started: no subscription is lost; missing articles come again from the network",
			Do:    checkDisk,
		}, true
	}
	return f, false
}

// kept says what could be read.
func (m storeDamage) remaining() string {
	const rest = " could be read, and missing articles come again from the network"
	if m.subscriptions == 0 {
		return "none could be read"
	}
	return proxy.Plural(m.subscriptions, "subscription", "subscriptions") + rest
}
