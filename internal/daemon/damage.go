package daemon

import (
	"tidings/internal/locale"
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
var checkDisk = locale.Say("check the health of the disk")

// finding returns what is wrong, what was lost as far as that is known, and what to do; ok is false if there
// was no damage. It cannot name missing feeds: their names were in the lost records.
func (d storeDamage) finding(dir string) (f proxy.Finding, ok bool) {
	switch {
	case d.lost && d.complete && (d.repaired || d.restored > 0):
		return proxy.Finding{
			Level: levelNote,
			What:  locale.Say("the store was damaged or lost when the node started: no subscription is lost, because %s came back from the second copy, %s.second; missing articles come again from the network", locale.Say("%d missing records", d.restored), storeFile),
			Do:    checkDisk,
		}, true
	case d.lost && d.repaired:
		return proxy.Finding{
			Level: levelNote,
			What:  locale.Say("the store was damaged when the node started, and subscriptions may be lost: %s", d.remaining()),
			Do:    locale.Say("compare the list with that of your feed reader, and subscribe again to missing feeds; check the health of the disk; delete the damaged file in %s (%s.damaged-…) when all is well", dir, storeFile),
		}, true
	case d.repaired:
		return proxy.Finding{
			Level: levelNote,
			What:  locale.Say("the store was damaged when the node started: no subscription is lost; missing articles come again from the network"),
			Do:    checkDisk,
		}, true
	}
	return f, false
}

// remaining says how many subscriptions could be read.
func (d storeDamage) remaining() locale.Text {
	if d.subscriptions == 0 {
		return locale.Say("none could be read")
	}
	return locale.Say("%d subscriptions could be read, and missing articles come again from the network", d.subscriptions)
}
