package daemon

import (
	"fmt"

	"tidings/proxy"
)

// A storeDamage describes for people what happened to the store before the node started. The store itself
// names records by their keys; its texts go to the debug log.
type storeDamage struct {
	repaired      bool // something was damaged when the store was opened
	lost          bool // records may be missing
	subscriptions int  // subscriptions that could be read
	restored      int  // subscription records restored from the second copy
	complete      bool // the second copy was complete, so no subscription is lost
}

// checkDisk is the remedy if nothing is lost.
const checkDisk = "check the health of the disk"

// finding returns what is wrong, what was lost as far as that is known, and what to do; ok is false if there
// was no damage. It cannot name missing feeds: their names were in the lost records.
func (d storeDamage) finding(dir string) (f proxy.Finding, ok bool) {
	switch {
	case d.lost && d.complete && (d.repaired || d.restored > 0):
		return proxy.Finding{
			Level: levelNote,
			What:  fmt.Sprintf("the store was damaged or lost when the node started: no subscription is lost, because %s came back from the second copy, %s.second; missing articles come again from the network", proxy.Plural(d.restored, "missing record", "missing records"), storeFile),
			Do:    checkDisk,
		}, true
	case d.lost && d.repaired:
		return proxy.Finding{
			Level: levelNote,
			What:  "the store was damaged when the node started, and subscriptions may be lost: " + d.remaining(),
			Do:    fmt.Sprintf("compare the list with that of your feed reader, and subscribe again to missing feeds; check the health of the disk; delete the damaged file in %s (%s.damaged-…) when all is well", dir, storeFile),
		}, true
	case d.repaired:
		return proxy.Finding{
			Level: levelNote,
			What:  "the store was damaged when the node started: no subscription is lost; missing articles come again from the network",
			Do:    checkDisk,
		}, true
	}
	return f, false
}

// remaining says how many subscriptions could be read.
func (d storeDamage) remaining() string {
	const rest = " could be read, and missing articles come again from the network"
	if d.subscriptions == 0 {
		return "none could be read"
	}
	return proxy.Plural(d.subscriptions, "subscription", "subscriptions") + rest
}
